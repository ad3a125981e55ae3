"""What soak and watch say of one look; `monitoring/test_health.py` has the sentences that the watch makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.lag.limits import Health, LagLimits
from airflow_stream_provider.lag.report import LagReport, QueryLag
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.stream_health import TELL_SECONDS, judge_lag, judge_run
from tests.support.snapshots import UPGRADED, snapshot, up
from tests.support.story import (
    FOLLOWING,
    INTERRUPTED,
    JOB_ENDING,
    JOB_GONE,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    RUNNING,
    STARTED,
    STOPPED,
    aborted,
    ending,
    failed,
    fenced,
    finished,
    ready,
    released,
    requested,
    retired,
    wanted,
)


@pytest.mark.parametrize(
    ("records", "silent", "health"),
    [
        (RUNNING, None, Health.PASS),
        (RUNNING, 59.0, Health.UNKNOWN),
        (RUNNING, 60.0, Health.FAIL),
        (STARTED, None, Health.PASS),
        (STOPPED, None, Health.PASS),
        (INTERRUPTED, None, Health.FAIL),
        ([*RUNNING, fenced(OLD)], None, Health.FAIL),
        ([*UPGRADED, requested("x", OLD), ready("x", OLD)], None, Health.PASS),
        ([*UPGRADED, requested("x", OLD), ready("x", OLD), released(NEW, "x", OLD)], None, Health.UNKNOWN),
    ],
)
def test_whether_a_driver_runs_it(records: list[Record], silent: float | None, health: Health) -> None:
    assert judge_run(snapshot(*records), silent).health is health


def of(records: list[Record], at: float) -> tuple[Health, str]:
    found = judge_run(snapshot(*records, at=at), None)
    return found.health, found.reason


@pytest.mark.parametrize(
    ("records", "then", "later"),
    [
        ([wanted("go")], Health.UNKNOWN, "Nobody runs it (down)."),
        ([*RUNNING, wanted("go", alone=True), requested("s", None), released(OLD, "s", None)], Health.UNKNOWN, "down"),
        ([*RUNNING, wanted("rest", "stop"), fenced(OLD)], Health.PASS, ""),
        ([*RUNNING, finished(OLD)], Health.PASS, ""),
        (FOLLOWING, Health.PASS, ""),
        ([*FOLLOWING, retired(OLD_DEPLOYMENT)], Health.UNKNOWN, "adopt it again, or stop the stream"),
        ([wanted("adopt", policy={"adopts": True}, confirmed_by="Ada"), *FOLLOWING[1:]], Health.UNKNOWN, "down"),
        (JOB_ENDING, Health.UNKNOWN, f"driver-1 was to be ended, for {OLD_DEPLOYMENT} to follow it"),
        ([*JOB_ENDING, fenced(OLD)], Health.UNKNOWN, "nobody has confirmed that it is gone"),
        ([*JOB_ENDING, retired(OLD_DEPLOYMENT)], Health.UNKNOWN, "nobody has confirmed that it is gone"),
        ([*JOB_ENDING[:-1], ending(OLD_DEPLOYMENT, "")], Health.UNKNOWN, "A person was asked to end the job"),
        ([*JOB_GONE, aborted("adopt", at=400.0)], Health.FAIL, "As a rule somebody else writes the checkpoint"),
        ([*JOB_GONE, aborted("adopt", at=400.0), retired(OLD_DEPLOYMENT)], Health.FAIL, "somebody else writes"),
        ([*JOB_GONE, fenced(OLD), aborted("adopt")], Health.UNKNOWN, "Nobody runs it (down)."),
        ([*JOB_ENDING, wanted("no", "stop")], Health.PASS, ""),
        (
            [
                *RUNNING,
                failed(OLD),
                wanted("go"),
                *up(NEW, "go"),
                requested("q", NEW, wish="go"),
                aborted("q", at=200.0),
                requested("r", NEW, wish="go"),
            ],
            Health.UNKNOWN,
            "Nobody runs it (starting)",
        ),
        ([*JOB_GONE, aborted("adopt", at=400.0), wanted("no", "stop")], Health.PASS, ""),
    ],
)
def test_people_are_told_once_whoever_wished_something_should_have_got_there(
    records: list[Record], then: Health, later: str
) -> None:
    assert of(records, 130.0)[0] is then
    health, says = of(records, 101.0 + TELL_SECONDS)
    assert (health, later in says) == (Health.FAIL if later else Health.PASS, True), says


def test_a_clock_that_is_ahead_does_not_keep_people_from_being_told() -> None:
    assert of([wanted("go", at=86_500.0)], 110.0)[0] is Health.FAIL


def test_people_are_told_which_release_is_tried_in_place_of_which() -> None:
    found = judge_run(snapshot(*UPGRADED, failed(NEW, committed=False)), None)
    said = f"Release 1 ({OLD_DEPLOYMENT}) runs in place of release 1 ({NEW_DEPLOYMENT}), which has never"
    assert (found.health, said in found.reason) == (Health.FAIL, True), found.reason


def test_queries_that_read_no_kafka_are_not_behind_once_they_have_committed() -> None:
    look = replace(snapshot(*UPGRADED), lag=LagReport(1.0, ()))
    assert judge_lag(look, look.lag, LagLimits(5)).health is Health.UNKNOWN
    beat = Heartbeat(counter=1, queries=(QueryProgress("a", batch=1),))
    assert judge_lag(replace(look, heartbeats={NEW: beat}), look.lag, LagLimits(5)).health is Health.PASS


def test_a_lag_that_could_not_be_measured_is_unknown() -> None:
    found = judge_lag(snapshot(*RUNNING), None, LagLimits(5), "Kafka does not answer.")
    assert (found.health, str(found)) == (Health.UNKNOWN, "Kafka does not answer.")
    far = LagReport(1.0, (QueryLag("q", (), seconds=9.0),))
    assert judge_lag(snapshot(*RUNNING), far, LagLimits(max_seconds=5.0)).health is Health.FAIL
