"""What a driver does next, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.lifecycle.driver_decision import Action, DriverView, decide
from airflow_stream_provider.lifecycle.record import Record
from tests.support.story import (
    HANDED_OVER,
    INTERRUPTED,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    READY,
    RELEASED,
    REQUESTED,
    RUNNING,
    STARTED,
    STOPPED,
    STOPPING,
    TWIN,
    aborted,
    failed,
    fenced,
    finished,
    play,
    released,
    retired,
    standby,
)

TWIN_OF_OLD = f"{OLD_DEPLOYMENT}.00000004"
UP = {"running": True}
WARM = {"rehearsed": True}

TABLE = [
    ("not declared: a stray", [], OLD, {}, Action.EXIT),
    ("the deployment has ended", [*HANDED_OVER, retired(OLD_DEPLOYMENT)], OLD, WARM, Action.EXIT),
    ("it never came up in time", [*PREPARED[:-1], failed(None, NEW_DEPLOYMENT)], NEW, WARM, Action.EXIT),
    ("still rehearsing", STARTED[:2], OLD, {}, Action.WAIT),
    ("SIGTERM while rehearsing", STARTED[:2], OLD, {"terminating": True}, Action.EXIT),
    ("rehearsed", STARTED[:2], OLD, WARM, Action.ANNOUNCE),
    ("a standby, nothing asked", PREPARED, NEW, WARM, Action.WAIT),
    ("SIGTERM as a standby", PREPARED, NEW, {"terminating": True}, Action.EXIT),
    ("asked", REQUESTED, NEW, WARM, Action.ANSWER),
    ("answered, the holder still runs", READY, NEW, WARM, Action.WAIT),
    ("the holder released", RELEASED, NEW, WARM, Action.ACQUIRE),
    ("the holder released inside a batch", INTERRUPTED, NEW, WARM, Action.WAIT),
    ("and was fenced then", [*INTERRUPTED, fenced(OLD)], NEW, WARM, Action.ACQUIRE),
    ("the holder died", [*READY, fenced(OLD)], NEW, WARM, Action.ACQUIRE),
    ("the holder got SIGTERM", [*READY, released(OLD, None, None)], NEW, WARM, Action.ACQUIRE),
    ("the holder died before the answer", [*REQUESTED, fenced(OLD)], NEW, WARM, Action.ANSWER),
    ("somebody else is asked", [*REQUESTED, standby(TWIN)], TWIN, WARM, Action.WAIT),
    ("appointed with no holder", RUNNING[:5], OLD, WARM, Action.ACQUIRE),
    ("holds, not started", RUNNING, OLD, WARM, Action.START),
    ("holds and runs", RUNNING, OLD, UP, Action.WAIT),
    ("holds, SIGTERM", RUNNING, OLD, {"running": True, "terminating": True}, Action.RELEASE),
    ("holds, SIGTERM before the start", RUNNING, OLD, {"terminating": True}, Action.RELEASE),
    ("asked to hand over, no answer yet", REQUESTED, OLD, {"running": True, "peer_moved": True}, Action.WAIT),
    ("answered, but nothing moves there", READY, OLD, UP, Action.WAIT),
    ("answered, and alive there", READY, OLD, {"running": True, "peer_moved": True}, Action.RELEASE),
    ("answered, then lost", [*READY, failed(NEW)], OLD, {"running": True, "peer_moved": True}, Action.WAIT),
    ("aborted while it stopped: start in place", [*READY, aborted("up", at=200)], OLD, WARM, Action.START),
    ("asked to stop", STOPPING, OLD, UP, Action.RELEASE),
    ("released, the wait runs", RELEASED, OLD, {"released_for": 9.9}, Action.WAIT),
    ("released, the wait is over", RELEASED, OLD, {"released_for": 10.0}, Action.ACQUIRE),
    ("released, the new one is lost", [*RELEASED, failed(NEW)], OLD, {"released_for": 0.1}, Action.ACQUIRE),
    ("released, and the new one holds", HANDED_OVER, OLD, {"released_for": 60.0}, Action.WAIT),
    ("stopped on request", STOPPED, OLD, {"released_for": 60.0}, Action.WAIT),
    ("interrupted: to be fenced", INTERRUPTED, OLD, {"released_for": 60.0}, Action.HALT),
    ("its queries ended by themselves", [*RUNNING, finished(OLD)], OLD, UP, Action.WAIT),
    ("and its machine goes down", [*RUNNING, finished(OLD)], OLD, {"running": True, "terminating": True}, Action.EXIT),
    ("and a twin of it was up", [*RUNNING, standby(TWIN_OF_OLD), finished(OLD)], TWIN_OF_OLD, WARM, Action.EXIT),
    ("fenced while it ran", [*RUNNING, fenced(OLD)], OLD, UP, Action.HALT),
    ("fenced while it waited", [*PREPARED, fenced(NEW)], NEW, WARM, Action.HALT),
    ("another holds while it runs", HANDED_OVER, OLD, UP, Action.HALT),
    ("failed beside the holder", [*HANDED_OVER, failed(TWIN)], TWIN, WARM, Action.HALT),
]  # fmt: skip


@pytest.mark.parametrize(("before", "name", "me", "action"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_decide(before: list[Record], name: str, me: dict[str, Any], action: Action) -> None:
    assert decide(play(before), DriverView(incarnation=name, **me), take_back_seconds=10.0) is action


def test_every_action_is_decided_above() -> None:
    assert {row[-1] for row in TABLE} == set(Action)
