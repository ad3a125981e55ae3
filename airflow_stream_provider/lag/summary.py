"""A lag report as JSON: for XCom, events and `airflow streams lag --json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.lag.report import Ceilings, LagReport, PartitionLag, QueryLag


def summary(report: LagReport, ceilings: Ceilings = Ceilings(), *, partitions: bool = True) -> dict[str, Any]:  # noqa: B008 - frozen
    """Return a report as a JSON object; times in seconds, None = unknown.

    :param ceilings: limits beyond which `alarms` are raised.
    :param partitions: include those to look at first, at most 100 of each query: XCom is stored in Airflow's database.
    """
    return {
        "at": report.at,
        "verdict": report.verdict.value,
        "complete": report.complete,
        "records": report.records,
        "seconds": report.seconds,
        "queries": [_query(query, ceilings, partitions) for query in report.queries],
    }


def _query(query: QueryLag, ceilings: Ceilings, partitions: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "query": query.query,
        "verdict": query.verdict.value,
        "alarms": [alarm.value for alarm in query.alarms(ceilings)],
        "records": query.records,
        "max_records": query.max_records,
        "lost": query.lost,
        "seconds": query.seconds,
        "ages_known": query.ages_known,
        "commit_age": query.commit_age,
        "batch": query.batch,
        "retention_seconds": query.retention_seconds,
        "held_seconds": query.held_seconds,
        "held_by": query.held_by,
        "problem": query.problem,
        "partition_count": len(query.partitions),
        "unknown_partitions": len(query.unknown),
    }
    if partitions:
        found["partitions"] = [_partition(partition) for partition in query.furthest]
    return found


def _partition(partition: PartitionLag) -> Mapping[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "state": partition.state.value,
        "verdict": partition.verdict.value if partition.verdict else None,
        "committed": partition.committed,
        "log_start": partition.log_start,
        "end": partition.end,
        "raw_lag": partition.raw_lag,
        "lag": partition.lag,
        "lost": partition.lost,
        "seconds": partition.seconds,
    }
