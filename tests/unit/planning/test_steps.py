"""How a task's log names each step."""

from __future__ import annotations

from typing import get_args

import pytest

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.planning.conditions import StandbyUp
from airflow_stream_provider.planning.signs_of_life import Dead, JobGone
from airflow_stream_provider.planning.steps import (
    Append,
    Declare,
    Done,
    EndJob,
    GiveUp,
    Kill,
    Skip,
    Step,
    Submit,
    Wait,
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
