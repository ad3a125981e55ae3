"""Bringing a deployment up: a state of the log on the left, the next step on the right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.planning.conditions import StandbyUp
from airflow_stream_provider.planning.snapshot import DriverFacts
from airflow_stream_provider.planning.stand_by import nobody_else_submitted, stand_by
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Submit, Wait
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.snapshots import BOTH, RUNNING, UPGRADED, given_up, results, snapshot
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD_DEPLOYMENT,
    declared,
    record,
    standby,
    submitted,
)


def test_a_declared_deployment_is_submitted_then_waited_for() -> None:
    new = declared(NEW_DEPLOYMENT)
    assert stand_by(snapshot(*RUNNING, new), NEW_DEPLOYMENT, None) == Submit(NEW_DEPLOYMENT)
    waiting = stand_by(snapshot(*RUNNING, new, submitted(NEW_DEPLOYMENT)), NEW_DEPLOYMENT, None)
    assert waiting == Wait(StandbyUp(NEW_DEPLOYMENT))
    assert results(stand_by(snapshot(*BOTH), NEW_DEPLOYMENT, None), "incarnation") == (NEW,)


def test_the_submission_of_a_driver_that_is_up_is_recorded_as_long_as_its_heartbeat_tells_it() -> None:
    unrecorded = snapshot(*RUNNING, declared(NEW_DEPLOYMENT), standby(NEW))
    told = replace(unrecorded, heartbeats={NEW: Heartbeat(counter=1, submission="driver-7")})
    assert stand_by(told, NEW_DEPLOYMENT, None) == Submit(NEW_DEPLOYMENT)
    assert isinstance(stand_by(unrecorded, NEW_DEPLOYMENT, None), Done), "it is up: nothing is submitted again"


def test_a_standby_that_became_the_holder_meanwhile_is_up_too() -> None:
    assert isinstance(stand_by(snapshot(*UPGRADED), NEW_DEPLOYMENT, None), Done)


def test_a_refused_rehearsal_is_final_and_says_who_holds() -> None:
    refusal = record("failed", deployment=NEW_DEPLOYMENT, incarnation=NEW, reason="No.", error="x")
    assert f"{OLD_DEPLOYMENT} (release 1) holds the stream." in given_up(
        stand_by(snapshot(*RUNNING, declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT), refusal), NEW_DEPLOYMENT, None)
    )


def test_the_error_that_the_driver_recorded_is_told_once() -> None:
    def told(reason: str, error: str) -> str:
        refusal = record("failed", deployment=NEW_DEPLOYMENT, incarnation=NEW, reason=reason, error=error)
        records = [*RUNNING, declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT), refusal]
        step = stand_by(snapshot(*records), NEW_DEPLOYMENT, None)
        assert isinstance(step, GiveUp)
        return str(step.error)

    assert "failed: The script failed: ValueError: no topic. " in told("The script failed", "ValueError: no topic")
    assert told("No topic. Make it.", "SpecError: No topic.").count("No topic.") == 1


def test_a_driver_that_died_without_a_word_is_put_on_record() -> None:
    records = [*RUNNING, declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT)]
    lost = WaitOutcome(Ended.GONE, NEW_DEPLOYMENT, "its driver is gone (failed)")
    step = stand_by(snapshot(*records), NEW_DEPLOYMENT, lost)
    assert isinstance(step, Append)
    assert step.kind == "failed"
    for outcome in (lost, None):  # and when the task is cleared
        over = stand_by(snapshot(*records, record(step.kind, **step.fields)), NEW_DEPLOYMENT, outcome)
        assert isinstance(over, GiveUp)
        assert over.log_of == NEW_DEPLOYMENT, "only its own log can say why"


def test_a_driver_that_has_said_why_is_not_asked_again() -> None:
    refusal = record("failed", deployment=NEW_DEPLOYMENT, incarnation=NEW, reason="No.", error="x")
    step = stand_by(
        snapshot(*RUNNING, declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT), refusal), NEW_DEPLOYMENT, None
    )
    assert isinstance(step, GiveUp)
    assert step.log_of == ""


def test_a_driver_that_runs_and_says_nothing_is_waited_for_with_a_look_at_its_log() -> None:
    records = [*RUNNING, declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT)]
    mute = WaitOutcome(Ended.EXPIRED, NEW_DEPLOYMENT, "its driver has not said anything yet")
    assert stand_by(snapshot(*records), NEW_DEPLOYMENT, mute) == Wait(StandbyUp(NEW_DEPLOYMENT), log_of=NEW_DEPLOYMENT)


def test_what_was_never_sent_is_submitted_whoever_sees_it() -> None:
    """The task that wrote its id into the log may have died before it sent it."""
    records = [*RUNNING, declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT)]
    unsent = WaitOutcome(Ended.UNSENT, NEW_DEPLOYMENT, "its id is reserved")
    assert stand_by(snapshot(*records), NEW_DEPLOYMENT, unsent) == Submit(NEW_DEPLOYMENT)
    other = WaitOutcome(Ended.UNSENT, OLD_DEPLOYMENT, "its id is reserved")
    assert stand_by(snapshot(*records), NEW_DEPLOYMENT, other) == Wait(StandbyUp(NEW_DEPLOYMENT))
    seen = {NEW_DEPLOYMENT: DriverFacts("application_1", DriverState.RESERVED)}
    assert stand_by(replace(snapshot(*records), drivers=seen), NEW_DEPLOYMENT, None) == Submit(NEW_DEPLOYMENT)
    up = snapshot(*records, standby(NEW))
    assert isinstance(stand_by(up, NEW_DEPLOYMENT, unsent), Done)


def test_only_a_deployment_that_was_declared_just_now_is_submitted_without_a_look_at_the_cluster() -> None:
    new = declared(NEW_DEPLOYMENT)  # at 100
    assert nobody_else_submitted(snapshot(*RUNNING, new, at=105.0), NEW_DEPLOYMENT, True)
    assert not nobody_else_submitted(snapshot(*RUNNING, new, at=105.0), NEW_DEPLOYMENT, False)
    assert not nobody_else_submitted(snapshot(*RUNNING, new, at=110.0), NEW_DEPLOYMENT, True)


@pytest.mark.parametrize(
    ("reason", "error", "said"),
    [
        ("The script failed", "ValueError: no such topic", "The script failed: ValueError: no such topic."),
        ("No.", "StreamError: No.", "No."),
        ("It never came up.", "", "It never came up."),
    ],
)
def test_who_is_refused_is_told_the_error_behind_it_once(reason: str, error: str, said: str) -> None:
    refusal = record("failed", deployment=NEW_DEPLOYMENT, incarnation=NEW, reason=reason, error=error)
    story = [*RUNNING, declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT), refusal]
    assert f" failed: {said} {OLD_DEPLOYMENT} " in given_up(stand_by(snapshot(*story), NEW_DEPLOYMENT, None))
