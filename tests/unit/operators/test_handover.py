"""A hand-over, a roll-back and a fence against a real control log: what they write, wait for and return."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.operators import base
from airflow_stream_provider.operators.base import with_gaps
from airflow_stream_provider.operators.stream import (
    FenceOperator,
    HandOverOperator,
    PromoteOperator,
    RollBackOperator,
)
from airflow_stream_provider.planning.conditions import FirstCommits, RequestOver
from airflow_stream_provider.planning.outcome import went
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.waits import Ended, Needs, WaitOutcome
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.noting_cluster import NotingCluster
from tests.support.played_drivers import PlayedDrivers
from tests.support.snapshots import BOTH, RUNNING, UPGRADED, snapshot
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    TWIN,
    acquired,
    fenced,
    ready,
    released,
    requested,
    standby,
    wanted,
    write,
)
from tests.support.tasks import IDENTITY, lives, run, waits


def hand_over(spec: StreamSpec) -> HandOverOperator:
    return HandOverOperator(task_id="t", stream=spec, family="new", approved="judged: pass")


def asked(spec: StreamSpec, log: ControlLog) -> str:
    """Let the task ask for the hand-over; return the request."""
    write(log, *BOTH)
    waits(hand_over(spec))
    request = log.refresh().open_request
    assert request is not None
    return request.id


def test_a_hand_over_wishes_and_asks_once_however_often_it_is_tried(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH)
    for _ in range(3):
        with pytest.raises(TaskDeferred) as deferred:
            run(hand_over(spec))
    wish, request = log.records()[len(BOTH) :]
    assert (wish.kind, wish["wish"], wish["goal"], wish["family"]) == ("wanted", IDENTITY.wish, "hold", "new")
    assert (wish["approved"], wish.by) == ("judged: pass", IDENTITY.by)
    assert (request.kind, request["to"], request["wish"]) == ("requested", NEW, IDENTITY.wish)
    assert deferred.value.method_name == "resume"
    left = deferred.value.trigger.deadline - time.time()
    assert deferred.value.timeout is not None
    assert deferred.value.timeout.total_seconds() > left + 60.0, "the trigger ends the wait, unless none runs"
    assert deferred.value.trigger.serialize()[1]["condition"]["condition"] == "RequestOver"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks wait in the worker."""
    monkeypatch.setattr(base, "HERE_SECONDS", 60.0)


