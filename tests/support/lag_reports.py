"""Small lag reports."""

from __future__ import annotations

from airflow_stream_provider.lag.report import LagReport, PartitionLag, PartitionState, QueryLag, Verdict


def partition(lag: int | None, number: int = 0, verdict: Verdict | None = Verdict.OK) -> PartitionLag:
    if lag is None:
        return PartitionLag("t", number, PartitionState.NO_LEADER, committed=5, verdict=None)
    return PartitionLag("t", number, PartitionState.OK, 10_000 - lag, 0, 10_000, verdict=verdict)


def report(*partitions: PartitionLag, **more: object) -> LagReport:
    return LagReport(1000.0, (QueryLag("enrich", partitions, **{"seconds": 5.0, **more}),))  # type: ignore[arg-type]
