"""Send what a look finds as gauges to Airflow's own metrics (StatsD, Datadog, OpenTelemetry).

`METRICS` has all names. An unknown number is not sent, not even as zero. A plain StatsD drops tags. For it every gauge
is also sent with the tags as parts of its name, as Airflow does with its own, unless `[metrics] legacy_names_on` is
off. They are gauges throughout: in OpenTelemetry, counters of processes that live as long as a task do not add up.

`dashboard.json` beside this file shows them in Grafana.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.lag.report import GroupVerdict, LagReport, PartitionLag, QueryLag
from airflow_stream_provider.lifecycle.state import StreamPhase

if TYPE_CHECKING:
    from airflow_stream_provider.monitoring.samples import LagSample
    from airflow_stream_provider.planning.snapshot import Snapshot

# Each name, its tags, and what it is.
METRICS = {
    "stream.lag.records": ("stream", "query", "topic"),  # not committed; the sum of the partitions that are known
    "stream.lag.seconds": ("stream", "query", "topic"),  # age of the oldest record that is not committed
    "stream.lag.lost": ("stream", "query", "topic"),  # records that Kafka deleted before they were read
    "stream.lag.unknown": ("stream", "query", "topic"),  # partitions whose lag is unknown
    "stream.lag.verdict": ("stream", "query", "verdict"),  # 1 for Burrow's verdict on the query, 0 for the others
    "stream.phase": ("stream", "phase"),  # 1 for the phase of the stream, or `silent`; 0 for the others
    "stream.incident": ("stream", "kind"),  # 1 while an incident of the kind is open, 0 while none is
    "stream.epoch": ("stream",),  # grows by one with every change of holder
    "stream.gap.seconds": ("stream", "query"),  # of the last change of holder, as the driver that holds has read it
    "stream.vital": (
        "stream",
        "query",
        "vital",
    ),  # of the driver that holds, as its heartbeat names it; its own: `-`
    "stream.runs_out.seconds": ("stream", "query", "vital"),  # until it has run out, where a trend says so
}
# The query of the vitals that are the driver's own; and those that are moments.
_OWN = "-"
_TIMES = ("at", "certificate_until", "token_until")
_NOT_IN_TAGS = re.compile(r"[^A-Za-z0-9._-]")


def emit(stream: str, report: LagReport) -> None:
    """Send the gauges of a report; does nothing when metrics are off.

    :param stream: name of the stream, or of the consumer group.
    """
    for query in report.queries:
        for verdict in GroupVerdict:
            _gauge("lag.verdict", float(verdict is query.verdict), stream, query.query, verdict.value)
        for topic, partitions in _by_topic(query).items():
            for name, value in _numbers(partitions):
                _gauge(f"lag.{name}", value, stream, query.query, topic)


def emit_look(snapshot: Snapshot, sample: LagSample) -> None:
    """Send the gauges of a look of the watch but the lag; does nothing when metrics are off."""
    # Imported here: the triggerer sends lags only.
    from airflow_stream_provider.monitoring.health import SILENT

    stream, beat = snapshot.stream, snapshot.holder_heartbeat
    for phase in (*(each.value for each in StreamPhase), SILENT):
        _gauge("phase", float(phase == sample.phase), stream, phase)
    for kind, state in sample.incidents.items():
        _gauge("incident", float(state.incident is not None), stream, kind)
    _gauge("epoch", float(snapshot.state.epoch), stream)
    for query in beat.queries if beat is not None else ():
        if query.gap_seconds is not None:
            _gauge("gap.seconds", query.gap_seconds, stream, query.name)
    vitals = beat.vitals if beat is not None else None
    if vitals is not None:
        _emit_vitals(stream, _OWN, {**vars(vitals), "executors_lost": sum(vitals.executors_lost.values())})
        for name, each in vitals.queries.items():
            _emit_vitals(stream, name, {**vars(each), **{f"ms_{part}": took for part, took in each.durations.items()}})
    for name, seconds in sample.runs_out.items():
        vital, _, of = name.partition("/")
        _gauge("runs_out.seconds", seconds, stream, of or _OWN, vital)


def _emit_vitals(stream: str, query: str, found: Mapping[str, Any]) -> None:
    for name, value in found.items():
        if isinstance(value, (int, float)) and name not in _TIMES:
            _gauge("vital", float(value), stream, query, name)


def _numbers(partitions: list[PartitionLag]) -> Iterable[tuple[str, float]]:
    lags = [partition.lag for partition in partitions if partition.lag is not None]
    seconds = [partition.seconds for partition in partitions if partition.seconds is not None]
    if lags:
        yield "records", float(sum(lags))
    if seconds:
        yield "seconds", max(seconds)
    yield "lost", float(sum(partition.lost for partition in partitions))
    yield "unknown", float(len(partitions) - len(lags))


def _by_topic(query: QueryLag) -> dict[str, list[PartitionLag]]:
    found: dict[str, list[PartitionLag]] = {}
    for partition in query.partitions:
        found.setdefault(partition.topic, []).append(partition)
    return found


def _gauge(name: str, value: float, *tags: str) -> None:
    from airflow.sdk.observability import stats

    flat, name = _initialised(), f"stream.{name}"
    safe = dict(zip(METRICS[name], (_NOT_IN_TAGS.sub("_", tag) for tag in tags), strict=True))
    stats.Stats.gauge(name, value, tags=safe)
    if flat:
        stats.Stats.gauge(".".join((name, *(tag.replace(".", "_") for tag in safe.values()))), value)


@functools.cache
def _initialised() -> bool:
    """Initialise the metrics of this process; return whether names without tags are wanted too."""
    from airflow.sdk.configuration import conf
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils

    flat: bool = conf.getboolean("metrics", "legacy_names_on")
    # A task has done so already. The triggerer of Airflow 3.3.2, as that of 3.2.2, initialises another copy of this
    # module, so that gauges of the copy imported here would be lost.
    if hasattr(stats, "initialize"):
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=flat)
    else:  # Airflow 3.2
        stats.Stats.initialize(factory=stats_utils.get_stats_factory(stats.Stats))  # type: ignore[call-arg]
    return flat
