"""Follow a request until it is over, whoever made it."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.lifecycle.state import Request, RequestStage
from airflow_stream_provider.planning.conditions import RequestOver
from airflow_stream_provider.planning.fence import fence, fence_first, may_fence
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Step, Wait
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome

# From the request to the holder's look at it: the standby must answer and beat once more, the holder wake up.
ANSWER_SECONDS = 30.0


def follow(snapshot: Snapshot, identity: TaskIdentity, request: Request, outcome: WaitOutcome | None) -> Step:
    """Wait for the open request; fence whoever is dead in it; abort it when nobody can act on it any more."""
    step = fence_first(snapshot, outcome)
    if step is not None:
        return step
    drivers = tuple(name for name in (request.source, request.to) if name)
    for name in drivers:
        if outcome is not None and outcome.about(Ended.SILENT, name) and may_fence(snapshot, name):
            return fence(snapshot, name, outcome, f"{outcome.reason} while request {request.id} was open")
    nobody_left = request.to is not None and not live_standby(snapshot.state, request.to)
    if request.stage is RequestStage.RELEASED:
        nobody_left = nobody_left and not live_standby(snapshot.state, request.source)
    expired = outcome is not None and outcome.about(Ended.LOST, request.id)
    if nobody_left or expired:
        reason = "whoever should take over is dead" if nobody_left else "not acted upon in time"
        return Append(Kind.ABORTED, {"request": request.id, "reason": reason})
    watched = tuple(name for name in drivers if may_fence(snapshot, name))
    return Wait(RequestOver(request.id, request.expires, watched, snapshot.lease(drivers)))
