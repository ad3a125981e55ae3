from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.model.judge import Limits, Sample, Verdict, judge, too_far
from airflow_stream_provider.model.lag import LagReport, PartitionLag, PartitionState, QueryLag
from airflow_stream_provider.model.lag import Verdict as Burrow
from airflow_stream_provider.model.limits import LagLimits

LIMITS = Limits(LagLimits(max_records=100, max_seconds=30.0), samples=3)


def report(records: int | None, **fields: Any) -> LagReport:
    """One query, so far behind, for as many seconds as are given."""
    query = {"seconds": 0.0, **fields}
    partition = query.pop("partition", {"verdict": Burrow.OK})
    known = PartitionLag("in", 0, PartitionState.OK, committed=0, log_start=0, end=records, **partition)
    return LagReport(1.0, (QueryLag("q", (known,), **query),))


def samples(*records: int | None, late: bool = False) -> list[Sample]:
    found = [(count, report(count, seconds=31.0 if late else 0.0)) for count in records]
    return [Sample(holder="new", lag_records=count, too_far=too_far(lag, LIMITS)) for count, lag in found]


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        ([], Verdict.GOOD),
        (samples(0, 0, 0), Verdict.GOOD),
        (samples(101, 101), Verdict.GOOD),  # not often enough yet
        (samples(0, 101, 102, 103), Verdict.BAD),
        (samples(0, 101, 99, 103), Verdict.GOOD),  # a saw-tooth
        (samples(5000, 4000, 3000, 2000), Verdict.GOOD),  # behind before, catching up
        (samples(5000, 5000, 5001, 5002), Verdict.BAD),  # behind before, and not catching up
        (samples(10, 20, 30, late=True), Verdict.BAD),  # few records, but old ones
        (samples(None, None, None), Verdict.GOOD),  # unknown is not bad
        (samples(0, 101, None, 103), Verdict.GOOD),
        ([Sample(holder=None)], Verdict.BAD),
        ([Sample(holder="old")], Verdict.BAD),  # taken back
        ([Sample(holder="newer", superseded=True)], Verdict.SUPERSEDED),
        ([Sample(holder=None, ended="failed", reason="no memory")], Verdict.BAD),
        ([Sample(holder="new", silent=61.0)], Verdict.BAD),
    ],
)
def test_verdicts(seen: list[Sample], verdict: Verdict) -> None:
    assert judge("new", seen, LIMITS).verdict is verdict


def test_no_limits_judge_no_lag() -> None:
    assert not too_far(report(10**9, seconds=10**9), Limits())
    assert not too_far(None, LIMITS)


@pytest.mark.parametrize(
    ("found", "bad"),
    [
        (report(5, partition={"verdict": Burrow.STOP}), True),
        (report(5, partition={"verdict": Burrow.WARN}), False),
        (report(5, retention_seconds=60.0), True),
        (report(5, held_seconds=5000.0), False),  # a transaction that hangs is a producer's, not the release's
    ],
)
def test_verdicts_and_alarms_count_without_any_limit(found: LagReport, bad: bool) -> None:
    assert bool(too_far(found, Limits(LagLimits()))) is bad


def test_the_limits_survive_the_metadata_database() -> None:
    assert Limits.from_json(LIMITS.to_json()) == LIMITS
    assert Limits.from_json(Limits().to_json()) == Limits()


def test_the_reason_is_for_a_person() -> None:
    found = judge("new", samples(0, 200, 300, 400), LIMITS)
    assert found.reason == "3 times in a row it was too far behind. q is behind by 400 records; 100 are allowed."
    assert judge("new", [Sample("old", ended="failed", reason="No.")], LIMITS).reason == "It failed: No."
