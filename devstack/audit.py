"""Compare the output with the produced orders: count lost and duplicated orders, and find wrong totals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from airflow_stream_provider.lifecycle.errors import StreamError
from devstack.workload import Total


@dataclass(frozen=True)
class Records:
    """Counts of produced and delivered orders.

    :param produced: orders that were produced.
    :param delivered: records in the output: produced - lost + all duplicates.
    :param lost: produced orders that are not in the output.
    :param duplicated: duplicates, without those in `duplicated_by_failure`.
    :param duplicated_by_failure: duplicates from batches that ran again because their driver was killed.
    """

    produced: int
    delivered: int
    lost: int
    duplicated: int
    duplicated_by_failure: int


class TopicRecord(NamedTuple):
    """One record of a topic.

    :param at: when it was written, in seconds since 1970.
    """

    partition: int
    offset: int
    key: bytes
    value: bytes
    at: float


def count(
    produced: int, delivered: Iterable[tuple[int, float]], failures: Sequence[tuple[float, float]] = ()
) -> Records:
    """Count the deliveries of the orders 0 to `produced` - 1.

    :param produced: number of produced orders.
    :param delivered: id and write time of each record in the output, in seconds since 1970.
    :param failures: intervals, as start and end time, in which a batch ran again after a failure.
    :raises StreamError: the output has an id that was not produced.
    """
    copies = bytearray(produced)
    total = by_upgrade = by_failure = 0
    for number, at in delivered:
        if not 0 <= number < produced:
            raise StreamError(
                f"Order {number} was delivered, but only {produced} orders were produced.", next_step="Use new topics."
            )
        total += 1
        if copies[number]:
            failed = any(since <= at <= until for since, until in failures)
            by_failure += failed
            by_upgrade += not failed
        copies[number] = 1
    return Records(produced, total, copies.count(0), by_upgrade, by_failure)


def wrong_totals(expected: Mapping[str, Total], found: Mapping[str, Total]) -> dict[str, tuple[Total, Total | None]]:
    """Return the customers whose totals are wrong, each with the expected and the found total."""
    return {name: (total, found.get(name)) for name, total in expected.items() if found.get(name) != total}


def deliveries(brokers: str, topic: str) -> Iterator[tuple[int, float]]:
    """Yield the id and the write time (seconds since 1970) of every enriched order in a topic."""
    for record in read_topic(brokers, topic):
        yield int(record.key), record.at


def final_totals(brokers: str, topic: str) -> dict[str, Total]:
    """Return the last totals of each customer in a topic."""
    last = {record.key: record.value for record in read_topic(brokers, topic)}
    rows = {key.decode(): json.loads(value) for key, value in last.items()}
    return {customer: Total(row["orders"], row["cents"]) for customer, row in rows.items()}


def read_topic(brokers: str, topic: str) -> Iterator[TopicRecord]:
    """Yield all records in a topic, ordered within a partition.

    :raises StreamError: the topic does not exist.
    """
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=brokers, allow_auto_create_topics=False, max_poll_records=10_000)
    try:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        if not partitions:
            raise StreamError(f"There is no topic {topic}.", next_step="Check that the stream has run.", topic=topic)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for partition, records in consumer.poll(timeout_ms=1000).items():
                for record in records:
                    if record.offset < ends[partition]:
                        yield TopicRecord(
                            record.partition, record.offset, record.key, record.value, record.timestamp / 1000
                        )
    finally:
        consumer.close()


def end_offsets(brokers: str, topic: str) -> dict[int, int]:
    """Return the end offset of each partition of a topic: the number of its records if none was deleted."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=brokers, allow_auto_create_topics=False)
    try:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        return {partition.partition: end for partition, end in consumer.end_offsets(partitions).items()}
    finally:
        consumer.close()
