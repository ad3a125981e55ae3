"""Read and write one stream's folder in a look. Each function may hang: it runs in a thread of its own."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.hooks.clean_up_stream import clean_up_stream
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lag.committed_offsets import Committed, read_safely
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lag.targets import stream_sources
from airflow_stream_provider.lag.topic_ids import note as note_topics
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.monitoring import samples
from airflow_stream_provider.monitoring.samples import LagSample
from airflow_stream_provider.planning.recovery_decision import coming_up
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.spec.stream import StreamSpec

CLEAN_UP_SECONDS = 3600.0


@dataclass(frozen=True)
class Reading:
    """One stream as a look found it.

    :param before: the sample of the look before; None: there was none.
    """

    spec: StreamSpec
    hook: StreamHook
    snapshot: Snapshot
    before: LagSample | None

    @property
    def cluster(self) -> str:
        """The connection of its cluster; where none is declared, that of the last submission."""
        if self.spec.cluster:
            return self.spec.cluster
        used = [each.cluster for each in self.snapshot.state.deployments.values() if each.cluster]
        return used[-1] if used else ""

    @property
    def deployment(self) -> str:
        """The deployment that holds the stream, or held it last; empty when none did."""
        found = self.snapshot.state.last_driver
        return found.deployment if found else ""

    @property
    def submissions(self) -> dict[str, str]:
        """The cluster's ids of the drivers that matter, by deployment: of the holder, and of what comes up."""
        state = self.snapshot.state
        wanted = {self.deployment, *(() if state.holder else (each.id for each in coming_up(state)))}
        found = {name: self.snapshot.submission(name) for name in wanted if name in state.deployments}
        return {name: submission for name, submission in found.items() if submission}

    def clean_up_is_due(self, now: float) -> bool:
        """Whether the stream's hour has come round since the last look: each stream has its own moment in it."""
        offset = zlib.crc32(self.spec.name.encode()) % CLEAN_UP_SECONDS
        return (
            self.before is not None
            and (now - offset) // CLEAN_UP_SECONDS != (self.before.at - offset) // CLEAN_UP_SECONDS
        )


def read_stream(spec: StreamSpec, root: ControlRoot, seen: frozenset[str]) -> Reading | None:
    """Read the log, the heartbeats and the last sample; None for a stream that was never deployed.

    :param root: its control root.
    :param seen: the streams that earlier looks have seen there.
    :raises StreamError: the stream cannot be read now, or its log has gone.
    """
    hook = StreamHook.of(spec)
    if not hook.exists():
        if spec.name in seen:
            raise _gone(spec.name, root.where(spec.name))
        return None
    if spec.name not in seen:
        root.note(spec.name)
    snapshot = hook.observe(history=False)
    return Reading(spec, hook, snapshot, samples.last(hook.samples))


def read_committed(reading: Reading) -> Sequence[Committed]:
    """Read how far the stream's queries are, from their checkpoints or the heartbeat."""
    spec, found = reading.spec, reading.snapshot
    store = reading.hook.control_log.store
    sources = stream_sources(spec.name, spec.control, found.state, found.heartbeats, store)
    return [read_safely(source) for source in sources]


def beats_again(reading: Reading, incarnations: Sequence[str]) -> dict[str, bool]:
    """Read heartbeats once more; return by incarnation whether its counter has grown since."""
    counters = {name: reading.hook.control_log.heartbeat(name) for name in incarnations}
    return {name: beat is not None and beat.counter > reading.snapshot.counter(name) for name, beat in counters.items()}


def keep(reading: Reading, sample: LagSample, report: LagReport | None, committed: Sequence[Committed]) -> None:
    """Add the sample to those of the stream, and note the ids of topics that are new or accepted.

    :raises StreamError: the sample may not have been written.
    """
    samples.append(reading.hook.samples, sample)
    noted: Mapping[str, Mapping[str, str]] = {each.id: each.noted for each in committed}
    queries = [] if report is None else [query for query in report.queries if query.id and query.topic_ids]
    accepted = {each.id: each.accepted for each in committed if each.accepted}
    new = any(query.id in accepted or query.topic_ids.keys() - noted.get(query.id, {}).keys() for query in queries)
    if report is not None and new:
        note_topics(reading.hook.control_log.store, replace(report, queries=tuple(queries)), accepted)


def clean_up(reading: Reading) -> None:
    """Remove files that are not needed any more from the stream's folder; a failure is logged, and tried an hour later.

    :raises StreamError: the samples cannot be shortened now.
    """
    clean_up_stream(reading.hook)
    reading.hook.samples.shorten()


def _gone(stream: str, where: str) -> ControlUnavailable:
    return ControlUnavailable(
        f"The control log of {stream} has gone: an earlier look of the watch has seen it in {where}.",
        next_step="Mount or restore it; its drivers wait for it for some minutes. If the stream is to begin anew: "
        "see that no driver of it is left on the cluster, then deploy it. If it is not wanted any more: remove its "
        "YAML.",
        where=where,
    )
