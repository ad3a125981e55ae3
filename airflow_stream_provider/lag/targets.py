"""Name whose lag is measured and where it reports its offsets, and check that it reads this Kafka.

Kafka gives each topic an id of its own. Once the new log has passed the old offset, nothing else shows that records
were skipped. The memory of topic ids belongs to Spark's id of the query, which a checkpoint keeps: it survives drivers,
and a query with a new checkpoint begins anew.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_stream_provider.checkpoint import Owner, recorded_form
from airflow_stream_provider.checkpoint.location import local_path
from airflow_stream_provider.checkpoint.logs import KafkaOffsets
from airflow_stream_provider.kafka.settings import OTHER_ADDRESSES
from airflow_stream_provider.lag.committed_offsets import (
    CheckpointOffsets,
    Committed,
    CommittedOffsets,
    HeartbeatOffsets,
    Missing,
)
from airflow_stream_provider.lifecycle.changed_checkpoints import Change, locations
from airflow_stream_provider.lifecycle.errors import CheckpointError, Damaged
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.kafka_source import KafkaSource, addresses, kafka_sources
from airflow_stream_provider.lifecycle.record import MAX_BYTES
from airflow_stream_provider.lifecycle.state import Incarnation, StreamState
from airflow_stream_provider.lifecycle.stored import parse_object

if TYPE_CHECKING:
    from airflow_stream_provider.control.store import Store
    from airflow_stream_provider.kafka.client import KafkaClient
    from airflow_stream_provider.lag.report import LagReport

log = logging.getLogger(__name__)

# Queries that are remembered, if they fit into MAX_BYTES; those that were noted first are forgotten first.
KEPT = 200

# By Spark's id of the query: id by topic.
TopicIds = Mapping[str, Mapping[str, str]]


def read(store: Store) -> TopicIds:
    """Return what is remembered; nothing where nothing was noted yet, or where the file is damaged.

    :raises ControlUnavailable: the control folder cannot be read now.
    """
    try:
        data = store.topic_ids()
        queries = parse_object(data)["queries"] if data is not None else {}
        return {
            str(query): {str(topic): str(each) for topic, each in topics.items()} for query, topics in queries.items()
        }
    except (Damaged, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("The ids of the topics are damaged; beginning without them: %s", error)
        return {}


def note(store: Store, report: LagReport, accepted: TopicIds | None = None) -> None:
    """Remember the topics that a report names for the first time; those of before keep their ids.

    :param accepted: ids that count instead of those of before; see `Committed`.
    :raises ControlUnavailable: it cannot be written now.
    """
    before = read(store)
    seen = {query.id: query.topic_ids for query in report.queries if query.id}
    new = accepted or {}
    now = {**before, **{query: {**ids, **before.get(query, {}), **new.get(query, {})} for query, ids in seen.items()}}
    if now != before:
        kept = list(now.items())[-KEPT:]
        while len(data := json.dumps({"queries": dict(kept)}).encode()) > MAX_BYTES:
            kept = kept[len(kept) // 2 + 1 :]
        store.put_topic_ids(data)


def recreated(noted: Mapping[str, str], found: Mapping[str, str]) -> tuple[str, ...]:
    """Return the topics whose id is another one than was noted; a topic without both ids is none of them."""
    return tuple(topic for topic, each in sorted(found.items()) if noted.get(topic, each) != each)


K = TypeVar("K")


@dataclass(frozen=True)
class SourcedOffsets:
    """Offsets of a query whose Kafka sources are known.

    :param sources: all of its Kafka sources.
    """

    offsets: CommittedOffsets
    sources: tuple[KafkaSource, ...]

    @property
    def query(self) -> str:
        """The query's name."""
        return self.offsets.query

    def read(self) -> Committed:
        """Read the offsets, and add which Kafka they are of and which topics are read uncommitted.

        A topic without committed offsets that a source subscribes to by name, such as one that a new release has added,
        is there without partitions: all its records wait, as Spark reads it from the first one.
        """
        found = self.offsets.read()
        window = tuple((at, self._read(offsets)) for at, offsets in found.window)
        found = replace(found, offsets=self._read(found.offsets), window=window)
        if found.offsets:
            named = (each for source in self.sources if source.option == "subscribe" for each in source.names)
            found = replace(found, offsets={**{topic: {} for topic in named}, **found.offsets})
        levels = {source.read_committed for source in self.sources}
        uncommitted = (topic for topic in found.offsets if len(levels) > 1 and not self._reads_committed(topic))
        return replace(
            found,
            read_committed=True in levels,
            uncommitted=frozenset(uncommitted),
            servers=tuple(source.servers for source in self.sources),
        )

    def _read(self, offsets: KafkaOffsets) -> KafkaOffsets:
        # Those of another source, such as an event hub's, may have the same form.
        return {topic: each for topic, each in offsets.items() if any(s.may_read(topic) for s in self.sources)}

    def _reads_committed(self, topic: str) -> bool:
        levels = {source.read_committed for source in self.sources if source.may_read(topic)}
        return levels == {True}


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


