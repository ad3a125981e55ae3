"""Records of a batch without Spark, and readers of a topic: of what is committed, and of everything."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from airflow_stream_provider.sinks.kafka import Kafka
from airflow_stream_provider.sinks.kafka_topic import Record
from airflow_stream_provider.sinks.ledger import Batch, Writer

MANAGED = Writer("orders", "daily", "one.a", control="log", hold=4)
PLAIN = Writer("orders", "daily", "a plain job")


def in_hand(cluster: Kafka, frame: Any) -> Any:
    """In place of `Kafka.records`: the frame is what Spark would have collected."""
    return frame


def numbers(begins: int, ends: int) -> list[Record]:
    """Return a record for each number."""
    return [Record(b"key %d" % number, bytearray(b"%d" % number)) for number in range(begins, ends)]


def batch(number: int, begins: int, ends: int, query: str = "q1") -> Batch:
    """Return a batch of this number, by its offsets."""
    return Batch(query, number, [{"orders": {"0": begins}}], [{"orders": {"0": ends}}])


def read(
    servers: str, topic: str, partitions: int, *, all_of_them: bool = False, begins: Mapping[int, int] | None = None
) -> list[Any]:
    """Return a topic's records, to the end of what is there now.

    :param all_of_them: also those of transactions that were not committed.
    :param begins: offsets by partition at which it begins; default: the first one.
    """
    level = "read_uncommitted" if all_of_them else "read_committed"
    settings = {"bootstrap_servers": servers, "enable_auto_commit": False, "isolation_level": level}
    found: list[Any] = []
    with contextlib.closing(KafkaConsumer(**settings)) as consumer:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        for number, offset in (begins or {}).items():
            consumer.seek(TopicPartition(topic, number), offset)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(timeout_ms=500).values():
                found += [each for each in records if each.offset < ends[TopicPartition(topic, each.partition)]]
    return found


def values(records: Sequence[Any]) -> list[int]:
    """Return the numbers that records have as values, sorted."""
    return sorted(int(record.value) for record in records)
