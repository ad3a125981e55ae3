"""Produce numbered orders at a steady rate."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any

from airflow_stream_provider.lifecycle.errors import StreamError
from demo.workload import encode

# Short enough that a streaming batch of one second sees a smooth flow.
TICK_SECONDS = 0.05


class Producer:
    """Sends orders 0, 1, 2, … from a thread of its own, from `start` to `stop`, each exactly once and acknowledged.

    As a context manager it starts at once and stops at the end.

    :param rate: orders per second on average; what a pause of the machine held up is caught up at once.
    """

    def __init__(self, brokers: str, topic: str, rate: int) -> None:
        self.rate = rate
        self.sent = 0
        self._brokers = brokers
        self._topic = topic
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def start(self) -> None:
        """Begin; nothing happens when it has begun."""
        if self._thread.ident is None:
            self._thread.start()

    def __enter__(self) -> Producer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._end()

    def stop(self) -> int:
        """Stop, and return how many orders the broker has acknowledged: their ids are 0 up to this number.

        :raises StreamError: one was not acknowledged, so that what must come out is not known.
        """
        self._end()
        self.check()
        return self.sent

    def check(self) -> None:
        """Raise StreamError when an order could not be produced."""
        if self._error is not None:
            raise StreamError(
                f"Order {self.sent} or one before it could not be produced: {self._error}.",
                next_step="Look at the broker's log; the counts of this run mean nothing.",
            ) from self._error

    def _end(self) -> None:
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        from kafka import KafkaProducer

        try:
            producer = KafkaProducer(bootstrap_servers=self._brokers)  # idempotent, acks=all: its defaults
            try:
                self._send_all(producer)
            finally:
                producer.close()
        except Exception as error:  # noqa: BLE001 - shown by check()
            self._error = error

    def _send_all(self, producer: Any) -> None:
        started = time.monotonic()
        while not self._stopped.wait(TICK_SECONDS) and self._error is None:
            due = int((time.monotonic() - started) * self.rate)
            while self.sent < due:
                key, value = encode(self.sent)
                producer.send(self._topic, key=key, value=value).add_errback(self._failed)
                self.sent += 1
        producer.flush()

    def _failed(self, error: BaseException) -> None:
        self._error = self._error or error
