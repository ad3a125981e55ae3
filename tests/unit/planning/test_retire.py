"""Retiring deployments, step by step."""

from __future__ import annotations

from airflow_stream_provider.planning.retire import leftovers, retire
from airflow_stream_provider.planning.signs_of_life import DriversGone
from airflow_stream_provider.planning.steps import Append, Done, Kill, Skip, TaskIdentity, Wait
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from tests.support.snapshots import ASKED, BOTH, RUNNING, UPGRADED, snapshot
from tests.support.story import (
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    declared,
    declared_again,
    failed,
    fenced,
    record,
)


def test_only_what_does_not_hold_is_retired() -> None:
    assert isinstance(retire(snapshot(*BOTH), OLD_DEPLOYMENT, None, "why"), Skip)
    assert isinstance(retire(snapshot(*BOTH), "nobody", None, "why"), Skip)
    assert isinstance(retire(snapshot(*ASKED), NEW_DEPLOYMENT, None, "why"), Wait)
    step = retire(snapshot(*BOTH), NEW_DEPLOYMENT, None, "why")
    assert step == Append("retired", {"deployment": NEW_DEPLOYMENT, "reason": "why"})


def test_a_retired_driver_that_stays_is_killed() -> None:
    retired = snapshot(*BOTH, record("retired", deployment=NEW_DEPLOYMENT, reason=""))
    gone = DriversGone(NEW_DEPLOYMENT, 170.0)
    assert retire(retired, NEW_DEPLOYMENT, None, "why") == Wait(gone)
    assert retire(retired, NEW_DEPLOYMENT, WaitOutcome(Ended.EXPIRED, NEW_DEPLOYMENT), "why") == Kill(
        NEW_DEPLOYMENT, gone
    )
    assert isinstance(retire(retired, NEW_DEPLOYMENT, WaitOutcome(Ended.REACHED, NEW_DEPLOYMENT), "why"), Done)


def test_one_that_was_never_submitted_is_retired_at_once() -> None:
    story = [*RUNNING, declared(NEW_DEPLOYMENT), record("retired", deployment=NEW_DEPLOYMENT, reason="")]
    assert isinstance(retire(snapshot(*story), NEW_DEPLOYMENT, None, "why"), Done)


def test_room_is_made_of_what_was_there_before_this_run() -> None:
    room = TaskIdentity("dag", "run", "make_room")
    assert leftovers(snapshot(*UPGRADED), room) == (OLD_DEPLOYMENT,)
    retired = record("retired", by=room.by, deployment=OLD_DEPLOYMENT, reason="")
    later = declared("orders-3-cccc")
    assert leftovers(snapshot(*UPGRADED, retired, later), room) == (OLD_DEPLOYMENT,)
    other = TaskIdentity("dag", "another run", "make_room")
    assert leftovers(snapshot(*UPGRADED, retired, later), other) == ("orders-3-cccc",)


def test_what_the_watch_brings_a_stream_back_with_makes_no_room() -> None:
    """Found by a chaos run: the next upgrade retired it while it came up, and the stream was down for longer."""
    room, watch = TaskIdentity("dag", "run", "make_room"), "airflow:streams__revive/x/revive"
    again = declared_again("orders-1-eeee", OLD_DEPLOYMENT, by=watch)
    down = [*BOTH, fenced(OLD), failed(None, OLD_DEPLOYMENT), again]
    assert leftovers(snapshot(*down), room) == (NEW_DEPLOYMENT,)
    assert leftovers(snapshot(*BOTH, again), room) == (NEW_DEPLOYMENT, "orders-1-eeee")
