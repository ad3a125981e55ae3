"""The loop that carries out steps; the model check and the operators' tests run it with real plans."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.planning.conditions import Pause
from airflow_stream_provider.planning.signs_of_life import Dead, DriversGone, JobGone
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.step_loop import carry_out, carry_out_try
from airflow_stream_provider.planning.steps import (
    Append,
    Declare,
    EndJob,
    Kill,
    Refusal,
    Refuse,
    Skip,
    Step,
    Submit,
    TaskIdentity,
    Wait,
    Want,
)
from airflow_stream_provider.planning.waits import Condition, Ended, Needs, WaitOutcome
from tests.support.snapshots import snapshot
from tests.support.story import NEW, NEW_DEPLOYMENT, declared

WARM = Needs(drivers=(NEW_DEPLOYMENT,))
DECLARED = snapshot(declared(NEW_DEPLOYMENT), at=105.0)


class Noted:
    """A verb with these steps, and a stream that notes what is done to it. `outcomes`: what each plan was told."""

    def __init__(self, *steps: Step, needs: Needs = Needs(), certain: bool = True) -> None:  # noqa: B008 - frozen
        self.did: list[str] = []
        self.outcomes: list[WaitOutcome | None] = []
        self._steps = list(steps)
        self._needs = needs
        self._certain = certain
        self.ended: list[bool] = []
        self.counters: list[int] = []
        self.refuses = False

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        self.outcomes.append(outcome)
        return self._steps.pop(0)

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        return self._needs

    def want(self, step: Want, snapshot: Snapshot, identity: TaskIdentity) -> bool:
        self.did.append(f"want after {snapshot.state.seq}")
        return True

    def declare(self, step: Declare, by: str, seq: int) -> bool:
        self.did.append("declare")
        return self._certain

    def observe(self, needs: Needs = Needs()) -> Snapshot:  # noqa: B008 - frozen
        if needs != Needs():
            self.did.append(f"ask about {needs.drivers}")
        counter = self.counters.pop(0) if self.counters else -1
        return replace(DECLARED, heartbeats={NEW: Heartbeat(counter=counter)})

    def kill(self, deployment: str) -> None:
        self.did.append(f"kill {deployment}")

    def refuse(self, refusal: Refusal) -> bool:
        self.did.append(f"refuse {refusal}")
        return self.refuses

    def append(self, kind: str, by: str, seq: int, **fields: Any) -> bool:
        self.did.append(f"append {kind} after {seq}")
        return True

    def end_job(self, job: str) -> bool:
        self.did.append(f"end {job}")
        return self.ended.pop(0)

    def submit(self, deployment: str, by: str, *, first: bool) -> bool:
        self.did.append("submit" if first else "submit unless somebody has")
        return self._certain

    def end(self, outcome: WaitOutcome | None = None) -> Step:
        return carry_out(self, self, TaskIdentity("dag", "run", "task"), outcome, logging.getLogger(__name__)).step


WANT = Want({"wish": "w", "goal": "hold"}, publish=True)
DECLARE, SUBMIT, APPEND, SKIP = Declare(NEW_DEPLOYMENT, {}), Submit(NEW_DEPLOYMENT), Append("retired", {}), Skip("over")


@pytest.mark.parametrize(
    ("steps", "did"),
    [
        ((DECLARE, SUBMIT), ["declare", "submit"]),
        ((SUBMIT,), ["submit unless somebody has"]),
        ((DECLARE, APPEND, SUBMIT), ["declare", "append retired after 1", "submit unless somebody has"]),
        ((WANT, DECLARE, SUBMIT), ["want after 1", "declare", "submit"]),
        ((DECLARE, SUBMIT, SUBMIT), ["declare", "submit", "submit unless somebody has"]),
    ],
)
def test_only_who_has_just_declared_submits_without_asking(steps: tuple[Step, ...], did: list[str]) -> None:
    noted = Noted(*steps, SKIP)
    assert (noted.end(), noted.did) == (SKIP, did)


def test_what_another_has_declared_first_is_not_submitted_without_asking() -> None:
    noted = Noted(DECLARE, SUBMIT, certain=False)
    noted.end()
    assert noted.did == ["declare", "submit unless somebody has"]


def test_a_submission_that_is_not_known_yet_is_waited_for() -> None:
    assert Noted(SUBMIT, certain=False).end() == Wait(Pause(NEW_DEPLOYMENT, DECLARED.at + 10.0))


@pytest.mark.parametrize("at_once", [True, False])
def test_a_job_that_is_gone_at_once_keeps_nobody_waiting(at_once: bool) -> None:
    noted = Noted(EndJob("driver-1", JobGone("driver-1")), SKIP)
    noted.ended = [at_once]
    assert noted.end() == (SKIP if at_once else Wait(JobGone("driver-1")))
    assert noted.did == ["end driver-1"]


@pytest.mark.parametrize(("ended", "told"), [(Ended.UNSENT, False), (Ended.DEAD, True)])
def test_that_something_was_never_sent_is_over_once_it_is_sent(ended: Ended, told: bool) -> None:
    outcome = WaitOutcome(ended, NEW_DEPLOYMENT)
    noted = Noted(SUBMIT, SKIP)
    noted.end(outcome)
    assert noted.outcomes == [outcome, outcome if told else None]


def test_it_looks_again_for_what_the_plan_needs() -> None:
    noted = Noted(SKIP, needs=WARM)
    noted.end()
    assert noted.did == [f"ask about {WARM.drivers}"]


@pytest.mark.parametrize("refuses", [True, False])
def test_a_driver_is_fenced_once_the_ledger_refuses_it(refuses: bool) -> None:
    refuse = Refuse(Refusal("orders_db", NEW, 1, ("q",)), Append("fenced", {"incarnation": NEW}), Dead(NEW, 30.0))
    noted = Noted(refuse, SKIP)
    noted.refuses = refuses
    assert noted.end() == (SKIP if refuses else Wait(Dead(NEW, 30.0)))
    assert noted.did == [f"refuse {refuse.refusal}", *(["append fenced after 1"] if refuses else [])]


@pytest.mark.parametrize(
    ("counter", "then", "plans"),
    [(7, Dead(NEW, 30.0), 1), (8, Dead(NEW, 30.0), 2), (8, DriversGone(NEW_DEPLOYMENT, 1.0), 1)],
)
def test_a_driver_that_is_to_be_killed_and_has_beaten_since_is_looked_at_once_more(
    counter: int, then: Condition, plans: int
) -> None:
    kill = Kill(NEW_DEPLOYMENT, then)
    noted = Noted(kill, kill)
    noted.counters = [7, counter, counter]
    found = carry_out_try(noted, noted, TaskIdentity("dag", "run", "task"), None, logging.getLogger(__name__))
    assert found.step == Wait(then)
    assert (len(noted.outcomes), noted.did) == (plans, [f"kill {NEW_DEPLOYMENT}"])
