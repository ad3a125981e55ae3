"""Starting a stream as a table: who holds, and who asks."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.conditions import RequestOver, StandbyUp
from airflow_stream_provider.planning.signs_of_life import SignsOfLife
from airflow_stream_provider.planning.start import start
from airflow_stream_provider.planning.steps import Append, Declare, Done, GiveUp, Submit, Wait
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome
from tests.support.snapshots import ME, snapshot
from tests.support.story import (
    OLD,
    OLD_DEPLOYMENT,
    RUNNING,
    STARTED,
    STOPPED,
    aborted,
    acquired,
    fenced,
    ready,
    released,
    requested,
)

MINE = OLD_DEPLOYMENT
ASKED = [*STARTED, requested("mine", OLD, by=ME.by)]
TAKEN = [*ASKED, ready("mine", OLD), acquired(OLD, "mine", 1)]


def plan(records: list[Record], deployment: str = MINE, version: str = "1", outcome: WaitOutcome | None = None) -> Any:
    return start(snapshot(*records), ME, deployment, version, outcome, "why")


def test_a_release_is_declared_submitted_and_waited_for() -> None:
    assert plan([]) == Declare(MINE, "why")
    assert plan(STARTED[:1]) == Submit(MINE)
    assert plan(STARTED[:2]) == Wait(StandbyUp(MINE))


def test_then_it_is_appointed_and_that_is_followed() -> None:
    step = plan(STARTED)
    assert isinstance(step, Append)
    assert (step.kind, step.fields["to"], step.fields["reason"]) == ("requested", OLD, "why")
    assert plan(ASKED) == Wait(RequestOver("mine", 200.0, (OLD,), 30.0))
    done = plan(TAKEN)
    assert isinstance(done, Done)
    assert (done.result["holder"], done.result["request"]) == (MINE, "mine")


def alive(sign: bool) -> WaitOutcome:
    return WaitOutcome(Ended.REACHED, SignsOfLife.SUBJECT, evidence={OLD: sign})


@pytest.mark.parametrize("deployment", ["orders-1-cccc", ""])
def test_a_version_that_runs_already_is_left_alone_once_its_driver_gave_a_sign_of_life(deployment: str) -> None:
    assert plan(RUNNING, deployment) == Wait(SignsOfLife({OLD: -1}, 30.0))
    done = plan(RUNNING, deployment, outcome=alive(True))
    assert isinstance(done, Done)
    assert (done.result["deployment"], done.result["holder"]) == (OLD_DEPLOYMENT, OLD_DEPLOYMENT)


def test_a_version_that_holds_with_a_dead_driver_is_no_success() -> None:
    step = plan(RUNNING, "orders-1-cccc", outcome=alive(False))
    assert isinstance(step, GiveUp)
    assert "gives no sign of life" in str(step.error)


def test_a_task_that_is_cleared_after_a_later_stop_does_not_claim_that_anybody_runs() -> None:
    stop = [requested("stop", None, by="airflow:other"), released(OLD, "stop", None)]
    step = plan([*TAKEN, *stop])
    assert isinstance(step, GiveUp)
    assert "has been ended since. Nobody holds the stream" in str(step.error)


def test_another_version_that_runs_is_not_replaced() -> None:
    step = plan(RUNNING, "orders-2-cccc", "2")
    assert isinstance(step, GiveUp)
    assert str(step.error).startswith(f"{OLD_DEPLOYMENT} (release 1) holds the stream. Upgrade it instead")
    assert step.error.fields["holder"] == OLD_DEPLOYMENT


def test_a_cleared_start_starts_nothing_again() -> None:
    step = plan([*TAKEN, fenced(OLD)])
    assert isinstance(step, GiveUp)
    assert "Start a new run" in str(step.error)


def test_a_stopped_stream_is_started_with_a_deployment_of_its_own() -> None:
    assert plan(STOPPED, "orders-1-cccc") == Declare("orders-1-cccc", "why")


def test_a_request_of_this_task_that_was_aborted_is_made_again_while_nobody_holds() -> None:
    step = plan([*ASKED, aborted("mine", by=ME.by)])
    assert isinstance(step, Append)
    assert (step.kind, step.fields["to"]) == ("requested", OLD)
