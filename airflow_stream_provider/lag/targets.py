"""Name whose lag is measured, and where the committed offsets of a stream's queries can be read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.checkpoint import Owner, recorded_form
from airflow_stream_provider.checkpoint.location import local_path
from airflow_stream_provider.lag import topic_ids
from airflow_stream_provider.lag.committed_offsets import Committed, CommittedOffsets, Missing
from airflow_stream_provider.lifecycle.changed_checkpoints import Change, locations
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.kafka_source import kafka_sources
from airflow_stream_provider.lifecycle.state import Incarnation, StreamState

if TYPE_CHECKING:
    from airflow_stream_provider.control.store import Store


@dataclass(frozen=True)
class LagTarget:
    """The stream (found by its control log) or the consumer group whose lag is measured.

    :param kafka: Airflow connection id, of type `kafka`.
    :param stream: name of the stream, and `control` its control URL; empty for a group.
    :param group: the consumer group; empty for a stream.
    :param ledger: Airflow connection id of the database in which a sink keeps the offsets of `stream`, or of a job
        named `group`; empty: they are read from checkpoints or from the group.
    """

    kafka: str
    stream: str = ""
    control: str = ""
    group: str = ""
    ledger: str = ""

    @property
    def name(self) -> str:
        """The stream or the group."""
        return self.stream or self.group

    def to_json(self) -> dict[str, Any]:
        """Return the target as a trigger carries it, which reads no ledger; `LagTarget(**data)` reads it."""
        return {name: value for name, value in asdict(self).items() if name != "ledger"}


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
        location, described = query.get("checkpoint", ""), kafka_sources(query)
        anew = described if recorded_form(location) in elsewhere and _is_first(holder, state) else ()
        assigned = all(source.startswith("kafka:assign=") for source in sources)
        found.append(
            CommittedOffsets(
                query["name"],
                beat,
                location if _is_mounted(location) else "",
                bool(query.get("read_committed", False)),
                Missing.NOT_READ if assigned else Missing.FROM_START,
                Owner(stream, control),
                described,
                noted,
                {topic: each for source in anew for topic, each in source.topic_ids.items()},
            )
        )
    return found


def read_sources(
    stream: str,
    control: str,
    state: StreamState,
    heartbeats: Mapping[str, Heartbeat],
    store: Store | None = None,
) -> list[Committed]:
    """Read how far the last holder's queries are, wherever `stream_sources` finds that."""
    return [source.read() for source in stream_sources(stream, control, state, heartbeats, store)]


def _is_first(holder: Incarnation, state: StreamState) -> bool:
    """Whether the driver is the one that a person's form was for: none of its deployment held before, nor any since.

    A deployment that brings it back has a copy of the form, which says nothing of topics that were made anew later.
    """
    held = [each for each in state.incarnations.values() if each.epoch and each.id != holder.id]
    again = any(each.deployment == holder.deployment or each.announced > holder.announced for each in held)
    return not again and not state.deployments[holder.deployment].declared.get("again")


def _is_mounted(location: str) -> bool:
    """Whether this machine has the checkpoint's parent folder: then the checkpoint counts, even if it does not exist.

    False where this user may not read the checkpoint: the heartbeat tells more.
    """
    try:
        path = local_path(location)
        return path.parent.is_dir() and (not path.exists() or os.access(path, os.R_OK | os.X_OK))
    except (CheckpointError, OSError):
        return False
