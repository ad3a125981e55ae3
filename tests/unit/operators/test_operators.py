"""The operators against a real control log, without a database: what they write, and when they defer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_stream_provider.control import ControlLog, open_log
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.fence import FenceOperator
from airflow_stream_provider.operators.handover import HandOverOperator, RollBackOperator
from airflow_stream_provider.operators.judge import JudgeRehearsalOperator
from airflow_stream_provider.operators.soak import SoakOperator
from airflow_stream_provider.operators.stop import StopStreamOperator
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.snapshots import BOTH, UPGRADED
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    ready,
    record,
    released,
    requested,
    write,
)


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    return StreamSpec.model_validate(
        {
            "name": "orders",
            "application": "a.py",
            "version": "2",
            "cluster": "no_such_connection",
            "control": f"file://{tmp_path}",
            "kafka": "no_such_kafka",
            "lag": {"max_seconds": 10},
        }
    )


@pytest.fixture
def log(spec: StreamSpec) -> ControlLog:
    return open_log(spec.control, spec.name, create=True)


def context(pushed: dict[str, Any] | None = None) -> Any:
    def push(key: str, value: Any) -> None:
        if pushed is not None:
            pushed[key] = value

    ti = SimpleNamespace(dag_id="dag", run_id="run", task_id="t", map_index=-1, xcom_push=push)
    return {"ti": ti}


def run(operator: StreamOperator, event: WaitOutcome | None = None) -> Any:
    if event is None:
        return operator.execute(context())
    return operator.resume(context(), event.to_event())


def hand_over(spec: StreamSpec) -> HandOverOperator:
    return HandOverOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT)


def test_a_hand_over_asks_once_however_often_it_is_tried(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH)
    for _ in range(3):
        with pytest.raises(TaskDeferred) as deferred:
            run(hand_over(spec))
    assert [r.kind for r in log.records()].count("requested") == 2  # the first of all, and ours
    assert deferred.value.method_name == "resume"
    assert deferred.value.trigger.serialize()[1]["condition"]["condition"] == "RequestOver"


def test_a_resumed_task_returns_what_the_log_says(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH)
    with pytest.raises(TaskDeferred):
        run(hand_over(spec))
    request = log.refresh().open_request
    assert request is not None
    write(log, ready(request.id, NEW), released(OLD, request.id, NEW), acquired(NEW, request.id, 2))
    result = run(hand_over(spec), WaitOutcome(Ended.REACHED, request.id))
    assert (result["holder"], result["previous"], result["boundary"]) == (NEW_DEPLOYMENT, OLD_DEPLOYMENT, "completed")
    assert result["ends"] == {"a": {"batch": 7}}
    assert run(hand_over(spec)) == result


@pytest.mark.parametrize("event", [None, {}, {"ended": "done"}])
def test_an_event_that_is_not_ours_is_no_success(spec: StreamSpec, log: ControlLog, event: Any) -> None:
    write(log, *UPGRADED)
    with pytest.raises(Exception, match="instead of a stream event"):
        hand_over(spec).resume(context(), event)


def test_a_timeout_fails_with_what_was_waited_for(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH)
    timeout = WaitOutcome(
        Ended.TIMEOUT, reason="Timed out waiting for x. Last problem: It is away.", evidence={OLD: "running: batch 7"}
    )
    expected = r"orders: Timed out waiting for x\. Last problem: It is away\. The task waited 900 s\. "
    with pytest.raises(AirflowFailException, match=expected + ".*says 'running: batch 7'"):
        run(hand_over(spec), timeout)


def test_no_operator_ends_a_stream_when_airflow_kills_its_task() -> None:
    for operator in (HandOverOperator, RollBackOperator, StopStreamOperator, SoakOperator, FenceOperator):
        assert not any(
            "on_kill" in vars(cls) for cls in operator.__mro__ if cls.__module__.startswith("airflow_stream")
        )


def test_a_person_can_say_that_a_driver_is_dead(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH)
    operator = FenceOperator(
        task_id="t", stream=spec, deployment=OLD_DEPLOYMENT, reason="The rack burnt down.", confirmed_by="Ada"
    )
    assert run(operator)["fenced"] == [OLD]
    fenced = log.records()[-1]
    assert (fenced.kind, fenced["reason"], fenced["evidence"]) == ("fenced", "The rack burnt down.", {"person": "Ada"})
    assert run(operator)["fenced"] == [OLD]


def test_a_roll_back_of_nothing_is_skipped(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH)
    with pytest.raises(AirflowSkipException, match="Nothing to roll back"):
        run(RollBackOperator(task_id="t", stream=spec, deployment=""))
    with pytest.raises(AirflowSkipException, match=f"{OLD_DEPLOYMENT} .*holds the stream"):
        run(RollBackOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT))


def test_a_bad_soak_leaves_its_reason_for_the_roll_back(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *UPGRADED)
    operator = SoakOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT)
    pushed: dict[str, Any] = {}
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context())
    assert deferred.value.trigger.serialize()[1]["condition"]["limits"]["lag"]["max_seconds"] == 10
    bad = WaitOutcome(Ended.LOST, NEW_DEPLOYMENT, "It is behind.", {"samples": 7})
    with pytest.raises(AirflowFailException, match=r"Release 1 .* is no good: It is behind\. Roll back\."):
        operator.resume(context(pushed), bad.to_event())
    assert pushed["fault"] == "It is behind."
    good = operator.resume(context(), WaitOutcome(Ended.REACHED, NEW_DEPLOYMENT, "", {"samples": 7}).to_event())
    assert (good["result"], good["samples"]) == ("good", 7)


@pytest.mark.parametrize(("seconds", "good"), [(0.5, True), (None, True), (10.5, False)])
def test_a_standby_that_would_be_late_at_once_is_refused(
    spec: StreamSpec, log: ControlLog, seconds: float | None, good: bool
) -> None:
    rehearsal = {"queries": {"a": {"last_batch_seconds": seconds, "rows_per_second": 5.0}}, "notes": ["a note"]}
    up = record("standby", deployment=NEW_DEPLOYMENT, incarnation=NEW, queries=[], rehearsal=rehearsal)
    write(log, *BOTH[:-1], up)
    operator = JudgeRehearsalOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT)
    if good:
        assert run(operator)["notes"] == ["a note"]
        return
    with pytest.raises(AirflowFailException, match=r"took 10.5 s for a batch of live data"):
        run(operator)


def test_a_request_that_another_made_is_followed_first(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH, requested("theirs", NEW, by="someone else"))
    with pytest.raises(TaskDeferred) as deferred:
        run(StopStreamOperator(task_id="t", stream=spec))
    assert deferred.value.trigger.serialize()[1]["condition"]["request"] == "theirs"
