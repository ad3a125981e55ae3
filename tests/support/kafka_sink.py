"""A topic with ledgers for one test, records of a batch without Spark, and readers of a topic.

The readers return what is committed, or everything.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from airflow_stream_provider.sinks.kafka import Kafka, kafka
from airflow_stream_provider.sinks.kafka_ledger import KafkaLedger
from airflow_stream_provider.sinks.kafka_topic import Record
from airflow_stream_provider.sinks.ledger import Target, Writer
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics
from tests.support.ledgers import MANAGED


def in_hand(cluster: Kafka, frame: Any) -> Any:
    """In place of `Kafka.records`: the frame is what Spark would have collected."""
    return frame


def numbers(begins: int, ends: int) -> list[Record]:
    """Return a record for each number."""
    return [Record(b"key %d" % number, bytearray(b"%d" % number)) for number in range(begins, ends)]


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


class Bus:
    """A topic of one test's own, with ledgers of it, in a cluster."""

    partitions = 3

    def __init__(self, cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster = cluster
        self.servers = cluster.servers
        self.topic = f"t{uuid.uuid4().hex}"
        self.kafka = kafka("bus", servers=cluster.servers)
        self.made: list[KafkaLedger] = []
        with cluster.client() as client:
            create_topics(client, {self.topic: self.partitions})
        monkeypatch.setattr(Kafka, "records", in_hand)

    def ledger(self, writer: Writer = MANAGED, **change: Any) -> Any:  # its frames are lists of records
        """Return a ledger that is claimed."""
        self.made.append(self.kafka.ledger(replace(writer, stream=self.topic, **change), Target(self.topic)))
        self.made[-1].claim()
        return self.made[-1]

    def read(self, **how: Any) -> list[Any]:
        """Return the topic's records."""
        return read(self.servers, self.topic, self.partitions, **how)

    def committed(self) -> list[int]:
        """Return the numbers in the records that are committed."""
        return values(self.read())

    def everything(self) -> list[int]:
        """Return the numbers in all records."""
        return values(self.read(all_of_them=True))
