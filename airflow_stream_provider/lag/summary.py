"""A lag report as JSON: for XCom, events and `airflow streams lag --json`."""

from __future__ import annotations

from enum import Enum
from typing import Any

from airflow_stream_provider.lag.report import Ceilings, LagReport, QueryLag

# The attributes that are told.
_REPORT = "at verdict complete records seconds"
_QUERY = (
    "query verdict records max_records lost seconds ages_known commit_age batch retention_seconds held_seconds held_by "
    "problem"
)
_PARTITION = "topic partition state verdict committed log_start end raw_lag lag lost seconds"


def summary(report: LagReport, ceilings: Ceilings = Ceilings(), *, partitions: bool = True) -> dict[str, Any]:  # noqa: B008 - frozen
    """Return a report as a JSON object; times in seconds, None = unknown.

    :param ceilings: limits beyond which `alarms` are raised.
    :param partitions: include those to look at first, at most 100 of each query: XCom is stored in Airflow's database.
    """
    return {**_of(report, _REPORT), "queries": [_query(query, ceilings, partitions) for query in report.queries]}


def _query(query: QueryLag, ceilings: Ceilings, partitions: bool) -> dict[str, Any]:
    found = {
        **_of(query, _QUERY),
        "alarms": [alarm.value for alarm in query.alarms(ceilings)],
        "partition_count": len(query.partitions),
        "unknown_partitions": len(query.unknown),
    }
    if partitions:
        found["partitions"] = [_of(partition, _PARTITION) for partition in query.furthest]
    return found


def _of(subject: object, names: str) -> dict[str, Any]:
    told = {name: getattr(subject, name) for name in names.split()}
    return {name: each.value if isinstance(each, Enum) else each for name, each in told.items()}
