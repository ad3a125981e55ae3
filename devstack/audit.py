"""Compare the output with the produced orders: count lost and duplicated orders, and find wrong totals."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from airflow_stream_provider.kafka.answers import UNKNOWN_TOPIC_OR_PARTITION
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.lifecycle.errors import StreamError
from devstack.workload import Total

# So long a broker may be away in the middle of a topic.
SILENT_SECONDS = 60.0


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

    :raises StreamError: the topic does not exist, or Kafka does not answer, or does not go on for a minute.
    """
    from kafka import KafkaConsumer, TopicPartition

    found = end_offsets(brokers, topic)
    if not found:
        raise StreamError(f"There is no topic {topic}.", next_step="Check that the stream has run.", topic=topic)
    ends = {TopicPartition(topic, number): end for number, end in found.items()}
    consumer = KafkaConsumer(bootstrap_servers=brokers, allow_auto_create_topics=False, max_poll_records=10_000)
    try:
        consumer.assign(list(ends))
        consumer.seek_to_beginning()
        positions: dict[TopicPartition, int | None] = {}
        silent = 0.0
        while any((positions.get(partition) or 0) < end for partition, end in ends.items()):
            began = time.monotonic()
            polled = consumer.poll(timeout_ms=1000)
            before, positions = positions, {each: consumer.position(each, timeout_ms=1000) for each in ends}
            # Without what whoever reads this does with the records.
            silent = silent + time.monotonic() - began if positions == before else 0.0
            for partition, records in polled.items():
                for record in records:
                    if record.offset < ends[partition]:
                        yield TopicRecord(
                            record.partition, record.offset, record.key, record.value, record.timestamp / 1000
                        )
            if silent > SILENT_SECONDS:
                raise _silent(brokers, topic, {each.partition: at for each, at in positions.items()}, found)
    finally:
        consumer.close()


def end_offsets(brokers: str, topic: str) -> dict[int, int]:
    """Return the end offset of each partition of a topic: the number of its records if none was deleted.

    :return: nothing if the topic does not exist.
    :raises StreamError: Kafka does not answer.
    """
    from kafka import TopicPartition

    with KafkaClient("audit", {"bootstrap.servers": brokers}) as client:
        described = client.topics([topic])
        partitions = described[topic]["partitions"] if topic in described else ()
        wanted = {TopicPartition(topic, each["partition_index"]): -1 for each in partitions}
        ends = client.offsets(wanted)
    problems = [each for each in described.problems.values() if each.code != UNKNOWN_TOPIC_OR_PARTITION]
    for problem in (*problems, *ends.problems.values()):
        raise StreamError(
            f"The end of {topic} is not known: {problem.reason}", next_step="Look in the broker's log.", topic=topic
        )
    return {partition.partition: ends[partition].offset for partition in wanted}


def _silent(brokers: str, topic: str, positions: Mapping[int, int | None], ends: Mapping[int, int]) -> StreamError:
    return StreamError(
        f"{topic} was read up to {dict(positions)}, by partition, and ends at {dict(ends)}; for {SILENT_SECONDS:.0f} s "
        f"Kafka at {brokers} has sent no more.",
        next_step="See in the broker's log whether it lives, and read again.",
        topic=topic,
    )
