"""How a task's log names each step."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.conditions import StandbyUp
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.signs_of_life import Dead, JobGone
from airflow_stream_provider.planning.steps import (
    Append,
    CommandIdentity,
    Declare,
    Done,
    EndJob,
    GiveUp,
    Kill,
    Skip,
    Step,
    Submit,
    TaskIdentity,
    Wait,
    command_identity,
    person,
)
from airflow_stream_provider.planning.stop import stop
from tests.support.snapshots import snapshot
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    PREPARED,
    RUNNING,
    STOPPED,
    aborted,
    acquired,
    declared,
    failed,
    play,
    ready,
    record,
    released,
    requested,
    stopped,
    submitted,
)

UP, DEAD = StandbyUp("orders-2"), Dead("orders-1.00000001", 30.0)
STEPS: list[tuple[Step, str]] = [
    (Done({"holder": "orders-2"}), "done"),
    (Skip("It holds."), "nothing to do: It holds"),
    (GiveUp(HandOverFailed("It was taken back.")), "giving up"),
    (Wait(UP), f"waiting for {UP.description}"),
    (Append("fenced", {"incarnation": "a.1", "reason": "it is dead", "evidence": {"person": "Ada"}}),
     "appending fenced (incarnation a.1, reason it is dead)"),
    (Append("requested", {"request": "r", "to": None, "expires": 5.0, "reason": ""}),
     "appending requested (request r)"),
    (Append("retired", {"reason": "old", "deployment": "d"}), "appending retired (deployment d, reason old)"),
    (Declare("orders-2", "why"), "declaring orders-2"),
    (Submit("orders-2"), "submitting orders-2"),
    (EndJob("driver-1", JobGone("driver-1")), "ending driver-1"),
    (Kill("orders-1", DEAD), f"killing orders-1, then waiting for {DEAD.description}"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "words"), STEPS, ids=[words.split()[0] for _, words in STEPS])
def test_a_step_is_said_in_the_log(step: Step, words: str) -> None:
    assert str(step) == words


def test_every_step_is_said_above() -> None:
    assert {type(step) for step, _ in STEPS} == set(get_args(Step))


ME = TaskIdentity("orders__upgrade", "manual__2025", "hand_over")


def of(**changes: Any) -> TaskIdentity:
    told = {"dag_id": "orders__upgrade", "run_id": "manual__2025", "task_id": "hand_over", "map_index": -1}
    return TaskIdentity.of({"ti": SimpleNamespace(**{**told, **changes})})


def test_every_try_of_a_task_is_the_same_task() -> None:
    assert of(try_number=1) == of(try_number=2) == ME


@pytest.mark.parametrize(
    ("map_index", "by"),
    [
        (-1, "airflow:orders__upgrade/manual__2025/hand_over"),
        (None, "airflow:orders__upgrade/manual__2025/hand_over"),
        (0, "airflow:orders__upgrade/manual__2025/hand_over[0]"),
        (3, "airflow:orders__upgrade/manual__2025/hand_over[3]"),
    ],
)
def test_what_its_records_are_signed_with(map_index: int | None, by: str) -> None:
    assert of(map_index=map_index).by == by


def test_the_tasks_of_a_run_share_the_runs_prefix() -> None:
    soak = replace(ME, task_id="soak", map_index=1)
    assert ME.run == soak.run
    assert soak.by.startswith(ME.run)
    assert not replace(ME, run_id="manual__2025x").by.startswith(ME.run)


@pytest.mark.parametrize(
    "other",
    [
        replace(ME, dag_id="other"),
        replace(ME, run_id="other"),
        replace(ME, task_id="other"),
        replace(ME, map_index=0),
    ],
)
def test_another_task_has_other_requests_and_deployments(other: TaskIdentity) -> None:
    assert ME.request("up") == replace(ME).request("up")
    assert other.request("up") != ME.request("up")
    assert other.deployment("orders", "2") != ME.deployment("orders", "2")


def test_one_task_may_make_several_requests_by_their_purpose() -> None:
    assert len({ME.request(), ME.request("up"), ME.request("down"), ME.request("up", "down")}) == 4
    assert ME.deployment("orders", "2") != ME.deployment("orders", "3")
    assert ME.deployment("orders", "2").startswith("orders-2-")


ANNA = "anna@edge1"
FIRST = CommandIdentity(ANNA, "2026-01-01T00:00:00.000000Z", "stop")
START = CommandIdentity(ANNA, "2026-01-01T00:00:00.000000Z", "start")


def identity(
    *records: Record, operation: Operation = Operation.STOP, part: Operation | None = None, who: str = ANNA
) -> Any:
    return command_identity(play(records), who, operation, part or operation, 1_767_312_000.0)


def test_its_records_say_who_gave_it_and_when() -> None:
    found = identity(*RUNNING)
    assert (found.by, found.continued) == ("person:anna@edge1/2026-01-02T00:00:00.000000Z/stop", False)
    assert found.by.startswith(found.run)
    both = identity(*RUNNING, operation=Operation.RESTART, part=Operation.START)
    assert both.by.endswith("/restart.start")


def test_who_it_is_has_nothing_that_would_end_the_name() -> None:
    assert person("an na/x", "edge1:2") == "an-na-x@edge1-2"
    assert len(person("x" * 300, "h")) == 100


ASKED = [*RUNNING, requested("r", None, by=FIRST.by)]


@pytest.mark.parametrize(
    "records",
    [ASKED, [*ASKED, released(OLD, "r", None)], [*ASKED, released(OLD, "r", None), requested("x", None)][:-1]],
    ids=["open", "done", "drivers still exit"],
)
def test_a_stop_that_was_cut_off_is_gone_on_with(records: list[Record]) -> None:
    found = identity(*records)
    assert (found.by, found.continued) == (FIRST.by, True)
    step = stop(snapshot(*records), found, None, "why")
    assert not isinstance(step, Append) or step.kind == "retired"


@pytest.mark.parametrize(
    "records",
    [
        [*ASKED, aborted("r", name=OLD)],
        [*ASKED, released(OLD, "r", None), requested("s", OLD), ready("s", OLD), acquired(OLD, "s", 2)],
        [*ASKED, released(OLD, "r", None), requested("s", OLD)],
        STOPPED,
    ],
    ids=["missed its boundary", "started since", "is being started", "another's"],
)
def test_one_that_is_over_is_not(records: list[Record]) -> None:
    assert not identity(*records).continued


def test_nobody_goes_on_with_anothers_command() -> None:
    assert not identity(*ASKED, who="bert@edge1").continued
    assert not identity(*ASKED, operation=Operation.RETIRE, part=Operation.STOP).continued
    assert not identity(*RUNNING, requested("r", None, by=f"{FIRST.by}x")).continued


def test_a_start_that_was_cut_off_goes_on_with_what_it_has_declared() -> None:
    mine = record(
        "declared", by=START.by, deployment=NEW_DEPLOYMENT, release=declared(NEW_DEPLOYMENT)["release"], policy={}
    )
    records = [*STOPPED[:1], stopped("s"), mine]
    assert identity(*records, operation=Operation.START).by == START.by
    assert not identity(*records).continued
    up = [*RUNNING, released(OLD, None, None), mine, submitted(NEW_DEPLOYMENT)]
    assert identity(*up, operation=Operation.START).continued
    ended = [*up, failed(None, NEW_DEPLOYMENT)]
    assert not identity(*ended, operation=Operation.START).continued


def test_a_release_that_has_held_is_not_started_again_by_the_old_command() -> None:
    over = [
        *PREPARED,
        requested("up", NEW, by=START.by),
        ready("up", NEW),
        released(OLD, "up", NEW),
        acquired(NEW, "up", 2),
    ]
    assert not identity(*over, operation=Operation.START).continued
    open_one = [*PREPARED, requested("up", NEW, by=START.by)]
    assert identity(*open_one, operation=Operation.START).continued