@pytest.mark.usefixtures("patient")
def test_what_comes_soon_needs_no_trigger(spec: StreamSpec, log: ControlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    for condition in (RequestOver, FirstCommits):
        monkeypatch.setattr(condition, "soon", 60.0)
    write(log, *BOTH)
    with PlayedDrivers(spec.control):
        result = run(hand_over(spec))
    assert (result["holder"], result["previous"]) == (NEW_DEPLOYMENT, OLD_DEPLOYMENT)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("found", ["nothing yet", "a silence", "a dead driver", "an error", "no answer"])
def test_what_does_not_come_soon_and_well_is_left_to_a_trigger(
    spec: StreamSpec, log: ControlLog, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    monkeypatch.setattr(RequestOver, "soon", 0.2 if found in ("nothing yet", "no answer") else 60.0)
    write(log, *BOTH)
    task, over = hand_over(spec), threading.Event()
    observe = task.hook.observe

    def look(*needs: Needs) -> Snapshot:
        if threading.current_thread() is not threading.main_thread():
            if found == "an error":
                raise ControlUnavailable("The folder does not answer.", next_step="-")
            if found == "no answer":
                over.wait(60)
        return observe(*needs)

    monkeypatch.setattr(task.hook, "observe", look)
    bad = {
        "a silence": WaitOutcome(Ended.SILENT, OLD),
        "a dead driver": WaitOutcome(Ended.REACHED, "signs of life", evidence={OLD: True, NEW: False}),
    }
    if found in bad:
        monkeypatch.setattr(RequestOver, "check", lambda *_: bad[found])
    hook = task.hook
    assert waits(task)["condition"] == "RequestOver"
    over.set()
    assert (task.hook is hook) == (found != "no answer"), "a look that hangs goes on with it"


def test_a_resumed_task_returns_what_the_log_says(spec: StreamSpec, log: ControlLog) -> None:
    request = asked(spec, log)
    write(log, ready(request, NEW), released(OLD, request, NEW), acquired(NEW, request, 2))
    result = run(hand_over(spec), lives(NEW))
    assert (result["holder"], result["previous"], result["boundary"]) == (NEW_DEPLOYMENT, OLD_DEPLOYMENT, "completed")
    assert (result["ends"], result["family"]) == ({"a": {"batch": 7}}, "new")


def test_a_task_whose_wish_was_replaced_says_by_which_record_and_by_whom(spec: StreamSpec, log: ControlLog) -> None:
    asked(spec, log)
    write(log, wanted("rest", "stop", by="person:anna/x/stop"))
    with pytest.raises(AirflowFailException, match=rf"replaced by record {len(BOTH) + 3}, by person:anna/x/stop"):
        run(hand_over(spec))
    assert len(log.records()) == len(BOTH) + 3


def test_what_nobody_has_approved_does_not_take_over_and_nothing_is_wished(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH[:-4], wanted("new", "stand_by", approval=True), *BOTH[-3:])
    for operator in (
        HandOverOperator(task_id="t", stream=spec, family="new"),
        PromoteOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT),
    ):
        with pytest.raises(AirflowFailException, match="a person has to approve it"):
            run(operator, lives(OLD))
    assert len(log.records()) == len(BOTH)


def test_a_hand_over_of_a_release_that_was_called_off_gives_up(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH, wanted("back", family="old", by="person:anna/x/abort"))
    with pytest.raises(AirflowFailException, match="by person:anna/x/abort"):
        run(hand_over(spec))


def test_a_roll_back_by_hand_is_of_the_release_that_was_shown(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *UPGRADED)
    back = RollBackOperator(task_id="t", stream=spec, deployment=OLD_DEPLOYMENT)
    back.deployment = NEW_DEPLOYMENT
    with pytest.raises(
        AirflowFailException,
        match=rf"back to .* \({OLD_DEPLOYMENT}\) now, and .* \({NEW_DEPLOYMENT}\) was foreseen",
    ):
        run(back, lives(NEW))
    back.deployment = OLD_DEPLOYMENT
    waits(back, lives(NEW))
    wish = log.refresh().wish
    assert wish is not None
    assert (wish.family, wish.back, wish.before) == ("old", True, "new")


MINE = IDENTITY.run + "hand_over"


def by_this_run() -> list[Any]:
    """The upgrade, with the wishes of the run of the task."""
    upgraded = [*BOTH[:-4], wanted("new", "stand_by", by=MINE), *BOTH[-3:]]
    return [*upgraded, wanted("take", family="new", approved="x", by=MINE), *UPGRADED[len(BOTH) + 1 :]]


def test_a_roll_back_without_a_fault_leaves_the_holder_and_fails(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *by_this_run())
    with pytest.raises(AirflowFailException, match=r"No fault of .* was found"):
        run(RollBackOperator(task_id="t", stream=spec, fault=""))
    with pytest.raises(AirflowSkipException, match="It went well"):
        run(RollBackOperator(task_id="t", stream=spec, fault="", well="good"))
    assert len(log.records()) == len(UPGRADED)
    waits(RollBackOperator(task_id="t", stream=spec, fault="It is behind."), lives(OLD, NEW))
    request = log.refresh().open_request
    assert request is not None
    assert (request.to, request.reason) == (OLD, "It is behind.")


def test_once_it_is_rolled_back_the_bad_release_is_ended(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *by_this_run())
    back = RollBackOperator(task_id="t", stream=spec, fault="It is behind.")
    waits(back, lives(OLD, NEW))
    request = log.refresh().open_request
    assert request is not None
    write(log, ready(request.id, OLD), released(NEW, request.id, OLD), acquired(OLD, request.id, 3))
    cluster.states[f"driver-{NEW_DEPLOYMENT}"] = DriverState.RUNNING
    condition = waits(back, lives(OLD))
    assert (condition["condition"], condition["deployment"]) == ("DriversGone", NEW_DEPLOYMENT)
    assert (log.records()[-1].kind, log.records()[-1]["deployment"]) == ("retired", NEW_DEPLOYMENT)
    cluster.states[f"driver-{NEW_DEPLOYMENT}"] = DriverState.FINISHED
    result = run(back, lives(OLD))
    assert (result["holder"], result["previous"]) == (OLD_DEPLOYMENT, "")
    assert log.refresh().deployments[OLD_DEPLOYMENT].ended is None


def test_a_candidate_of_the_run_is_called_off_and_ended(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    """Also when a person marks the run as failed: no standby keeps cores in vain."""
    write(log, *by_this_run()[: len(BOTH)])
    cluster.states[f"driver-{NEW_DEPLOYMENT}"] = DriverState.FINISHED
    back = RollBackOperator(task_id="t", stream=spec, fault="")
    assert waits(back)["condition"] == "SignsOfLife"
    assert run(back, lives(OLD))["holder"] == OLD_DEPLOYMENT
    state = log.refresh()
    assert (state.candidate, state.holder) == (None, OLD)
    assert [r["deployment"] for r in log.records() if r.kind == "retired"] == [NEW_DEPLOYMENT]
    assert run(back, lives(OLD))["holder"] == OLD_DEPLOYMENT, "it is cleared"


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
    dead = [fenced(OLD)] if boundary == "interrupted" else []
    appointed = [requested("up", NEW), ready("up", NEW), acquired(NEW, "up", 2)]
    stop = [requested("stop", None)] if boundary else []
    found = with_gaps(snapshot(*RUNNING, *stop, end, *dead, *BOTH[len(RUNNING) :], *appointed), {"request": "up"})
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


def test_a_person_can_say_that_a_driver_is_dead(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH)
    operator = FenceOperator(
        task_id="t", stream=spec, deployment=OLD_DEPLOYMENT, reason="The rack burnt down.", confirmed_by="Ada"
    )
    assert run(operator)["fenced"] == [OLD]
    fenced = log.records()[-1]
    assert (fenced.kind, fenced["reason"], fenced["evidence"]) == ("fenced", "The rack burnt down.", {"person": "Ada"})
    assert run(operator)["fenced"] == [OLD]


@pytest.mark.parametrize("age", [0.5, -3.0, 29.0])
def test_a_person_is_not_believed_while_the_driver_beats(spec: StreamSpec, log: ControlLog, age: float) -> None:
    """What was shown when he said so may be an hour old."""
    write(log, *BOTH)
    log.store.put_heartbeat(OLD, Heartbeat(counter=900, at=time.time() - age).to_json())
    with pytest.raises(AirflowFailException, match=f"{OLD} was alive .* ago, by its heartbeat: it cannot be gone"):
        run(FenceOperator(task_id="t", stream=spec, deployment=OLD_DEPLOYMENT, confirmed_by="Ada"))
    assert log.refresh().holder == OLD
    log.store.put_heartbeat(OLD, Heartbeat(counter=901, at=time.time() - 3600).to_json())
    assert run(FenceOperator(task_id="t", stream=spec, deployment=OLD_DEPLOYMENT, confirmed_by="Ada"))["fenced"] == [
        OLD
    ]


def test_a_person_speaks_for_every_driver_of_the_deployment(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH, standby(TWIN))
    operator = FenceOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT, confirmed_by="Ada")
    assert run(operator)["fenced"] == [NEW, TWIN]
    assert {r["reason"] for r in log.records() if r.kind == "fenced"} == {IDENTITY.by}


def test_without_a_person_the_driver_is_killed_and_the_cluster_has_to_confirm_it(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *BOTH)
    operator = FenceOperator(task_id="t", stream=spec, deployment=OLD_DEPLOYMENT)
    condition = waits(operator)
    assert cluster.did == [("kill", f"driver-{OLD_DEPLOYMENT}")]
    assert condition["incarnation"] == OLD
    declared = log.records()[-1]
    assert (declared.kind, declared["incarnation"], declared["reason"]) == ("fencing", OLD, IDENTITY.by)
    assert run(operator, WaitOutcome(Ended.DEAD, OLD, evidence={"cluster": "gone"}))["fenced"] == [OLD]
    assert log.records()[-1]["evidence"] == {"cluster": "gone"}


def test_a_deployment_that_is_not_known_is_skipped(spec: StreamSpec, log: ControlLog) -> None:
    with pytest.raises(AirflowSkipException, match="There is no deployment 'none'"):
        run(FenceOperator(task_id="t", stream=spec, deployment="none", confirmed_by="Ada"))


def test_a_template_of_an_empty_field_is_no_person(spec: StreamSpec, log: ControlLog, cluster: NotingCluster) -> None:
    """Two drivers would write: nobody has made sure of anything, and the cluster would not be asked."""
    write(log, *BOTH)
    template = FenceOperator(
        task_id="t", stream=spec, deployment=OLD_DEPLOYMENT, confirmed_by="{{ params.confirmed_by }}"
    )
    template.render_template_fields({"params": {"confirmed_by": None}})
    with pytest.raises(AirflowFailException, match="'None' is what a template makes"):
        run(template)
    assert (len(log.records()), cluster.did) == (len(BOTH), [])
