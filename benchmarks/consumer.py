"""A consumer of its own process and clock: when each record of a topic arrived."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from itertools import pairwise
from multiprocessing.connection import Connection
from types import TracebackType


class Consumer:
    """Reads a topic from its beginning, committed records only, in a process of its own while its `with` block runs.

    `arrivals` and `numbers` are there after the block: the monotonic time at which each record arrived (one clock for
    all processes of a machine), and the number in its key.
    """

    def __init__(self, brokers: str, topic: str) -> None:
        self.arrivals: list[float] = []
        self.numbers: list[int] = []
        spawn = multiprocessing.get_context("spawn")
        self._here, there = spawn.Pipe()
        self._process = spawn.Process(target=_consume, args=(brokers, topic, there), daemon=True)

    def __enter__(self) -> Consumer:
        self._process.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._here.send("stop")
        self.arrivals, self.numbers = self._here.recv()
        self._process.join()

    def longest(self, since: float, until: float) -> float:
        """Return the longest time between two successive records of which the later one arrived in a window."""
        return longest(self.arrivals, since, until)


def longest(times: Sequence[float], since: float, until: float) -> float:
    """Return the longest time between two successive ones of which the later is after `since`, up to `until`.

    :raises ValueError: there are none.
    """
    return max(later - earlier for earlier, later in pairwise(times) if since < later <= until)


def _consume(brokers: str, topic: str, pipe: Connection) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=brokers, isolation_level="read_committed", max_poll_records=10_000)
    partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    arrivals: list[float] = []
    numbers: list[int] = []
    # Ends with its parent, too: the pipe breaks then.
    while not pipe.poll():
        found = consumer.poll(timeout_ms=200)
        at = time.monotonic()
        for records in found.values():
            arrivals += [at] * len(records)
            numbers += [int(record.key) for record in records]
    pipe.recv()
    pipe.send((arrivals, numbers))
    consumer.close()
