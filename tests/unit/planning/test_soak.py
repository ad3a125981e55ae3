from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lag.report import LagReport, PartitionLag, PartitionState, QueryLag
from airflow_stream_provider.lag.report import Verdict as Burrow
from airflow_stream_provider.planning.soak import SoakLimits, SoakLook, SoakResult, judge_soak, too_far

LIMITS = SoakLimits(LagLimits(max_records=100, max_seconds=30.0), samples=3)


def report(records: int | None, **fields: Any) -> LagReport:
    """One query, so far behind, for as many seconds as are given."""
    query = {"seconds": 0.0, **fields}
    partition = query.pop("partition", {"verdict": Burrow.OK})
    known = PartitionLag("in", 0, PartitionState.OK, committed=0, log_start=0, end=records, **partition)
    return LagReport(1.0, (QueryLag("q", (known,), **query),))


def samples(*records: int | None, late: bool = False) -> list[SoakLook]:
    found = [(count, report(count, seconds=31.0 if late else 0.0)) for count in records]
    return [SoakLook(holding="new", lag_records=count, too_far=too_far(lag, LIMITS)) for count, lag in found]


@pytest.mark.parametrize(
    ("seen", "result"),
    [
        ([], SoakResult.GOOD),
        (samples(0, 0, 0), SoakResult.GOOD),
        (samples(101, 101), SoakResult.GOOD),  # not often enough yet
        (samples(0, 101, 102, 103), SoakResult.BAD),
        (samples(0, 101, 99, 103), SoakResult.GOOD),  # a saw-tooth
        (samples(5000, 4000, 3000, 2000), SoakResult.GOOD),  # behind before, catching up
        (samples(5000, 5000, 5001, 5002), SoakResult.BAD),  # behind before, and not catching up
        (samples(10, 20, 30, late=True), SoakResult.BAD),  # few records, but old ones
        (samples(None, None, None), SoakResult.GOOD),  # unknown is not bad
        (samples(0, 101, None, 103), SoakResult.GOOD),
        ([SoakLook(holding=None)], SoakResult.BAD),
        ([SoakLook(holding="old")], SoakResult.BAD),  # taken back
        ([SoakLook(holding="newer", superseded=True)], SoakResult.SUPERSEDED),
        ([SoakLook(holding=None, ended="failed", reason="no memory")], SoakResult.BAD),
        ([SoakLook(holding="new", silent=61.0)], SoakResult.BAD),
    ],
)
def test_verdicts(seen: list[SoakLook], result: SoakResult) -> None:
    assert judge_soak("new", seen, LIMITS).result is result


def test_no_limits_judge_no_lag() -> None:
    assert not too_far(report(10**9, seconds=10**9), SoakLimits())
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
    assert bool(too_far(found, SoakLimits(LagLimits()))) is bad


def test_the_limits_survive_the_metadata_database() -> None:
    assert SoakLimits.from_json(LIMITS.to_json()) == LIMITS
    assert SoakLimits.from_json(SoakLimits().to_json()) == SoakLimits()


def test_the_reason_is_for_a_person() -> None:
    found = judge_soak("new", samples(0, 200, 300, 400), LIMITS)
    assert found.reason == "3 times in a row it was too far behind. q is behind by 400 records; 100 are allowed."
    assert judge_soak("new", [SoakLook("old", ended="failed", reason="No.")], LIMITS).reason == "It failed: No."
