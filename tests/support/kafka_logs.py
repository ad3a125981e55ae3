"""What Kafka answers about logs with these records; what the real one answers is in the integration tests."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kafka import TopicPartition
from kafka.structs import OffsetAndTimestamp

from airflow_stream_provider.kafka.answers import Answers, Problem
from airflow_stream_provider.kafka.cluster_requests import LogFolder
from airflow_stream_provider.kafka.coordinators import Transaction
from airflow_stream_provider.kafka.records import RecordBatch
from airflow_stream_provider.lag import partition_offsets as logs

TOPIC_ID = UUID(int=7)
LOST = Problem(5, "It has no leader.")


@dataclass
class KafkaLogs:
    """Partitions of the topic `t`, each with its log start and the ages in seconds of the records after it."""

    logs: dict[int, tuple[int, Sequence[float]]]
    problems: dict[int, Problem] = field(default_factory=dict)
    lost_at: int | None = None
    retention: str | None = "3600000"
    ends: list[int] = field(default_factory=list)
    questions: int = 0
    held: int = 0
    open: list[Transaction] = field(default_factory=list)
    batches_of: dict[int, tuple[RecordBatch, ...]] = field(default_factory=dict)
    brokers: list[dict[str, Any]] = field(default_factory=list)
    addresses: tuple[str, ...] = ("kafka:9092",)
    conn_id: str = "kafka_default"
    topic_id: UUID = TOPIC_ID
    topic_names: tuple[str, ...] = ("t",)
    settings: dict[str, str] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    fetched: dict[TopicPartition, int] = field(default_factory=dict)
    now: float = field(default_factory=time.time)

    def topics(self, names: Iterable[str]) -> Answers[str, Any]:
        found: Answers[str, Any] = Answers()
        for name in names:
            if name in self.topic_names:
                numbers = {**self.logs, **self.problems}
                found[name] = {
                    "topic_id": self.topic_id,
                    "partitions": [{"partition_index": number, "leader_id": 1} for number in numbers],
                }
            else:
                found.problems[name] = Problem(3, f"There is no topic {name}.")
        return found

    def offsets(self, specs: Mapping[TopicPartition, int], read_committed: bool) -> Answers[TopicPartition, Any]:
        self.questions += 1
        found: Answers[TopicPartition, Any] = Answers()
        for tp, spec in specs.items():
            if tp.partition in self.problems or self.questions == self.lost_at:
                found.problems[tp] = self.problems.get(tp.partition, LOST)
            else:
                offset, at = self._answer(tp.partition, spec)
                hidden = self.held if read_committed and spec == logs.LATEST else 0
                found[tp] = OffsetAndTimestamp(offset - hidden, at, None)
        return found

    def _answer(self, partition: int, spec: int) -> tuple[int, int]:
        start, ages = self.logs[partition]
        if spec == logs.EARLIEST:
            return start, -1
        if spec == logs.LATEST:
            return (self.ends.pop(0) if self.ends else start + len(ages)), -1
        times = [round((self.now - age) * 1000) for age in ages]
        return next(((start + n, at) for n, at in enumerate(times) if at >= spec), (-1, -1))

    def batches(self, positions: Mapping[TopicPartition, int]) -> Answers[TopicPartition, tuple[RecordBatch, ...]]:
        self.fetched.update(positions)
        found: Answers[TopicPartition, tuple[RecordBatch, ...]] = Answers()
        for tp, at in positions.items():
            if tp.partition in self.batches_of:
                found[tp] = tuple(batch for batch in self.batches_of[tp.partition] if batch.last >= at)
            else:
                found.problems[tp] = Problem(29, "Kafka refuses us the records.")
        return found

    def transactions(self) -> Answers[int, tuple[Transaction, ...]]:
        found: Answers[int, tuple[Transaction, ...]] = Answers()
        found[1] = tuple(self.open)
        return found

    def configs(self, topics: Iterable[str], keys: Iterable[str]) -> Answers[str, Any]:
        found: Answers[str, Any] = Answers()
        for topic in topics:
            if self.retention is None:
                found.problems[topic] = Problem(29, "Kafka refuses us.")
            else:
                found[topic] = {"cleanup.policy": "delete", "retention.ms": self.retention, **self.settings}
        return found

    def describe_cluster(self) -> dict[str, Any]:
        return {"brokers": self.brokers}

    def log_folders(
        self, partitions: Iterable[TopicPartition], brokers: Iterable[int]
    ) -> Answers[int, tuple[LogFolder, ...]]:
        found: Answers[int, tuple[LogFolder, ...]] = Answers()
        for broker in brokers:
            sizes = {tp: self.sizes[tp.partition] for tp in partitions if tp.partition in self.sizes}
            found[broker] = (LogFolder("/logs", sizes=sizes),)
        return found

    def groups_offsets(self, groups: Iterable[str]) -> Answers[str, dict[TopicPartition, int]]:
        found: Answers[str, dict[TopicPartition, int]] = Answers()
        found.problems = {group: Problem(30, f"Kafka refuses us the group {group}.") for group in groups}
        return found
