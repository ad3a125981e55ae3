"""Make a request for another holder, and follow one until it is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.lifecycle.state import Request, RequestStage
from airflow_stream_provider.planning.conditions import RequestOver
from airflow_stream_provider.planning.fence import fence, fence_first, may_fence
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Step, Wait
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome

# Time for what happens before the holder begins to stop: the standby answers and sends one more heartbeat. One that has
# never held may rehearse again first, unless it follows a job that has ended already (`runtime.acts`).
ANSWER_SECONDS = 30.0
# The longest that the logs of a checkpoint may have to stand still (`checkpoint.owner.patience`).
STILL_SECONDS = 60.0


def ask(
    snapshot: Snapshot, request: str, to: str | None, reason: str, *, evidence: Mapping[str, Any] | None = None
) -> Append:
    """Append `requested`.

    :param request: id of the request.
    :param to: standby that shall hold; None asks for a stop.
    :param evidence: the witness that the job which it follows is gone; default: it follows none.
    """
    policy = snapshot.policy(snapshot.holding or deployment_of(to or ""))
    standby = snapshot.state.incarnations.get(to or "")
    rehearses = standby is not None and not standby.epoch and not snapshot.state.deployments[standby.deployment].adopts
    again = snapshot.policy(deployment_of(to or "")).rehearse_seconds if rehearses else 0.0
    expires = snapshot.at + policy.boundary_seconds + ANSWER_SECONDS + again
    fields: dict[str, Any] = {"request": request, "to": to, "expires": expires, "reason": reason}
    if evidence:
        fields |= {"expires": expires + STILL_SECONDS, "evidence": dict(evidence)}
    return Append(Kind.REQUESTED, fields)


def follow(snapshot: Snapshot, request: Request, outcome: WaitOutcome | None) -> Step:
    """Wait until the open request is over, of any author.

    A driver that the request needs and that is dead is fenced. The request is aborted when no driver is left that
    could act on it, or when it has expired.
    """
    step = fence_first(snapshot, outcome)
    if step is not None:
        return step
    drivers = tuple(name for name in (request.source, request.to) if name)
    for name in drivers:
        silent = outcome is not None and outcome.about(Ended.SILENT, name) and may_fence(snapshot, name)
        if outcome is not None and silent and not outcome.outdated(name, snapshot.counter(name)):
            return fence(snapshot, name, outcome, f"{outcome.reason} while request {request.id} was open")
    nobody_left = request.to is not None and not live_standby(snapshot.state, request.to)
    if request.stage is RequestStage.RELEASED:
        nobody_left = nobody_left and not live_standby(snapshot.state, request.source)
    expired = outcome is not None and outcome.about(Ended.EXPIRED, request.id)
    if nobody_left or expired:
        reason = "no driver is left that could take over" if nobody_left else "it has expired"
        return Append(Kind.ABORTED, {"request": request.id, "reason": reason})
    watched = tuple(name for name in drivers if may_fence(snapshot, name))
    return Wait(RequestOver(request.id, request.expires, watched, snapshot.lease(drivers)))
