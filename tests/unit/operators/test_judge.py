"""A rehearsal beside what the holder does: what is refused, and what is shown."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.operators.upgrade import JudgeRehearsalOperator
from airflow_stream_provider.planning.signs_of_life import SignsOfLife
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.rehearsals import again, running
from tests.support.snapshots import BOTH
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    acquired,
    fenced,
    ready,
    record,
    released,
    requested,
    write,
)
from tests.support.tasks import run, waits


def rehearsed(seconds: float | None) -> list[Any]:
    batches = {"batch_rows": [5, 5], "batch_seconds": [90.0, seconds]} if seconds is not None else {}
    rehearsal = {"queries": {"a": batches}, "notes": ["a note"]}
    up = record("standby", deployment=NEW_DEPLOYMENT, incarnation=NEW, queries=[], rehearsal=rehearsal)
    return [*BOTH[:-1], up]


def judge(spec: StreamSpec, *, alive: bool = True) -> Any:
    """What the task returns. In doubt it waits for a sign of life of the holder, which comes or does not."""
    task = JudgeRehearsalOperator(task_id="t", stream=spec, family="new")
    with contextlib.suppress(TaskDeferred):
        return run(task)
    return run(task, WaitOutcome(Ended.REACHED, SignsOfLife.SUBJECT, evidence={OLD: alive}))


@pytest.mark.parametrize(("seconds", "good"), [(0.5, True), (10.0, True), (None, True), (10.5, False)])
def test_a_standby_that_would_be_late_at_once_is_for_a_person(
    spec: StreamSpec, log: ControlLog, seconds: float | None, good: bool
) -> None:
    write(log, *rehearsed(seconds))
    if good:
        assert judge(spec)["notes"] == ["a note"]
        return
    found = judge(spec)
    assert found["verdict"] == "inconclusive"
    assert (
        "The query a took 10.5 s for a batch of live data; the stream may be at most 10 s behind" in found["reasons"][0]
    )


def test_the_holders_batches_stand_beside_the_rehearsed_ones(
    spec: StreamSpec, log: ControlLog, capsys: pytest.CaptureFixture[str]
) -> None:
    write(log, *again(1.5))
    log.beat(OLD, running(1.0, 10.0))
    found = judge(spec)
    assert (found["verdict"], found["reasons"]) == ("pass", [])
    row = found["queries"]["a"]
    assert (row["slower"], row["new"]["batch_seconds"], row["old"]["batch_seconds"]) == (1.5, 1.5, 1.0)
    assert row["old"]["arriving_per_second"] == 100.0
    assert "a: the new release is about as fast as the old one." in capsys.readouterr().out
    json.dumps(found)


def test_what_cannot_be_told_is_left_to_a_person(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *again(9.0))
    log.beat(OLD, running(1.0, 12.0))
    found = judge(spec)
    assert found["verdict"] == "inconclusive"
    assert found["reasons"] == [found["queries"]["a"]["sentence"]]


@pytest.mark.parametrize(("seconds", "every"), [(9.0, 12.0), (9.0, 4.0), (10.5, 12.0)])
def test_a_holder_without_a_sign_of_life_keeps_no_upgrade_waiting(
    spec: StreamSpec, log: ControlLog, seconds: float, every: float
) -> None:
    write(log, *again(seconds))
    log.beat(OLD, running(1.0, every))
    found = judge(spec, alive=False)
    assert (found["verdict"], found["reasons"]) == ("pass", [])
    assert found["queries"]["a"]["old"]["batch_seconds"] == 1.0
    (note,) = found["notes"]
    assert note.startswith(f"{OLD} gives no sign of life. So this does not hold the upgrade up: ")


def test_in_doubt_it_waits_for_a_sign_of_life(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *again(9.0))
    log.beat(OLD, running(1.0, 12.0))
    condition = waits(JudgeRehearsalOperator(task_id="t", stream=spec, family="new"))
    assert condition["condition"] == "SignsOfLife"


def test_neither_does_one_that_hangs(spec: StreamSpec, log: ControlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    write(log, *again(9.0))
    log.beat(OLD, running(1.0, 12.0))
    monkeypatch.setattr("airflow_stream_provider.hooks.about_drivers.holder_hangs", lambda *_: f"{OLD} hangs.")
    found = judge(spec)
    assert found["verdict"] == "pass"
    assert found["notes"][0].startswith(f"{OLD} hangs. So this does not hold the upgrade up: a: the new release is 9.0")


def test_where_nobody_holds_nothing_is_compared_and_nobody_has_to_be_waited_for(
    spec: StreamSpec, log: ControlLog
) -> None:
    write(log, *again(9.0), fenced(OLD))
    log.beat(OLD, running(1.0, 4.0))
    assert judge(spec)["verdict"] == "pass"


def test_one_that_holds_by_now_is_not_compared_with_itself(spec: StreamSpec, log: ControlLog) -> None:
    ends = [requested("up", NEW), ready("up", NEW), released(OLD, "up", NEW), acquired(NEW, "up", 2)]
    write(log, *again(9.0), *ends)
    log.beat(NEW, running(1.0, 4.0))
    assert run(JudgeRehearsalOperator(task_id="t", stream=spec, family="new"))["verdict"] == "pass"


@pytest.mark.parametrize(("new", "noted"), [("4.1.0", True), ("4.0.0", False), ("", False)])
def test_another_version_of_spark_is_noted(spec: StreamSpec, log: ControlLog, new: str, noted: bool) -> None:
    write(log, *again(1.0))
    log.beat(OLD, running(1.0, 10.0, spark_version="4.0.0"))
    log.beat(NEW, Heartbeat(spark_version=new))
    says = ["The new release runs on Spark 4.1.0, and the one that holds on 4.0.0."]
    assert judge(spec)["notes"] == (says if noted else [])


def test_an_untried_spark_is_noted(spec: StreamSpec, log: ControlLog) -> None:
    """The first that is known of the Spark of a new release: its driver's heartbeat."""
    write(log, *again(1.0))
    log.beat(NEW, Heartbeat(spark_version="5.0.0"))
    [note] = judge(spec)["notes"]
    assert note.startswith("Spark 5.0.0 is untried: this provider was run on 3.5, ")


def test_what_was_not_rehearsed_is_refused(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH[:-1])
    with pytest.raises(AirflowFailException, match=f"{NEW_DEPLOYMENT} has not been rehearsed"):
        judge(spec)
