"""Send a lag as gauges to Airflow's own metrics (StatsD, Datadog, OpenTelemetry).

    stream.lag.records{stream,query,topic}    records not committed; the sum of the partitions that are known
    stream.lag.seconds{stream,query,topic}    age of the oldest record that is not committed
    stream.lag.lost{stream,query,topic}       records that Kafka deleted before they were read
    stream.lag.unknown{stream,query,topic}    partitions whose lag is unknown
    stream.lag.verdict{stream,query,verdict}  1 for Burrow's verdict on the query, 0 for the others

An unknown number is not sent, not even as zero. A plain StatsD drops tags. For it every gauge is also sent with the
tags as parts of its name, as Airflow does with its own, unless `[metrics] legacy_names_on` is off.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from airflow_stream_provider.lag.report import GroupVerdict, LagReport, PartitionLag, QueryLag

_NOT_IN_TAGS = re.compile(r"[^A-Za-z0-9._-]")


def emit(stream: str, report: LagReport) -> None:
    """Send the gauges of a report; does nothing when metrics are off.

    :param stream: name of the stream, or of the consumer group.
    """
    for query in report.queries:
        for verdict in GroupVerdict:
            _gauge("verdict", float(verdict is query.verdict), stream=stream, query=query.query, verdict=verdict.value)
        for topic, partitions in _by_topic(query).items():
            for name, value in _numbers(partitions):
                _gauge(name, value, stream=stream, query=query.query, topic=topic)


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


def _gauge(name: str, value: float, **tags: str) -> None:
    from airflow.sdk.observability import stats

    flat = _initialised()
    safe = {key: _NOT_IN_TAGS.sub("_", tag) for key, tag in tags.items()}
    stats.gauge(f"stream.lag.{name}", value, tags=safe)
    if flat:
        stats.gauge(".".join(("stream.lag", name, *(tag.replace(".", "_") for tag in safe.values()))), value)


@functools.cache
def _initialised() -> bool:
    """Initialise the metrics of this process; return whether names without tags are wanted too."""
    from airflow.sdk.configuration import conf
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils

    flat: bool = conf.getboolean("metrics", "legacy_names_on")
    # A task has done so already. The triggerer of Airflow 3.3.2 initialises another copy of this module, so that gauges
    # of the copy imported here would be lost.
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=flat)
    return flat
