"""Retiring deployments, step by step."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.planning.retire import end, retire_all
from airflow_stream_provider.planning.signs_of_life import DriversGone
from airflow_stream_provider.planning.snapshot import DriverFacts
from airflow_stream_provider.planning.steps import Append, Done, Kill, Skip, Step, Wait
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.snapshots import ASKED, BOTH, RUNNING, UPGRADED, brief, results, scene
from tests.support.story import (
    NEW_DEPLOYMENT,
    OLD_DEPLOYMENT,
    declared,
    retired,
    submitted,
    wanted,
)

RETIRES = Append("retired", {"deployment": NEW_DEPLOYMENT, "reason": "why"})
GONE = {NEW_DEPLOYMENT: DriverFacts("driver", DriverState.FINISHED, gone=True)}


def test_only_what_does_not_hold_is_retired() -> None:
    assert isinstance(end(scene(*BOTH), OLD_DEPLOYMENT, "why"), Skip)
    assert isinstance(end(scene(*BOTH), "nobody", "why"), Skip)
    assert isinstance(end(scene(*ASKED), NEW_DEPLOYMENT, "why"), Wait)
    assert end(scene(*BOTH), NEW_DEPLOYMENT, "why") == RETIRES


def test_what_a_roll_back_waits_for_is_kept() -> None:
    back = [*UPGRADED, wanted("back", family="old", back=True)]
    kept = end(scene(*back), OLD_DEPLOYMENT, "why")
    assert isinstance(kept, Skip)
    assert kept.reason == f"{OLD_DEPLOYMENT} is to hold the stream, by airflow (a person wants it), and is kept."
    assert isinstance(end(scene(*UPGRADED), OLD_DEPLOYMENT, "why"), Append)


def test_a_retired_driver_that_stays_is_killed() -> None:
    exits = DriversGone(NEW_DEPLOYMENT, 170.0)

    def step(outcome: WaitOutcome | None = None, **more: Any) -> Step:
        return end(scene(*BOTH, retired(NEW_DEPLOYMENT), outcome=outcome, **more), NEW_DEPLOYMENT, "why")

    assert step() == Wait(exits)
    assert step(WaitOutcome(Ended.EXPIRED, NEW_DEPLOYMENT)) == Kill(NEW_DEPLOYMENT, exits)
    assert results(step(WaitOutcome(Ended.REACHED, NEW_DEPLOYMENT)), "retired", "version") == (NEW_DEPLOYMENT, "1")
    assert isinstance(step(drivers=GONE), Done)


def test_one_that_was_never_submitted_is_retired_at_once() -> None:
    story = [*RUNNING, declared(NEW_DEPLOYMENT), retired(NEW_DEPLOYMENT)]
    assert isinstance(end(scene(*story), NEW_DEPLOYMENT, "why"), Done)


def test_several_are_ended_one_after_the_other() -> None:
    both = [*BOTH, declared("o-9", "new")]
    assert retire_all(scene(*both), (NEW_DEPLOYMENT, "o-9"), "why") == RETIRES
    then = scene(*both, retired(NEW_DEPLOYMENT), drivers=GONE)
    assert retire_all(then, (NEW_DEPLOYMENT, "o-9"), "why") == Append("retired", {"deployment": "o-9", "reason": "why"})
    over = scene(*both, retired(NEW_DEPLOYMENT), retired("o-9"), drivers=GONE)
    assert retire_all(over, (NEW_DEPLOYMENT, "o-9"), "why") is None


def test_a_driver_that_rehearses_reads_the_log_only_then_and_is_killed() -> None:
    story = [*RUNNING, wanted("new"), declared(NEW_DEPLOYMENT, "new"), submitted(NEW_DEPLOYMENT)]
    assert brief(end(scene(*story, retired(NEW_DEPLOYMENT)), NEW_DEPLOYMENT, "why")) == "kill DriversGone"
