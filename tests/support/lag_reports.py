"""Small lag reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_stream_provider.lag.committed_offsets import Committed, CommittedOffsets, group_committed
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lag.measure import measure_each
from airflow_stream_provider.lag.report import LagReport, PartitionLag, PartitionState, QueryLag, Verdict

NONE = Moments()


def of_group(client: Any, group: str) -> Committed:
    return group_committed(group, client.groups_offsets([group]))


def measure(client: Any, queries: Iterable[Committed | CommittedOffsets], moments: Moments = NONE) -> LagReport:
    committed = [each if isinstance(each, Committed) else each.read() for each in queries]
    return measure_each(client, {None: committed}, {None: moments})[None]


def partition(lag: int | None, number: int = 0, verdict: Verdict | None = Verdict.OK) -> PartitionLag:
    if lag is None:
        return PartitionLag("t", number, PartitionState.NO_LEADER, committed=5, verdict=None)
    return PartitionLag("t", number, PartitionState.OK, 10_000 - lag, 0, 10_000, verdict=verdict)


def read_to(number: int = 0, committed: int | None = 90, end: int | None = 100, **more: Any) -> PartitionLag:
    return PartitionLag(
        "t", number, **{"state": PartitionState.OK, "log_start": 0, **more}, committed=committed, end=end
    )


def report(*partitions: PartitionLag, **more: object) -> LagReport:
    return LagReport(1000.0, (QueryLag("enrich", partitions, **{"seconds": 5.0, **more}),))  # type: ignore[arg-type]
