"""The targets of a measurement: a stream or a consumer group, and where its queries report committed offsets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.checkpoint import Owner, recorded_form
from airflow_stream_provider.checkpoint.location import local_path
from airflow_stream_provider.lag import topic_ids
from airflow_stream_provider.lag.committed_offsets import (
    CheckpointOffsets,
    Committed,
    CommittedOffsets,
    HeartbeatOffsets,
    Missing,
)
from airflow_stream_provider.lag.other_cluster import SourcedOffsets
from airflow_stream_provider.lifecycle.changed_checkpoints import Change, locations
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.kafka_source import kafka_sources
from airflow_stream_provider.lifecycle.state import StreamState

if TYPE_CHECKING:
    from airflow_stream_provider.control.store import Store


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
    noted = topic_ids.read(store) if store is not None else {}
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
        anew = described if recorded_form(location) in elsewhere else ()
        accepted = {topic: each for source in anew for topic, each in source.topic_ids.items()}
        found.append(KnownOffsets(offsets, beat.query(name), noted, accepted))
    return found


@dataclass(frozen=True)
class KnownOffsets:
    """Offsets of a query, with what else is known of it.

    :param progress: the query in its driver's heartbeat, which says for how long it may be quiet.
    :param noted: the topics that were noted when they were read first.
    :param accepted: what its driver found instead, where a person has named the query's source as changed.
    """

    offsets: CommittedOffsets
    progress: QueryProgress | None
    noted: topic_ids.TopicIds
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
