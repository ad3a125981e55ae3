"""How far a query has read, by its checkpoint or its driver's heartbeat, or a consumer group; and of which Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_stream_provider.checkpoint import Owner, check_owner, merged, read, recent
from airflow_stream_provider.checkpoint.logs import KafkaOffsets, kafka_offsets
from airflow_stream_provider.kafka.settings import OTHER_ADDRESSES
from airflow_stream_provider.lifecycle.errors import CheckpointError, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.kafka_source import KafkaSource, addresses

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.answers import Answers
    from airflow_stream_provider.kafka.client import KafkaClient

# Commits that Burrow looks at; Spark keeps the logs of at least 100 batches.
WINDOW = 10

LastCommits = Sequence[tuple[float, KafkaOffsets]]


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
    :param noted: topic ids by topic that were noted for this query before; see `lag.topic_ids`.
    :param accepted: those of them that are to be noted instead of what was.
    :param quiet_until: until when it may commit nothing more by its own promise, seconds since 1970; None = not known.
    :param servers: the bootstrap servers of each source, as ``host:port``; empty when unknown.
    """

    query: str
    offsets: KafkaOffsets = field(default_factory=dict)
    window: LastCommits = ()
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


@dataclass(frozen=True)
class CommittedOffsets:
    """The place where the committed offsets of one query of a stream are, and what else is known of the query.

    :param heartbeat: of the driver that held the stream last. It has the last commits that the driver has seen; of a
        query with very many partitions only the time of the last.
    :param checkpoint: location of the checkpoint, where this machine can read it: exact, with the times of the last
        commits. Default empty: the offsets of the heartbeat, which need no access to the checkpoint's storage.
    :param missing: NOT_READ for a query whose sources `assign` their partitions.
    :param owner: the stream that must own the checkpoint; another stream's checkpoint says nothing about this query.
    :param sources: all of its Kafka sources; empty when unknown.
    :param noted: topic ids by topic that were noted before, by Spark's id of the query; see `lag.topic_ids`.
    :param accepted: what its driver found instead, where a person has named the query's source as changed.
    """

    query: str
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    checkpoint: str = ""
    read_committed: bool = False
    missing: Missing = Missing.FROM_START
    owner: Owner | None = None
    sources: tuple[KafkaSource, ...] = ()
    noted: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    accepted: Mapping[str, str] = field(default_factory=dict)

    def read(self) -> Committed:
        """Read the offsets; whatever goes wrong is the `problem` of this query alone."""
        try:
            found = self._offsets()
            return self._with_ids(self._with_sources(found) if self.sources else found)
        except StreamError as error:
            return Committed(self.query, problem=error.message)
        except Exception as error:  # noqa: BLE001 - one damaged file must not hide the lag of all others
            return Committed(self.query, problem=f"How far {self.query} has read is unknown: {error!r}.")

    def _offsets(self) -> Committed:
        try:
            return self._from_checkpoint() if self.checkpoint else self._from_heartbeat()
        except CheckpointError as error:
            return Committed(self.query, problem=error.message)

    def _from_checkpoint(self) -> Committed:
        if self.owner is not None:
            check_owner(self.checkpoint, self.owner.stream, self.owner.control)
        found = read(self.checkpoint)
        window = recent(found, WINDOW)
        if not found.committed and not window:
            return Committed(self.query, problem=f"The checkpoint {found.path} has no batch yet.", id=found.id or "")
        if not found.committed and any(source.topics == {} for source in found.sources):
            # With failOnDataLoss=false or a topic pattern, Spark drops topics that were deleted.
            return Committed(self.query, problem=f"The query {self.query} reads no Kafka topic any more.")
        return self._found(found.committed, window, found.last_commit, found.id or "")

    def _from_heartbeat(self) -> Committed:
        query = self.heartbeat.query(self.query)
        if query is None or query.batch is None:
            return Committed(
                self.query, problem=f"The query {self.query} has committed no batch in its present driver."
            )
        if not query.committed:
            problem = f"The heartbeat has no offsets of {self.query}: with those of all queries it would be too large."
            return Committed(self.query, problem=problem, id=query.id)
        window = tuple((commit.at, _merged([commit.offsets])) for commit in query.commits)
        # A time without offsets says nothing about a partition's pace, only how long ago that was.
        window = window if all(offsets for _, offsets in window) else window[-1:]
        return self._found(_merged(query.committed), window, query.batch, query.id)

    def _found(self, offsets: KafkaOffsets, window: LastCommits, batch: int | None, query_id: str) -> Committed:
        progress = self.heartbeat.query(self.query)
        return Committed(
            self.query,
            offsets,
            window,
            batch,
            self.read_committed,
            self.missing,
            id=query_id,
            quiet_until=progress.quiet_until(window[-1][0]) if progress and window else None,
        )

    def _with_sources(self, found: Committed) -> Committed:
        """Add which Kafka the offsets are of and which topics are read uncommitted.

        A topic without committed offsets that a source subscribes to by name, such as one that a new release has added,
        is there without partitions: all its records wait, as Spark reads it from the first one.
        """
        # Those of another source, such as an event hub's, may have the same form.
        offsets, *others = [
            {topic: each for topic, each in one.items() if any(source.may_read(topic) for source in self.sources)}
            for one in (found.offsets, *(each for _, each in found.window))
        ]
        if offsets:
            named = (each for source in self.sources if source.option == "subscribe" for each in source.names)
            offsets = {**{topic: {} for topic in named}, **offsets}
        levels = {source.read_committed for source in self.sources}
        uncommitted = (topic for topic in offsets if len(levels) > 1 and not self._reads_committed(topic))
        return replace(
            found,
            offsets=offsets,
            window=tuple((at, each) for (at, _), each in zip(found.window, others, strict=True)),
            read_committed=True in levels,
            uncommitted=frozenset(uncommitted),
            servers=tuple(source.servers for source in self.sources),
        )

    def _reads_committed(self, topic: str) -> bool:
        return {source.read_committed for source in self.sources if source.may_read(topic)} == {True}

    def _with_ids(self, found: Committed) -> Committed:
        noted = self.noted.get(found.id, {})
        accepted = {topic: each for topic, each in self.accepted.items() if noted.get(topic, each) != each}
        return replace(found, noted={**noted, **accepted}, accepted=accepted)


