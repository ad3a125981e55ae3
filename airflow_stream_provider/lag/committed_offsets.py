"""How far a stream has read: from Spark's checkpoint, a consumer group, or the driver's heartbeat."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from airflow_stream_provider.checkpoint import Owner, check_owner, merged, read, recent
from airflow_stream_provider.checkpoint.logs import kafka_offsets
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.client import KafkaClient
    from airflow_stream_provider.kafka.requests import Answers

# Burrow's window. Spark keeps at least 100 batches.
WINDOW = 10

Offsets = Mapping[str, Mapping[int, int]]


class Missing(Enum):
    """What it means that a partition of a topic that is read has no offset."""

    FROM_START = "from_start"  # it will be read from its first record: Spark finds new partitions
    NOT_READ = "not_read"  # a source with `assign` reads the partitions it was given
    UNKNOWN = "unknown"  # a group's `auto.offset.reset` decides, and only its consumers know it


@dataclass(frozen=True)
class Committed:
    """Where one query stands.

    :param offsets: by topic and partition, the offset of the first record that is not committed.
    :param window: time (seconds since 1970) and offsets of the last commits, oldest first; empty when not known.
    :param batch: the last committed batch.
    :param read_committed: whether the query reads Kafka with that isolation level, and so up to the last stable offset.
    :param missing: what is to be thought of a partition that is not in `offsets`, and whose topic is.
    :param problem: why the offsets are not known, for a person.
    :param found: whether anybody has ever committed under that name.
    """

    query: str
    offsets: Offsets = field(default_factory=dict)
    window: tuple[tuple[float, Offsets], ...] = ()
    batch: int | None = None
    read_committed: bool = False
    missing: Missing = Missing.FROM_START
    problem: str = ""
    found: bool = True


class CommittedOffsets(Protocol):
    """A place that says how far a query has read."""

    def read(self) -> Committed:
        """Return it; a place that cannot say gives the reason as `problem`."""


@dataclass(frozen=True)
class CheckpointOffsets:
    """Spark's own checkpoint: the truth, with the times of the last commits.

    :param missing: NOT_READ for a query whose sources `assign` their partitions.
    :param owner: the stream it should belong to; a checkpoint of another one says nothing about this query.
    """

    query: str
    location: str
    read_committed: bool = False
    missing: Missing = Missing.FROM_START
    owner: Owner | None = None

    def read(self) -> Committed:
        """Read the logs of the checkpoint."""
        try:
            if self.owner is not None:
                check_owner(self.location, self.owner.stream, self.owner.control)
            found = read(self.location)
            window = recent(found, WINDOW)
        except CheckpointError as error:
            return Committed(self.query, problem=error.message)
        if not found.committed and not window:
            return Committed(self.query, problem=f"The checkpoint {found.path} has no batch yet.")
        if not found.committed and any(source.topics == {} for source in found.sources):
            # Spark drops topics that were deleted, under failOnDataLoss=false and with patterns.
            return Committed(self.query, problem=f"The query {self.query} reads no topic of Kafka any more.")
        return Committed(self.query, found.committed, window, found.last_commit, self.read_committed, self.missing)


@dataclass(frozen=True)
class HeartbeatOffsets:
    """What the driver says of its query: fresh, and needs no access to the checkpoint's storage; no window.

    :param heartbeat: the heartbeat of the driver that held the stream last.
    """

    query: str
    heartbeat: Heartbeat
    read_committed: bool = False
    missing: Missing = Missing.FROM_START

    def read(self) -> Committed:
        """Look the query up in the heartbeat."""
        query = self.heartbeat.query(self.query)
        if query is None or query.batch is None:
            return Committed(
                self.query, problem=f"The query {self.query} has committed no batch in its present driver."
            )
        sources = [kafka_offsets(json.dumps(source)) for source in query.committed]
        return Committed(self.query, merged(sources), (), query.batch, self.read_committed, self.missing)


@dataclass(frozen=True)
class GroupOffsets:
    """A consumer group of Kafka. It tells no times, and forgets a group `offsets.retention.minutes` after its end.

    Whether its consumers read committed records only is not known: the end is the high watermark, as in Kafka's tools.

    :param fetched: what `KafkaClient.groups_offsets` has just answered, for this group among others; None: ask.
    """

    client: KafkaClient
    group: str
    fetched: Answers[str, dict[TopicPartition, int]] | None = None

    def read(self) -> Committed:
        """Ask the group's coordinator.

        :raises BrokerUnreachable: Kafka does not answer.
        """
        answers = self.client.groups_offsets([self.group]) if self.fetched is None else self.fetched
        if self.group in answers.problems:
            return Committed(self.query, problem=answers.problems[self.group].reason)
        found: dict[str, dict[int, int]] = {}
        for partition, offset in answers[self.group].items():
            found.setdefault(partition.topic, {})[partition.partition] = offset
        if not found:
            return Committed(self.query, problem=f"There is no commit of a group {self.group}.", found=False)
        return Committed(self.query, found, missing=Missing.UNKNOWN)

    @property
    def query(self) -> str:
        """The group's name stands for the query's."""
        return self.group
