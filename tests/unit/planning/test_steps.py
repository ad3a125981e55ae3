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
    AskPerson,
    CommandIdentity,
    Declare,
    Done,
    EndJob,
    GiveUp,
    Kill,
    Later,
    Refusal,
    Refuse,
    Skip,
    Step,
    Submit,
    TaskIdentity,
    Wait,
    Want,
    command_identity,
    person,
)
from tests.support.snapshots import BOTH, RUNNING, STOPPED, up
from tests.support.story import (
    NEW,
    OLD,
    aborted,
    acquired,
    failed,
    play,
    ready,
    released,
    requested,
    wanted,
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
    (Want({"wish": "w", "goal": "hold", "reason": "disk"}), "wishing hold (disk)"),
    (Later(7.0, HandOverFailed("It failed."), "orders-2"), "not yet"),
    (AskPerson("orders-2", "batch 7"), "asking a person to end the job that orders-2 follows"),
    (Declare("orders-2", {}), "declaring orders-2"),
    (Submit("orders-2"), "submitting orders-2"),
    (EndJob("driver-1", JobGone("driver-1")), "ending driver-1"),
    (Kill("orders-1", DEAD), f"killing orders-1, then waiting for {DEAD.description}"),
    (Refuse(Refusal("db", "orders-1.00000001", 1, ()), Append("fenced", {}), DEAD),
     "having the ledger refuse orders-1.00000001"),
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
def test_another_task_has_other_requests_and_another_wish(other: TaskIdentity) -> None:
    assert ME.request("up") == replace(ME).request("up")
    assert other.request("up") != ME.request("up")
    assert ME.wish == replace(ME).wish != other.wish


def test_one_task_may_make_several_requests_by_their_purpose() -> None:
    assert len({ME.request(), ME.request("up"), ME.request("down"), ME.request("up", "down")}) == 4
    assert ME.wish == ME.request("wish")


ANNA = "anna@edge1"
FIRST = CommandIdentity(ANNA, "2026-01-01T00:00:00.000000Z", "stop")
START = CommandIdentity(ANNA, "2026-01-01T00:00:00.000000Z", "start")


def identity(*records: Record, operation: Operation = Operation.STOP, who: str = ANNA) -> Any:
    return command_identity(play(records), who, operation, 1_767_312_000.0)


def test_its_records_say_who_gave_it_and_when() -> None:
    found = identity(*RUNNING)
    assert (found.by, found.continued) == ("person:anna@edge1/2026-01-02T00:00:00.000000Z/stop", False)
    assert found.by.startswith(found.run)


def test_who_it_is_has_nothing_that_would_end_the_name() -> None:
    assert person("an na/x", "edge1:2") == "an-na-x@edge1-2"
    assert len(person("x" * 300, "h")) == 100


REST = wanted("mine", "stop", by=FIRST.by)
STOPPING = [*RUNNING, REST, requested("r", None, wish="mine")]


@pytest.mark.parametrize(
    "records",
    [[*RUNNING, REST], STOPPING, [*STOPPING, released(OLD, "r", None)], [*RUNNING, REST, failed(OLD)]],
    ids=["nothing done", "asked", "drivers still exit", "it died"],
)
def test_a_stop_that_was_cut_off_is_gone_on_with(records: list[Record]) -> None:
    found = identity(*records)
    assert (found.by, found.continued) == (FIRST.by, True)


@pytest.mark.parametrize(
    "records",
    [
        [*STOPPING, wanted("go")],
        [*RUNNING, REST, wanted("more", "stop")],
        STOPPED,
        [*STOPPING, aborted("r", at=900.0)],
    ],
    ids=["started since", "stopped since", "another's", "no boundary came, and it is asked for again"],
)
def test_one_that_was_replaced_is_not(records: list[Record]) -> None:
    assert not identity(*records).continued


def test_nobody_goes_on_with_anothers_command() -> None:
    assert not identity(*STOPPING, who="bert@edge1").continued
    assert not identity(*RUNNING, wanted("mine", "stop", by=f"{FIRST.by}x")).continued


GO = wanted("go", by=START.by, alone=True)
STANDS_BY = wanted("new", "stand_by", by=START.by)
TAKES = wanted("take", family="new", by=START.by)


@pytest.mark.parametrize(
    ("records", "continued"),
    [
        ([*RUNNING, GO], True),
        ([*RUNNING, GO, requested("s", None, wish="go"), released(OLD, "s", None)], True),
        ([*RUNNING, GO, requested("s", None, wish="go"), aborted("s", name=OLD)], False),
        ([*RUNNING, GO, failed(OLD), *up(NEW, "go")], True),
        ([*RUNNING, GO, failed(OLD), *up(NEW, "go"), failed(NEW)], False),
        ([*RUNNING, GO, failed(OLD), *up(NEW, "go"), requested("r", NEW), ready("r", NEW), acquired(NEW, "r", 2)],
         False),
        ([*RUNNING, STANDS_BY], True),
        ([*RUNNING, STANDS_BY, *up(NEW, "new")], False),
        ([*BOTH, TAKES], True),
        ([*BOTH, TAKES, requested("r", NEW, wish="take"), ready("r", NEW), released(OLD, "r", NEW),
          acquired(OLD, "r", 2)], False),
    ],
    ids=["a restart", "has stopped", "did not stop", "comes up", "failed", "is done", "a candidate", "stands by",
         "a hand-over", "was taken back"],
)  # fmt: skip
def test_a_command_is_gone_on_with_until_it_is_so_or_has_failed(records: list[Record], continued: bool) -> None:
    assert identity(*records, operation=Operation.START).continued is continued
