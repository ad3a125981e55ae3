"""A hand-over and a roll-back against a real control log: what they write, wait for and return."""

from __future__ import annotations

import time
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.operators.stream import HandOverOperator, RollBackOperator, with_gaps
from airflow_stream_provider.planning.outcome import went
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.snapshots import BOTH, RUNNING, UPGRADED, snapshot
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    aborted,
    acquired,
    declared,
    fenced,
    ready,
    released,
    requested,
    standby,
    submitted,
    write,
)
from tests.support.tasks import IDENTITY, run


def hand_over(spec: StreamSpec) -> HandOverOperator:
    return HandOverOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT)


def asked(spec: StreamSpec, log: ControlLog) -> str:
    """Let the task ask for the hand-over; return the request."""
    write(log, *BOTH)
    with pytest.raises(TaskDeferred):
        run(hand_over(spec))
    request = log.refresh().open_request
    assert request is not None
    return request.id


def test_a_hand_over_asks_once_however_often_it_is_tried(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH)
    for _ in range(3):
        with pytest.raises(TaskDeferred) as deferred:
            run(hand_over(spec))
    assert [r.kind for r in log.records()].count("requested") == 2  # the first of all, and ours
    assert deferred.value.method_name == "resume"
    left = deferred.value.trigger.deadline - time.time()
    assert deferred.value.timeout is not None
    assert deferred.value.timeout.total_seconds() > left + 60.0, "the trigger ends the wait, unless none runs"
    assert deferred.value.trigger.serialize()[1]["condition"]["condition"] == "RequestOver"


def test_a_resumed_task_returns_what_the_log_says(spec: StreamSpec, log: ControlLog) -> None:
    request = asked(spec, log)
    write(log, ready(request, NEW), released(OLD, request, NEW), acquired(NEW, request, 2))
    result = run(hand_over(spec), WaitOutcome(Ended.REACHED, request))
    assert (result["holder"], result["previous"], result["boundary"]) == (NEW_DEPLOYMENT, OLD_DEPLOYMENT, "completed")
    assert result["ends"] == {"a": {"batch": 7}}
    assert run(hand_over(spec)) == result


def test_a_hand_over_that_was_aborted_is_not_asked_for_again(spec: StreamSpec, log: ControlLog) -> None:
    request = asked(spec, log)
    write(log, aborted(request, by=IDENTITY.by))
    with pytest.raises(AirflowFailException, match=f"was aborted: enough. {OLD_DEPLOYMENT} .*holds the stream"):
        run(hand_over(spec))
    assert log.refresh().open_request is None


def test_a_roll_back_of_nothing_is_skipped(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH)
    with pytest.raises(AirflowSkipException, match="Nothing to roll back"):
        run(RollBackOperator(task_id="t", stream=spec, deployment=""))
    with pytest.raises(AirflowSkipException, match=f"{OLD_DEPLOYMENT} .*holds the stream"):
        run(RollBackOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT))


def test_a_roll_back_asks_the_warm_one_before_to_take_over(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *UPGRADED)
    with pytest.raises(TaskDeferred):
        run(RollBackOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT))
    request = log.refresh().open_request
    assert request is not None
    assert (request.source, request.to, request.by) == (NEW, OLD, IDENTITY.by)


def test_a_roll_back_without_a_fault_leaves_the_holder_and_fails(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *UPGRADED)
    with pytest.raises(AirflowFailException, match=r"No fault of .* was found"):
        run(RollBackOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT, fault=""))
    assert log.refresh().open_request is None
    with pytest.raises(TaskDeferred):
        run(RollBackOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT, fault="It is behind."))
    request = log.refresh().open_request
    assert request is not None
    assert (request.to, request.reason) == (OLD, "It is behind.")


def test_a_restart_that_failed_before_it_declared_starts_the_old_release_again(
    spec: StreamSpec, log: ControlLog
) -> None:
    stop = requested("stop", None, by=f"{IDENTITY.run}stop_first")
    write(log, *RUNNING, stop, released(OLD, "stop", None))
    with pytest.raises(TaskDeferred):
        run(RollBackOperator(task_id="t", stream=spec, deployment="", fault=""))
    request = log.refresh().open_request
    assert request is not None
    assert request.to == OLD


@pytest.mark.parametrize("done", [{}, {"request": ""}, {"request": "none"}, {"holder": "x"}])
def test_without_a_change_of_holder_nothing_is_added(done: dict[str, Any]) -> None:
    assert with_gaps(snapshot(*UPGRADED), done) == done


@pytest.mark.parametrize(
    ("end", "boundary"),
    [
        (released(OLD, "stop", None), "completed"),
        (released(OLD, "stop", None, "interrupted"), "interrupted"),
        (fenced(OLD), None),
    ],
)
def test_how_a_holder_stopped_before_another_one_was_appointed_is_added(end: Any, boundary: str | None) -> None:
    comes_up = [declared(NEW_DEPLOYMENT), submitted(NEW_DEPLOYMENT), standby(NEW)]
    dead = [fenced(OLD)] if boundary == "interrupted" else []
    appointed = [requested("up", NEW), ready("up", NEW), acquired(NEW, "up", 2)]
    stop = [requested("stop", None)] if boundary else []
    found = with_gaps(snapshot(*RUNNING, *stop, end, *dead, *comes_up, *appointed), {"request": "up"})
    assert found.get("boundary") == boundary
    assert ("Nothing lost, nothing doubled" in went(found)) == (boundary == "completed")


def test_how_the_change_of_holder_went_is_added() -> None:
    found = with_gaps(snapshot(*UPGRADED), {"request": "mine", "holder": "x"})
    assert found == {
        "request": "mine",
        "holder": "x",
        "boundary": "completed",
        "ends": {"a": {"batch": 7}},
        "gap_seconds": {},
    }
