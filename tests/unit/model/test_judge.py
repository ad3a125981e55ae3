from __future__ import annotations

import pytest

from airflow_stream_provider.model.judge import Limits, Sample, Verdict, judge

LIMITS = Limits(max_records=100, max_seconds=30.0, samples=3)


def samples(*records: int | None, late: bool | None = False) -> list[Sample]:
    return [Sample(holder="new", lag_records=count, late=late) for count in records]


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
        (samples(None, None, None, late=None), Verdict.GOOD),  # unknown is not bad
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
    assert judge("new", samples(10**9, 10**9, 10**9, late=True), Limits(samples=3)).verdict is Verdict.GOOD


def test_the_reason_is_for_a_person() -> None:
    found = judge("new", samples(0, 200, 300, 400), LIMITS)
    assert found.reason == (
        "It is behind Kafka by 400 records, 3 samples in a row above the limit of 100 records and 30 s."
    )
    assert judge("new", [Sample("old", ended="failed", reason="No.")], LIMITS).reason == "It failed: No."
