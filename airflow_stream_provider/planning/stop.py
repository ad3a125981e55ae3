"""Stop the stream at a batch boundary and end every driver of it."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.state import RequestStage
from airflow_stream_provider.planning.fence import fence_first
from airflow_stream_provider.planning.requests import ask, follow
from airflow_stream_provider.planning.retire import retire_all, to_retire
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Done, GiveUp, Step
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import WaitOutcome


def stop(snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None, reason: str) -> Step:
    """Ask the holder to stop at a batch boundary, then retire every deployment.

    Done when all drivers are confirmed gone, or at once when the stream was started again after this task's stop.
    """
    state = snapshot.state
    mine = [r for r in state.requests.values() if r.by == identity.by and r.to is None]
    last = mine[-1] if mine else None
    asked = last is not None and last.stage is RequestStage.DONE
    if asked and (state.holder or state.open_request):
        return Done(
            {"stream": snapshot.stream, "stopped": False, "holder": snapshot.holding, "note": snapshot.holder_sentence}
        )
    step = fence_first(snapshot, outcome)
    if step is not None:
        return step
    if state.open_request is not None:
        return follow(snapshot, state.open_request, outcome)
    if state.holder is not None:
        if last is not None and last.source == state.holder:
            return GiveUp(
                HandOverFailed(
                    f"{snapshot.holding} did not stop at a batch boundary in time and goes on.",
                    next_step="Look at its batches in the Spark UI; raise `upgrade.boundary_seconds` and "
                    "stop it again.",
                )
            )
        return ask(snapshot, identity.request(state.holder), None, reason)
    step = retire_all(snapshot, stoppable(snapshot, identity), outcome, reason)
    return step or Done({"stream": snapshot.stream, "stopped": True, "holder": "", "note": snapshot.holder_sentence})


def stoppable(snapshot: Snapshot, identity: TaskIdentity) -> tuple[str, ...]:
    """Return the deployments that this task's stop ends: those declared before it was requested."""
    asked = (
        r.seq for r in snapshot.records if r.kind == Kind.REQUESTED and r.by == identity.by and r.get("to") is None
    )
    return to_retire(snapshot, identity, next(asked, None))
