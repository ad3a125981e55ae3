"""Ask for another holder, or for none, and follow that request to its end."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.lifecycle.ids import deployment_of, request_id
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.rules import is_adopting, job_may_write, live_standby
from airflow_stream_provider.lifecycle.state import Request, RequestStage
from airflow_stream_provider.lifecycle.wish import Wish
from airflow_stream_provider.planning.conditions import RequestOver
from airflow_stream_provider.planning.fence import fence, may_fence
from airflow_stream_provider.planning.job import gone_now
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Step, Wait
from airflow_stream_provider.planning.waits import Ended, WaitOutcome

# Time for what happens before the holder begins to stop: the standby answers and sends one more heartbeat. One that has
# never held may rehearse again first, unless it follows a job that has ended already (`runtime.acts`).
ANSWER_SECONDS = 30.0
# The longest that the logs of a checkpoint may have to stand still (`checkpoint.owner.patience`).
STILL_SECONDS = 60.0


def ask(scene: Scene, wish: Wish, to: str | None, reason: str = "") -> Append:
    """Append `requested` for a wish, with the evidence that a job is gone which a driver was to follow.

    :param to: standby that shall hold; None asks for a stop.
    :param reason: default: that of the wish.
    """
    snapshot, state = scene.snapshot, scene.state
    policy = snapshot.policy(snapshot.holding or deployment_of(to or ""))
    standby = state.incarnations.get(to or "")
    rehearses = standby is not None and not standby.epoch and not state.deployments[standby.deployment].adopts
    again = snapshot.policy(deployment_of(to or "")).rehearse_seconds if rehearses else 0.0
    expires = snapshot.at + policy.boundary_seconds + ANSWER_SECONDS + again
    # By the number of the last record: two that ask at once find the same id, and one of them is refused.
    request = request_id(wish.id, to or "", state.seq)
    why = reason or wish.reason or wish.by
    fields: dict[str, Any] = {"request": request, "to": to, "expires": expires, "reason": why, "wish": wish.id}
    evidence = gone_now(snapshot) if to and (job_may_write(state) or is_adopting(state)) else {}
    if evidence:
        fields |= {"expires": expires + STILL_SECONDS, "evidence": evidence}
    return Append(Kind.REQUESTED, fields)


def follow(snapshot: Snapshot, request: Request, outcome: WaitOutcome | None) -> Step:
    """Wait until the open request is over, of any author; a driver that it needs and that is dead is fenced."""
    drivers = tuple(name for name in (request.source, request.to) if name)
    for name in drivers:
        silent = outcome is not None and outcome.about(Ended.SILENT, name) and may_fence(snapshot, name)
        if outcome is not None and silent and not outcome.outdated(name, snapshot.counter(name)):
            return fence(snapshot, name, outcome, f"{outcome.reason} while request {request.id} was open")
    nobody_left = request.to is not None and not live_standby(snapshot.state, request.to)
    if request.stage is RequestStage.RELEASED:
        nobody_left = nobody_left and not live_standby(snapshot.state, request.source)
    if nobody_left:
        why = "no driver is left that could take over"
        return Append(Kind.ABORTED, {"request": request.id, "reason": why})
    watched = tuple(name for name in drivers if may_fence(snapshot, name))
    return Wait(RequestOver(request.id, request.expires, watched, snapshot.lease(drivers)))