@dataclass(frozen=True)
class LagTarget:
    """The stream (found by its control log) or the consumer group whose lag is measured.

    :param kafka: Airflow connection id, of type `kafka`.
    :param stream: name of the stream, and `control` its control URL; empty for a group.
    :param group: the consumer group; empty for a stream.
    """

    kafka: str
    stream: str = ""
    control: str = ""
    group: str = ""

    @property
    def name(self) -> str:
        """The stream or the group."""
        return self.stream or self.group

    def to_json(self) -> dict[str, Any]:
        """Return the target as a trigger carries it; `LagTarget(**data)` reads it."""
        return asdict(self)


def stream_sources(
    stream: str,
    control: str,
    state: StreamState,
    heartbeats: Mapping[str, Heartbeat],
    store: Store | None = None,
) -> list[CommittedOffsets]:
    """Return where the committed offsets of the last holder's queries can be read.

    That is the checkpoint where this machine has its folder, else the holder's heartbeat. Queries that do not read
    Kafka are left out.

    :param store: where the topics that the queries have read are remembered; default: none are.
    """
    holder = state.last_driver
    if holder is None:
        return []
    owner = Owner(stream, control)
    beat = heartbeats.get(holder.id, Heartbeat())
    noted = read(store) if store is not None else {}
    form = state.deployments[holder.deployment].policy.changed_checkpoints
    elsewhere = {recorded_form(named) for named in locations(form, Change.SOURCE)}
    found: list[CommittedOffsets] = []
    known = {query["name"] for query in holder.queries}
    # Queries that the script started later are only in the heartbeat, which does not list sources: assume Kafka.
    later = [{"name": query.name, "checkpoint": query.checkpoint} for query in beat.queries if query.name not in known]
    for query in (*holder.queries, *later):
        sources = [source for source in query.get("sources", ("kafka:",)) if source.startswith("kafka:")]
        if not sources:
            continue
        name, location = query["name"], query.get("checkpoint", "")
        read_committed = bool(query.get("read_committed", False))
        assigned = all(source.startswith("kafka:assign=") for source in sources)
        missing = Missing.NOT_READ if assigned else Missing.FROM_START
        offsets: CommittedOffsets = (
            CheckpointOffsets(name, location, read_committed, missing, owner)
            if _is_mounted(location)
            else HeartbeatOffsets(name, beat, read_committed, missing)
        )
        described = kafka_sources(query)
        offsets = SourcedOffsets(offsets, described) if described else offsets
        anew = described if recorded_form(location) in elsewhere and _is_first(holder, state) else ()
        accepted = {topic: each for source in anew for topic, each in source.topic_ids.items()}
        found.append(KnownOffsets(offsets, beat.query(name), noted, accepted))
    return found


def _is_first(holder: Incarnation, state: StreamState) -> bool:
    """Whether the driver is the one that a person's form was for: none of its deployment held before, nor any since.

    A deployment that brings it back has a copy of the form, which says nothing of topics that were made anew later.
    """
    held = [each for each in state.incarnations.values() if each.epoch and each.id != holder.id]
    again = any(each.deployment == holder.deployment or each.announced > holder.announced for each in held)
    return not again and not state.deployments[holder.deployment].declared.get("again")


@dataclass(frozen=True)
class KnownOffsets:
    """Offsets of a query, with what else is known of it.

    :param progress: the query in its driver's heartbeat, which says for how long it may be quiet.
    :param noted: the topics that were noted when they were read first.
    :param accepted: what its driver found instead, where a person has named the query's source as changed.
    """

    offsets: CommittedOffsets
    progress: QueryProgress | None
    noted: TopicIds
    accepted: Mapping[str, str] = field(default_factory=dict)

    @property
    def query(self) -> str:
        """The query's name."""
        return self.offsets.query

    def read(self) -> Committed:
        """Read the offsets, and add what is known."""
        found = self.offsets.read()
        until = self.progress.quiet_until(found.window[-1][0]) if self.progress and found.window else None
        noted = self.noted.get(found.id, {})
        accepted = {topic: each for topic, each in self.accepted.items() if noted.get(topic, each) != each}
        return replace(found, noted={**noted, **accepted}, accepted=accepted, quiet_until=until)


def _is_mounted(location: str) -> bool:
    """Whether this machine has the checkpoint's parent folder: then the checkpoint counts, even if it does not exist.

    False where this user may not read the checkpoint: the heartbeat tells more.
    """
    try:
        path = local_path(location)
        return path.parent.is_dir() and (not path.exists() or os.access(path, os.R_OK | os.X_OK))
    except (CheckpointError, OSError):
        return False
