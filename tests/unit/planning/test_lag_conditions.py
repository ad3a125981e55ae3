from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_stream_provider.lag.limits import LagLimits, LagLook, Moments, Streaks
from airflow_stream_provider.lag.report import Ceilings, LagReport, QueryLag
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.planning.lag_conditions import (
    LAG_CONDITIONS,
    CaughtUp,
    Measured,
    Unknown,
    WithinLimits,
)
from airflow_stream_provider.planning.waits import Ended, condition_from_json
from tests.support.lag_reports import partition, report

LIMITS = LagLimits(max_records=10).to_json()
GOOD, BAD, DARK = report(partition(10)), report(partition(11)), report(partition(0), partition(None, 1))


def ends(condition: WithinLimits, *looks: tuple[float, LagReport | None]) -> list[Any]:
    streaks = Streaks()
    found = [condition.check(LagLook(at, seen, "" if seen else "Kafka is away."), streaks) for at, seen in looks]
    return [outcome and outcome.ended for outcome in found]


def test_a_good_lag_passes_at_once() -> None:
    assert ends(WithinLimits(LIMITS, 60.0), (0.0, BAD), (10.0, GOOD)) == [None, Ended.REACHED]


def test_a_bad_lag_fails_at_once_unless_it_has_to_last() -> None:
    assert ends(WithinLimits(LIMITS), (0.0, BAD)) == [Ended.BAD]
    looks = [(0.0, BAD), (59.0, BAD), (60.0, BAD)]
    assert ends(WithinLimits(LIMITS, 60.0), *looks) == [None, None, Ended.BAD]


def test_a_look_that_shows_nothing_neither_ends_a_bad_run_nor_fails() -> None:
    looks = [(0.0, BAD), (30.0, None), (70.0, DARK), (80.0, BAD)]
    assert ends(WithinLimits(LIMITS, 60.0), *looks) == [None, None, None, Ended.BAD]


def test_what_is_not_known_waits_fails_or_skips() -> None:
    looks = [(0.0, DARK), (60.0, None)]
    assert ends(WithinLimits(LIMITS, 60.0, Unknown.WAIT), *looks) == [None, None]
    assert ends(WithinLimits(LIMITS, 60.0, Unknown.FAIL), *looks) == [None, Ended.UNKNOWN]
    assert ends(WithinLimits(LIMITS, 60.0, Unknown.SKIP), *looks) == [None, Ended.UNKNOWN]
    interrupted = [(0.0, DARK), (30.0, BAD), (60.0, DARK), (90.0, DARK)]
    assert ends(WithinLimits(LIMITS, 60.0, Unknown.FAIL), *interrupted) == [None] * 4


def test_the_reason_says_how_long_it_lasted() -> None:
    condition, streaks = WithinLimits(LIMITS, 60.0), Streaks()
    condition.check(LagLook(0.0, BAD), streaks)
    outcome = condition.check(LagLook(90.0, BAD), streaks)
    assert outcome is not None
    assert outcome.reason == "enrich is behind by 11 records; 10 are allowed. This has lasted for 1 min 30 s."


@pytest.mark.parametrize(("unread", "wanted"), [(False, Ended.REACHED), (True, None), (None, None)])
def test_caught_up_is_when_no_record_of_that_time_waits(unread: bool | None, wanted: Ended | None) -> None:
    """Whatever the age is that is estimated for display."""
    found = report(partition(5), seconds=0.0, unread_before={900.0: unread})
    outcome = CaughtUp(LIMITS, 900.0).check(LagLook(1000.0, found), Streaks())
    assert (outcome and outcome.ended) == wanted
    assert CaughtUp(LIMITS, 900.0).moments == Moments(at=frozenset({900.0}))


@pytest.mark.parametrize(
    "found",
    [None, DARK, LagReport(1000.0), report(partition(0), seconds=None), report(partition(None), seconds=None)],
)
def test_what_is_not_known_is_not_caught_up(found: LagReport | None) -> None:
    assert CaughtUp(LIMITS, 900.0).check(LagLook(1000.0, found), Streaks()) is None


def test_one_query_whose_age_is_not_known_keeps_the_gate_shut() -> None:
    known = QueryLag("a", (partition(0),), unread_before={900.0: False})
    unknown = QueryLag("b", (partition(9),))
    found = LagReport(1000.0, (known, unknown))
    assert CaughtUp(LIMITS, 900.0).check(LagLook(1000.0, found), Streaks()) is None


def test_a_moment_that_has_not_come_is_waited_for() -> None:
    found = report(partition(0), unread_before={1001.0: False})
    assert CaughtUp(LIMITS, 1001.0).check(LagLook(1000.0, found), Streaks()) is None


@pytest.mark.parametrize("condition", [Measured(LIMITS), WithinLimits(LIMITS, 5.0, "skip"), CaughtUp(LIMITS, 7.0)])
def test_conditions_survive_the_metadata_database(condition: Any) -> None:
    assert condition_from_json(json.loads(json.dumps(condition.to_json())), LAG_CONDITIONS) == condition


def test_a_condition_of_another_version_is_refused_with_what_to_do() -> None:
    with pytest.raises(StreamError, match=r"all triggerers have the newest version\. Clear the task"):
        condition_from_json({"condition": "Faster"}, LAG_CONDITIONS)


def test_the_evidence_is_the_report_with_alarms_by_the_conditions_own_ceilings() -> None:
    look = LagLook(1000.0, report(partition(1), retention_seconds=3000.0))
    limits = LagLimits(ceilings=Ceilings(retention=60.0)).to_json()
    assert WithinLimits(limits).evidence(look)["queries"][0]["alarms"] == []
    assert CaughtUp(LIMITS, 1.0).evidence(look)["queries"][0]["alarms"] == ["RETENTION"]
    assert "partitions" in Measured(limits).evidence(look, partitions=True)["queries"][0]
    assert Measured(limits).evidence(LagLook(1.0, None, "Kafka is away.")) == Measured(limits).evidence(None) == {}
