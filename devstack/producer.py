"""Produce numbered orders to Kafka at a steady rate."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any

from airflow_stream_provider.lifecycle.errors import StreamError
from devstack.workload import encode

# Short, so that batches of one second get an even flow.
TICK_SECONDS = 0.05


class Producer:
    """Sends orders 0, 1, 2, … from its own thread, each exactly once and acknowledged.

    As a context manager it starts and stops with the `with` block.

    :param brokers: bootstrap servers of Kafka.
    :param topic: topic for the orders.
    :param rate: orders per second on average. After a pause of the machine the missing orders are sent at once.
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
        """Start sending. Does nothing if it was started before."""
        if self._thread.ident is None:
            self._thread.start()

    def __enter__(self) -> Producer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._end()

    def stop(self) -> int:
        """Stop and return the number of acknowledged orders, n; their ids are 0 to n - 1.

        :raises StreamError: an order was not acknowledged, so it is not known which orders Kafka has.
        """
        self._end()
        self.check()
        return self.sent

    def check(self) -> None:
        """Check that all orders could be produced so far.

        :raises StreamError: one could not.
        """
        if self._error is not None:
            raise StreamError(
                f"Order {self.sent} or one before it could not be produced: {self._error}.",
                next_step="Read the broker's log. The counts of this run are not valid.",
            ) from self._error

    def _end(self) -> None:
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _connect(self) -> Any:
        from kafka import KafkaProducer

        return KafkaProducer(bootstrap_servers=self._brokers)  # its defaults: idempotent, acks=all

    def _run(self) -> None:
        try:
            producer = self._connect()
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
                self._send(producer, self.sent)
                self.sent += 1
        producer.flush()

    def _send(self, producer: Any, number: int) -> None:
        key, value = encode(number)
        producer.send(self._topic, key=key, value=value).add_errback(self._failed)

    def _failed(self, error: BaseException) -> None:
        self._error = self._error or error
