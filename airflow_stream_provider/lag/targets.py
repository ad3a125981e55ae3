"""How far a stream, or a consumer group, is behind Kafka, for whoever asks: tasks, triggers, the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.checkpoint import Owner
from airflow_stream_provider.checkpoint.location import local_path
from airflow_stream_provider.control import ControlLog, open_log
from airflow_stream_provider.lag.committed_offsets import (
    CheckpointOffsets,
    Committed,
    CommittedOffsets,
    GroupOffsets,
    HeartbeatOffsets,
    Missing,
)
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lifecycle.errors import CheckpointError, SpecError, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.state import StreamState

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.client import KafkaClient
    from airflow_stream_provider.kafka.requests import Answers
    from airflow_stream_provider.spec.stream import StreamSpec


@dataclass(frozen=True)
class LagTarget:
    """Whose lag is asked for: a stream's, by its control log, or a consumer group's.

    :param kafka: Airflow connection of type `kafka`.
    :param stream: name of the stream, of which `control` is the control URL; empty for a group.
    :param group: the consumer group; empty for a stream.
    """

    kafka: str
    stream: str = ""
    control: str = ""
    group: str = ""

    @classmethod
    def of(cls, stream: StreamSpec | None, group: str = "", kafka: str = "") -> LagTarget:
        """Return the target that a DAG's author means; raise SpecError unless it is one stream or one group."""
        if (stream is None) == (not group):
            raise SpecError("The lag of what?", next_step="Give either stream=load_spec(...), or group= and kafka=.")
        if stream is None:
            if not kafka:
                raise SpecError(
                    f"Which Kafka has the group {group}?", next_step="Give kafka=, an Airflow connection id."
                )
            return cls(kafka, group=group)
        if not stream.kafka:
            raise SpecError(
                f"The stream {stream.name} names no Kafka connection, so its lag is not known.",
                next_step="Add kafka: CONNECTION_ID to its YAML.",
                stream=stream.name,
            )
        return cls(stream.kafka, stream.name, stream.control)

    @property
    def name(self) -> str:
        """The stream or the group."""
        return self.stream or self.group

    def to_json(self) -> dict[str, Any]:
        """Return the target as a trigger carries it."""
        return asdict(self)


def stream_sources(
    stream: str, control: str, state: StreamState, heartbeats: Mapping[str, Heartbeat]
) -> list[CommittedOffsets]:
    """Return where the queries of the last holder say how far they have read.

    In the checkpoint where this machine has its folder, else in the holder's heartbeat. Queries that do not read Kafka
    are left out.
    """
    holder = state.incarnations.get(state.last_holder or "")
    if holder is None:
        return []
    owner = Owner(stream, control)
    beat = heartbeats.get(holder.id, Heartbeat())
    found: list[CommittedOffsets] = []
    known = {query["name"] for query in holder.queries}
    # What the script has started since then is in the heartbeat only; that it reads Kafka is not known, and supposed.
    later = [{"name": query.name, "checkpoint": query.checkpoint} for query in beat.queries if query.name not in known]
    for query in (*holder.queries, *later):
        sources = [source for source in query.get("sources", ("kafka:",)) if source.startswith("kafka:")]
        if not sources:
            continue
        name, location = query["name"], query.get("checkpoint", "")
        level = bool(query.get("read_committed", False))
        assigned = all(source.startswith("kafka:assign=") for source in sources)
        missing = Missing.NOT_READ if assigned else Missing.FROM_START
        found.append(
            CheckpointOffsets(name, location, level, missing, owner)
            if _here(location)
            else HeartbeatOffsets(name, beat, level, missing)
        )
    return found


class LagReader:
    """Reads the lag of many targets in one go; blocks, and is used from one thread.

    The control logs stay open between two reads, so that each reads only what is new.

    :param client: of the one Kafka that all the targets name.
    """

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._logs: dict[LagTarget, ControlLog] = {}

    def read(self, targets: Iterable[LagTarget]) -> dict[LagTarget, LagReport | StreamError]:
        """Return a report for each, or why there is none for it.

        :raises StreamError: Kafka does not answer, or refuses us altogether.
        """
        from airflow_stream_provider.lag.measure import measure

        failed: dict[LagTarget, StreamError] = {}
        asked: list[tuple[LagTarget, CommittedOffsets]] = []
        wanted = list(dict.fromkeys(targets))
        # All groups at once: the requests must not grow with the number of sensors.
        fetched = self._client.groups_offsets({target.group for target in wanted} - {""})
        for target in wanted:
            try:
                asked += [(target, source) for source in self._sources(target, fetched)]
            except StreamError as error:
                failed[target] = error
        report = measure(self._client, [_Numbered(number, source) for number, (_, source) in enumerate(asked)])
        queries: dict[LagTarget, list[Any]] = {target: [] for target in wanted}
        for query in report.queries:
            number, _, name = query.query.partition(" ")
            queries[asked[int(number)][0]].append(replace(query, query=name))
        return {target: failed.get(target) or LagReport(report.at, tuple(queries[target])) for target in wanted}

    def _sources(
        self, target: LagTarget, fetched: Answers[str, dict[TopicPartition, int]]
    ) -> Sequence[CommittedOffsets]:
        if target.group:
            return [GroupOffsets(self._client, target.group, fetched)]
        log = self._logs.get(target)
        if log is None:
            log = self._logs[target] = open_log(target.control, target.stream)
        state = log.refresh()
        beat = log.heartbeat(state.last_holder) if state.last_holder else None
        beats = {} if beat is None or state.last_holder is None else {state.last_holder: beat}
        return stream_sources(target.stream, target.control, state, beats)


def measure_lag(target: LagTarget, extra: Mapping[str, Any]) -> LagReport:
    """Measure once, with a connection to Kafka of its own.

    :param extra: of the Airflow connection that the target names.
    :raises StreamError: Kafka, or the stream's control log, cannot be read.
    """
    from airflow_stream_provider.kafka.client import KafkaClient

    with KafkaClient(target.kafka, extra) as client:
        found = LagReader(client).read([target])[target]
    if isinstance(found, StreamError):
        raise found
    return found


@dataclass(frozen=True)
class _Numbered:
    """A source among those of many targets, whose queries may have the same name."""

    number: int
    source: CommittedOffsets

    def read(self) -> Committed:
        found = self.source.read()
        return replace(found, query=f"{self.number} {found.query}")


def _here(location: str) -> bool:
    """Whether this machine has the folder that the checkpoint is in; then it is the truth, even if there is none.

    Not where this user may not look into it: the heartbeat tells more.
    """
    try:
        path = local_path(location)
        return path.parent.is_dir() and (not path.exists() or os.access(path, os.R_OK | os.X_OK))
    except (CheckpointError, OSError):
        return False
