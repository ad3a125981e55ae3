"""Count what came out against what went in: lost, delivered twice, and totals that are wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_stream_provider.lifecycle.errors import StreamError
from demo.workload import Total


@dataclass(frozen=True)
class Records:
    """How many orders went in and came out.

    `delivered` counts every record of the output, so produced - lost + all duplicates. `duplicated` is without
    `duplicated_by_failure`: copies that a batch wrote that had to run again because its driver was killed in it.
    """

    produced: int
    delivered: int
    lost: int
    duplicated: int
    duplicated_by_failure: int


def count(
    produced: int, delivered: Iterable[tuple[int, float]], failures: Sequence[tuple[float, float]] = ()
) -> Records:
    """Count deliveries of the orders 0 to `produced`, each given as its id and when it was written.

    :param failures: times, from and to, in which a batch that a failure had cut off ran again.
    :raises StreamError: an id that was never produced came out.
    """
    copies = bytearray(produced)
    total = by_upgrade = by_failure = 0
    for number, at in delivered:
        if not 0 <= number < produced:
            raise StreamError(
                f"Order {number} came out, but only {produced} were produced.", next_step="Use fresh topics."
            )
        total += 1
        if copies[number]:
            failed = any(since <= at <= until for since, until in failures)
            by_failure += failed
            by_upgrade += not failed
        copies[number] = 1
    return Records(produced, total, copies.count(0), by_upgrade, by_failure)


def wrong_totals(expected: Mapping[str, Total], found: Mapping[str, Total]) -> dict[str, tuple[Total, Total | None]]:
    """Return the customers whose totals differ, each with what was expected and found."""
    return {name: (total, found.get(name)) for name, total in expected.items() if found.get(name) != total}


def deliveries(brokers: str, topic: str) -> Iterator[tuple[int, float]]:
    """Yield the id and the write time (s) of every enriched order in a topic."""
    for key, _, at in read_topic(brokers, topic):
        yield int(key), at


def final_totals(brokers: str, topic: str) -> dict[str, Total]:
    """Return the last totals of every customer in a topic."""
    last = {key: value for key, value, _ in read_topic(brokers, topic)}
    rows = {key.decode(): json.loads(value) for key, value in last.items()}
    return {customer: Total(row["orders"], row["cents"]) for customer, row in rows.items()}


def read_topic(brokers: str, topic: str) -> Iterator[tuple[bytes, bytes, float]]:
    """Yield key, value and write time (s) of what a topic holds now; in order within a partition, thus for a key.

    :raises StreamError: there is no such topic.
    """
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=brokers, allow_auto_create_topics=False, max_poll_records=10_000)
    try:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        if not partitions:
            raise StreamError(f"There is no topic {topic}.", next_step="Look whether the stream ever ran.", topic=topic)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for partition, records in consumer.poll(timeout_ms=1000).items():
                for record in records:
                    if record.offset < ends[partition]:
                        yield record.key, record.value, record.timestamp / 1000
    finally:
        consumer.close()


def end_offsets(brokers: str, topic: str) -> dict[int, int]:
    """Return how many records each partition of a topic has."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=brokers, allow_auto_create_topics=False)
    try:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        return {partition.partition: end for partition, end in consumer.end_offsets(partitions).items()}
    finally:
        consumer.close()
