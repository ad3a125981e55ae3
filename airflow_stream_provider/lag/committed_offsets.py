"""How far a stream has read: from Spark's checkpoint, a consumer group, or the driver's heartbeat."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from airflow_stream_provider.checkpoint import Owner, check_owner, merged, read, recent
from airflow_stream_provider.checkpoint.logs import KafkaOffsets, kafka_offsets
from airflow_stream_provider.lifecycle.errors import CheckpointError, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.answers import Answers
    from airflow_stream_provider.kafka.client import KafkaClient

# Commits that Burrow looks at; Spark keeps the logs of at least 100 batches.
WINDOW = 10


class Missing(Enum):
    """The meaning of a partition that is read and has no committed offset."""

    FROM_START = "from_start"  # Spark will discover it and read it from its first record
    NOT_READ = "not_read"  # a source with `assign` reads only the partitions it was given
    UNKNOWN = "unknown"  # the consumers' `auto.offset.reset` decides, which Kafka does not know


@dataclass(frozen=True)
class Committed:
    """The committed offsets of one query, or of a consumer group.

    :param offsets: by topic and partition, the offset of the first record that is not committed yet.
    :param window: time (seconds since 1970) and offsets of the last commits, oldest first; empty when unknown.
    :param batch: the last committed batch.
    :param read_committed: whether the query reads with that isolation level, and so only to the last stable offset.
    :param missing: what a partition means that is not in `offsets` although its topic is.
    :param assigned: by topic, partitions that members of a group read although no commit of theirs is known.
    :param problem: a sentence that says why the offsets are unknown.
    :param found: False when Kafka has no commit of this group.
    :param after_records: the offsets may be those after the last record, before the marker that ends its transaction.
    :param uncommitted: topics that are read with the other isolation level all the same.
    :param id: Spark's id of the query, which its checkpoint keeps; empty when unknown.
    :param noted: topic ids by topic that were noted for this query before; see `lag.targets`.
    :param accepted: those of them that are to be noted instead of what was.
    :param quiet_until: until when it may commit nothing more by its own promise, seconds since 1970; None = not known.
    :param servers: the bootstrap servers of each source, as ``host:port``; empty when unknown.
    """

    query: str
    offsets: KafkaOffsets = field(default_factory=dict)
    window: tuple[tuple[float, KafkaOffsets], ...] = ()
    batch: int | None = None
    read_committed: bool = False
    missing: Missing = Missing.FROM_START
    assigned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    problem: str = ""
    found: bool = True
    after_records: bool = False
    uncommitted: frozenset[str] = frozenset()
    servers: tuple[tuple[str, ...], ...] = ()
    id: str = ""
    noted: Mapping[str, str] = field(default_factory=dict)
    accepted: Mapping[str, str] = field(default_factory=dict)
    quiet_until: float | None = None

    def committed(self, partition: TopicPartition) -> int | None:
        """Return a partition's committed offset; None when none is known."""
        return self.offsets.get(partition.topic, {}).get(partition.partition)

    def reads_committed(self, topic: str) -> bool:
        """Return whether only committed records of a topic are read."""
        return self.read_committed and topic not in self.uncommitted


class CommittedOffsets(Protocol):
    """A place where the committed offsets of a query can be read."""

    @property
    def query(self) -> str:
        """The query's name."""

    def read(self) -> Committed:
        """Read the offsets; when they are unknown, `problem` says why."""


def read_safely(source: CommittedOffsets) -> Committed:
    """Read the offsets; whatever goes wrong is the problem of this query alone."""
    try:
        return source.read()
    except StreamError as error:
        return Committed(source.query, problem=error.message)
    except Exception as error:  # noqa: BLE001 - one damaged file must not hide the lag of all others
        return Committed(source.query, problem=f"How far {source.query} has read is unknown: {error!r}.")


@dataclass(frozen=True)
class CheckpointOffsets:
    """Offsets from Spark's checkpoint: exact, with the times of the last commits.

    :param missing: NOT_READ for a query whose sources `assign` their partitions.
    :param owner: the stream that must own the checkpoint; another stream's checkpoint says nothing about this query.
    """

    query: str
    location: str
    read_committed: bool = False
    missing: Missing = Missing.FROM_START
    owner: Owner | None = None

    def read(self) -> Committed:
        """Read the offset and commit logs."""
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
            # With failOnDataLoss=false or a topic pattern, Spark drops topics that were deleted.
            return Committed(self.query, problem=f"The query {self.query} reads no Kafka topic any more.")
        offsets = Committed(self.query, found.committed, window, found.last_commit, self.read_committed, self.missing)
        return replace(offsets, id=found.id or "")


@dataclass(frozen=True)
class HeartbeatOffsets:
    """Offsets from the driver's heartbeat: need no access to the checkpoint's storage.

    The last commits are those that the driver has seen; of a query with very many partitions only the time of the last.

    :param heartbeat: the heartbeat of the driver that held the stream last.
    """

    query: str
    heartbeat: Heartbeat
    read_committed: bool = False
    missing: Missing = Missing.FROM_START

    def read(self) -> Committed:
        """Find the query in the heartbeat."""
        query = self.heartbeat.query(self.query)
        if query is None or query.batch is None:
            return Committed(
                self.query, problem=f"The query {self.query} has committed no batch in its present driver."
            )
        if not query.committed:
            problem = f"The heartbeat has no offsets of {self.query}: with those of all queries it would be too large."
            return Committed(self.query, problem=problem)
        sources = [kafka_offsets(json.dumps(source)) for source in query.committed]
        window = tuple((commit.at, merged([kafka_offsets(json.dumps(commit.offsets))])) for commit in query.commits)
        # A time without offsets says nothing about a partition's pace, only how long ago that was.
        window = window if all(offsets for _, offsets in window) else window[-1:]
        offsets = Committed(self.query, merged(sources), window, query.batch, self.read_committed, self.missing)
        return replace(offsets, id=query.id)


@dataclass(frozen=True)
class GroupOffsets:
    """Offsets of a consumer group. Kafka keeps no commit times, and deletes the offsets of a group without members
    after `offsets.retention.minutes`.

    Whether its consumers read committed records only is unknown, so the log end is the high watermark, as in Kafka's
    own tools.

    :param fetched: answer of `KafkaClient.groups_offsets` that includes this group; None: `read` asks for it.
    """

    client: KafkaClient
    group: str
    fetched: Answers[str, dict[TopicPartition, int]] | None = None

    def read(self) -> Committed:
        """Return the group's offsets, asking its coordinator unless they were fetched.

        :raises BrokerUnreachable: Kafka does not answer.
        """
        answers = self.client.groups_offsets([self.group]) if self.fetched is None else self.fetched
        if self.group in answers.problems:
            return Committed(self.query, problem=answers.problems[self.group].reason)
        found: dict[str, dict[int, int]] = {}
        assigned: dict[str, list[int]] = {}
        for partition, offset in answers[self.group].items():
            if offset >= 0:
                found.setdefault(partition.topic, {})[partition.partition] = offset
            else:
                assigned.setdefault(partition.topic, []).append(partition.partition)
        if not found:
            return Committed(self.query, problem=f"Kafka has no commit of a group {self.group}.", found=False)
        return Committed(self.query, found, missing=Missing.UNKNOWN, assigned=assigned, after_records=True)

    @property
    def query(self) -> str:
        """The group, which a report lists like a query."""
        return self.group
