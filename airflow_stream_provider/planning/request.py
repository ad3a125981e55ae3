"""Ask for another holder, or for none, and follow that request to its end."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.lifecycle.ids import deployment_of, request_id
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.rules import is_wanted, live_standby, may_abort
from airflow_stream_provider.lifecycle.state import Request, RequestStage
from airflow_stream_provider.lifecycle.wish import Wish
from airflow_stream_provider.planning.conditions import RequestOver
from airflow_stream_provider.planning.fence import fence, fence_first, may_fence
from airflow_stream_provider.planning.job import witness
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
    """Append `requested` for a wish.

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
    gone = witness(snapshot, wish) if to is not None else {}
    if gone:
        fields |= {"expires": expires + STILL_SECONDS, "evidence": dict(gone)}
    return Append(Kind.REQUESTED, fields)


def see_through(scene: Scene, request: Request) -> Step:
    """Return the next step of the open request, by any author: it goes on to its end, or is aborted."""
    state, needed = scene.state, request.to
    first = fence_first(scene.snapshot, scene.outcome)
    if first is not None:
        return first
    if request.stage is RequestStage.RELEASED and not live_standby(state, needed):
        needed = request.source
    if needed is not None and live_standby(state, needed) and scene.alive.get(needed) is False:
        why = "It was appointed to take over and gives no sign of life."
        return fence(scene.snapshot, needed, scene.outcome, why)
    if may_abort(state, Record(Kind.ABORTED, {"request": request.id}, at=scene.snapshot.at)):
        if not is_wanted(state, request):
            why = f"Another wish has replaced the one that it serves: {_current(scene)}"
        elif scene.snapshot.at >= request.expires:
            why = "It has expired."
        else:
            why = "No driver is left that could take over."
        return Append(Kind.ABORTED, {"request": request.id, "reason": why})
    return _follow(scene.snapshot, request, scene.outcome)


def _current(scene: Scene) -> str:
    wish = scene.state.wish
    return f"record {wish.seq}, by {wish.author}." if wish is not None else "there is none."


def _follow(snapshot: Snapshot, request: Request, outcome: WaitOutcome | None) -> Step:
    """Wait until the open request is over, of any author; a driver that it needs and that is dead is fenced."""
    drivers = tuple(name for name in (request.source, request.to) if name)
    for name in drivers:
        silent = outcome is not None and outcome.about(Ended.SILENT, name) and may_fence(snapshot, name)
        if outcome is not None and silent and not outcome.outdated(name, snapshot.counter(name)):
            return fence(snapshot, name, outcome, f"{outcome.reason} while request {request.id} was open")
    watched = tuple(name for name in drivers if may_fence(snapshot, name))
    return Wait(RequestOver(request.id, request.expires, watched, snapshot.lease(drivers)))