def _merged(sources: Iterable[Any]) -> KafkaOffsets:
    return merged([kafka_offsets(json.dumps(source)) for source in sources])


def group_committed(group: str, answers: Answers[str, dict[TopicPartition, int]]) -> Committed:
    """Return the offsets of a consumer group. Kafka keeps no commit times, and deletes the offsets of a group without
    members after `offsets.retention.minutes`.

    Whether its consumers read committed records only is unknown, so the log end is the high watermark, as in Kafka's
    own tools.

    :param answers: of `KafkaClient.groups_offsets`, which was asked for this group.
    """
    if group in answers.problems:
        return Committed(group, problem=answers.problems[group].reason)
    found: dict[str, dict[int, int]] = {}
    assigned: dict[str, list[int]] = {}
    for partition, offset in answers[group].items():
        if offset >= 0:
            found.setdefault(partition.topic, {})[partition.partition] = offset
        else:
            assigned.setdefault(partition.topic, []).append(partition.partition)
    if not found:
        return Committed(group, problem=f"Kafka has no commit of a group {group}.", found=False)
    return Committed(group, found, missing=Missing.UNKNOWN, assigned=assigned, after_records=True)


K = TypeVar("K")


def refuse_others(client: KafkaClient, queries: Iterable[tuple[K, Committed]]) -> list[tuple[K, Committed]]:
    """Return the queries; instead of the offsets of one that reads another Kafka, the problem.

    The same Kafka is one that shares an address with the connection's bootstrap servers or with the brokers there. The
    brokers are asked for only where the bootstrap servers differ.
    """
    found = list(queries)
    known = [servers for _, query in found for servers in query.servers if servers]
    if not known:
        return found
    ours = set(client.addresses)
    if any(ours.isdisjoint(servers) for servers in known):
        brokers = client.describe_cluster()["brokers"]
        ours |= set(addresses(",".join(f"{broker['host']}:{broker['port']}" for broker in brokers)))
    return [(key, _refused(client, query, ours)) for key, query in found]


def _refused(client: KafkaClient, query: Committed, ours: set[str]) -> Committed:
    other = next((servers for servers in query.servers if servers and ours.isdisjoint(servers)), None)
    if other is None:
        return query
    problem = (
        f"The query {query.query} reads the Kafka at {','.join(other)}, which seems not to be the one of the "
        f"connection {client.conn_id!r} ({','.join(sorted(ours))}): name the connection of that Kafka in the stream's "
        "YAML, or, if both are the same Kafka, put the query's addresses into the connection's extra as "
        f"{OTHER_ADDRESSES}."
    )
    return Committed(query.query, problem=problem)
