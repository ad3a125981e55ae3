"""Produce orders through everything that befalls the broker, and say of each whether it was acknowledged."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from devstack.producer import Producer
from devstack.workload import encode

JOURNAL = "produced.jsonl"
"""Name of the producer's journal in the folder of a run."""
# Kafka's own default. No broker is away for so long here, so that few orders are unknown.
PATIENCE_SECONDS = 120.0


class SurvivingProducer(Producer):
    """A producer that goes on while the broker is away. Each order is sent once, and never again.

    Its journal has a line for each order: ``[number, partition, offset]`` of one that was acknowledged, ``[number]`` of
    one that is unknown, because its time ran out: it may be in the topic or not.

    :param brokers: bootstrap servers of Kafka; one must be there at the start.
    :param topic: topic for the orders.
    :param rate: orders per second. While the broker is away they wait in memory (32 MB, minutes of them).
    :param journal: file for the journal; replaced.
    :param patience: seconds in which an order is acknowledged or unknown; default 120.
    """

    def __init__(self, brokers: str, topic: str, rate: int, journal: Path, patience: float = PATIENCE_SECONDS) -> None:
        super().__init__(brokers, topic, rate)
        self._patience = patience
        self._lock = threading.Lock()
        self._journal = journal.open("w")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        super().__exit__(kind, error, tb)
        self._journal.close()

    def stop(self) -> int:
        """Stop sending, wait until every order is acknowledged or unknown, and return how many orders were sent.

        :raises StreamError: no broker was there at the start, or the journal cannot be written.
        """
        sent = super().stop()
        self._journal.close()
        return sent

    def _connect(self) -> Any:
        from kafka import KafkaProducer

        milliseconds = int(self._patience * 1000)
        return KafkaProducer(
            bootstrap_servers=self._brokers,
            delivery_timeout_ms=milliseconds,
            request_timeout_ms=min(30_000, milliseconds),
            # It grows while the broker is away: nobody waits for half a minute after its return.
            reconnect_backoff_max_ms=1000,
        )

    def _send(self, producer: Any, number: int) -> None:
        from kafka.errors import KafkaError

        key, value = encode(number)
        try:
            future = producer.send(self._topic, key=key, value=value)
        except KafkaError:
            self._note(number)
            return
        future.add_callback(lambda found: self._note(number, found.partition, found.offset))
        future.add_errback(lambda error: self._note(number))

    def _note(self, *line: int) -> None:
        """Write a line; called from two threads."""
        with self._lock:
            self._journal.write(json.dumps(line) + "\n")


@dataclass(frozen=True)
class Produced:
    """What a producer's journal says.

    :param acknowledged: partition and offset of the acknowledged orders, by number.
    :param unknown: the other orders that were sent.
    """

    acknowledged: Mapping[int, tuple[int, int]]
    unknown: frozenset[int]


def read_journal(path: Path) -> Produced:
    """Return what a producer's journal says; an order without a line, as of a producer that was killed, is unknown."""
    acknowledged: dict[int, tuple[int, int]] = {}
    last = -1
    with path.open() as lines:
        for line in lines:
            number, *place = json.loads(line)
            last = max(last, number)
            if place:
                acknowledged[number] = (place[0], place[1])
    return Produced(acknowledged, frozenset(range(last + 1)) - acknowledged.keys())
