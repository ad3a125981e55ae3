from __future__ import annotations

import json
from dataclasses import replace

import pytest

from airflow_stream_provider.lag.limits import Health, LagJudgement, LagLimits, LagLook, Streaks
from airflow_stream_provider.lag.report import (
    Alarm,
    Ceilings,
    LagReport,
    QueryLag,
    Verdict,
)
from tests.support.lag_reports import partition, report


def health(limits: LagLimits, found: LagReport) -> Health:
    return limits.judge(found).health


@pytest.mark.parametrize(
    ("limits", "found", "wanted"),
    [
        (LagLimits(max_records=20), report(partition(10), partition(10, 1)), Health.PASS),
        (LagLimits(max_records=19), report(partition(10), partition(10, 1)), Health.FAIL),
        (LagLimits(max_records=0), report(partition(0)), Health.PASS),
        (LagLimits(max_records=0), report(partition(1)), Health.FAIL),
        (LagLimits(max_records=10, per_partition=True), report(partition(10), partition(10, 1)), Health.PASS),
        (LagLimits(max_records=9, per_partition=True), report(partition(1), partition(10, 1)), Health.FAIL),
        (LagLimits(max_seconds=5), report(partition(1)), Health.PASS),
        (LagLimits(max_seconds=4), report(partition(1)), Health.FAIL),
        (LagLimits(), report(partition(1, verdict=Verdict.STALL)), Health.FAIL),
        (LagLimits(), report(partition(1, verdict=Verdict.WARN)), Health.PASS),
        (LagLimits(verdicts=(Verdict.WARN,)), report(partition(1, verdict=Verdict.WARN)), Health.FAIL),
        (LagLimits(), report(partition(1), retention_seconds=3599.0), Health.FAIL),
        (LagLimits(alarms=()), report(partition(1), retention_seconds=3599.0), Health.PASS),
        (LagLimits(alarms=(Alarm.LOST_DATA,)), report(partition(1), retention_seconds=3599.0), Health.PASS),
        (LagLimits(ceilings=Ceilings(retention=10)), report(partition(1), retention_seconds=3599.0), Health.PASS),
    ],
)
def test_what_is_known_is_held_against_the_limits(limits: LagLimits, found: LagReport, wanted: Health) -> None:
    judged = limits.judge(found)
    assert judged.health is wanted
    assert bool(judged.reasons) is (wanted is Health.FAIL)


@pytest.mark.parametrize(
    "found",
    [
        LagReport(1000.0),
        LagReport(1000.0, (QueryLag("g", found=False, problem="Kafka has no commit of a group g."),)),
        report(partition(0), partition(None, 1)),
        report(partition(0), seconds=None),
        report(partition(1, verdict=None)),
        report(partition(1, verdict=None), commit_age=None),
        report(partition(1), problem="When Kafka deletes unread records of t is unknown.", retention_known=False),
        report(partition(1), ages_known=False),
        report(partition(1), ages_known=False, seconds=None),
    ],
)
def test_what_is_not_known_never_passes(found: LagReport) -> None:
    judged = LagLimits(max_records=100, max_seconds=100).judge(found)
    assert judged.health is Health.UNKNOWN
    assert len(judged.reasons) == 1


def test_an_alarm_that_cannot_be_judged_never_passes() -> None:
    limits = LagLimits(verdicts=(), ceilings=Ceilings(commit_age=3600.0))
    assert health(limits, report(partition(1), commit_age=None, seconds=7200.0)) is Health.UNKNOWN
    assert health(limits, report(partition(1), commit_age=21_600.0, seconds=60.0, ages_known=False)) is Health.UNKNOWN
    assert health(limits, report(partition(1), commit_age=21_600.0, seconds=7200.0, ages_known=False)) is Health.FAIL
    assert health(replace(limits, alarms=()), report(partition(1), commit_age=None, seconds=7200.0)) is Health.PASS


def test_what_is_not_known_does_not_hide_what_is_bad() -> None:
    found = report(partition(50), partition(None, 1))
    assert health(LagLimits(max_records=49), found) is Health.FAIL
    assert health(LagLimits(max_records=50), found) is Health.UNKNOWN


def test_an_unknown_verdict_matters_only_where_verdicts_are_judged() -> None:
    found = report(partition(1, verdict=None))
    assert health(LagLimits(verdicts=()), found) is Health.PASS


def test_one_bad_query_is_enough() -> None:
    good, bad = QueryLag("a", (partition(0),), seconds=0.0), QueryLag("b", (partition(90),), seconds=0.0)
    judged = LagLimits(max_records=89).judge(LagReport(0.0, (good, bad)))
    assert judged.reasons == ("b is behind by 90 records; 89 are allowed.",)


def test_the_reasons_are_sentences_with_names_and_numbers() -> None:
    partitions = [partition(1000 + n, n, Verdict.STOP) for n in range(5)]
    found = report(*partitions, seconds=7500.0, commit_age=8000.0)
    limits = LagLimits(max_records=1000, max_seconds=60, per_partition=True, ceilings=Ceilings(commit_age=3600))
    assert limits.judge(found).reasons == (
        "enrich is behind by 1,004 records in t-4; 1,000 are allowed.",
        "enrich has not committed a record that is 2 h 5 min old; 1 min are allowed.",
        "enrich has not committed for longer than its last commits span (STOP) in 5 of 5 partitions "
        "(t-0, t-1, t-2, …).",
        "enrich: no commit for 2 h 13 min, while unread records are as old.",
    )


def test_limits_survive_json() -> None:
    limits = LagLimits(5, 2.5, True, (Verdict.WARN,), (Alarm.RETENTION,), Ceilings(1.0, 2.0, 3.0))
    assert LagLimits.from_json(json.loads(json.dumps(limits.to_json()))) == limits


def test_a_look_without_a_report_is_unknown_and_says_why() -> None:
    away = LagLook(5.0, None, "Kafka does not answer.")
    assert away.judge(LagLimits()) == LagJudgement(Health.UNKNOWN, ("Kafka does not answer.",))


def test_a_report_is_judged_by_the_limits() -> None:
    look = LagLook(5.0, report(partition(11)))
    assert [look.judge(LagLimits(max_records=limit)).health for limit in (10, 11)] == [Health.FAIL, Health.PASS]


def test_a_bad_run_is_ended_by_a_good_look_alone() -> None:
    streaks = Streaks()
    for at, found in enumerate((Health.FAIL, Health.UNKNOWN, Health.UNKNOWN, Health.FAIL)):
        streaks.add(found, float(at))
    assert (streaks.bad, streaks.good, streaks.unknown) == (0.0, None, None)
    streaks.add(Health.PASS, 9.0)
    streaks.add(Health.UNKNOWN, 10.0)
    streaks.add(Health.UNKNOWN, 11.0)
    assert (streaks.bad, streaks.good, streaks.unknown) == (None, 9.0, 10.0)
