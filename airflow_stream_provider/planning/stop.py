"""Stop the stream at a batch boundary and end every driver of it."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.state import Request, RequestStage, StreamPhase, StreamState
from airflow_stream_provider.planning.asked import author
from airflow_stream_provider.planning.begun import RESTART_SECONDS
from airflow_stream_provider.planning.fence import fence, fence_first
from airflow_stream_provider.planning.retire import retire_all, to_retire
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Step, TaskIdentity
from airflow_stream_provider.planning.take_over import ask, follow
from airflow_stream_provider.planning.waits import WaitOutcome


def stop(
    snapshot: Snapshot,
    identity: TaskIdentity,
    outcome: WaitOutcome | None,
    reason: str,
    *,
    hangs: str = "",
    restarts: bool = False,
) -> Step:
    """Ask the holder to stop at a batch boundary, then retire every deployment.

    A stream without a holder is stopped, too, by the record `stopped`: the watch would bring it back, and a task that
    is cleared later would not know what it has done. Done when all drivers are confirmed gone, or at once when the
    stream was started again after this task's stop.

    :param hangs: why the holder is fenced without being asked: it would not stop; default: it is asked.
    :param restarts: whether the caller starts the stream again: should that be cut off, it is down, and not stopped.
    """
    state = snapshot.state
    mine = _mine(state, identity)
    done = mine is not None and mine.stage is RequestStage.DONE
    if _forgotten(state, identity) or (mine is not None and done and _started_since(state, mine)):
        return Done(
            {"stream": snapshot.stream, "stopped": False, "holder": snapshot.holding, "note": snapshot.holder_sentence}
        )
    if not done and state.holder is None and state.open_request is None:
        until = {"until": snapshot.at + RESTART_SECONDS} if restarts else {}
        return Append(Kind.STOPPED, {"request": identity.request("stopped"), "reason": reason, **until})
    step = fence_first(snapshot, outcome)
    if step is not None:
        return step
    if state.open_request is not None:
        return follow(snapshot, state.open_request, outcome)
    if state.holder is not None:
        if hangs and (mine is None or mine.source == state.holder):
            return fence(snapshot, state.holder, outcome, hangs)
        if mine is not None:
            return GiveUp(_not_stopped(snapshot, mine))
        step = ask(snapshot, identity.request("stop"), None, reason)
        until = {"until": step.fields["expires"] + RESTART_SECONDS} if restarts else {}
        return Append(step.kind, {**step.fields, **until})
    step = retire_all(snapshot, stoppable(snapshot, identity), outcome, reason)
    return step or Done(
        {
            "stream": snapshot.stream,
            "stopped": True,
            "holder": "",
            "note": snapshot.holder_sentence,
            "request": mine.id if mine is not None else "",
        }
    )


def stoppable(snapshot: Snapshot, identity: TaskIdentity) -> tuple[str, ...]:
    """Return the deployments that this task's stop ends: those declared before it was requested."""
    mine = _mine(snapshot.state, identity)
    kinds = (Kind.REQUESTED, Kind.STOPPED)
    asked = (r.seq for r in snapshot.records if mine is not None and r.kind in kinds and r["request"] == mine.id)
    return to_retire(snapshot, identity, next(asked, None))


def stopped_since(snapshot: Snapshot, since: float, run: str) -> str:
    """Return that the stream was stopped after a moment, in seconds since 1970, and not started again; else nothing.

    :param run: what the authors of the records of one's own run begin with, whose stops do not count.
    """
    for record in reversed(snapshot.records):
        if record.kind == Kind.ACQUIRED:
            break
        stops = record.kind == Kind.STOPPED or (record.kind == Kind.REQUESTED and record.get("to") is None)
        if not stops or record.get("until") or record.at <= since or record.by.startswith(run):
            continue
        request = snapshot.state.requests.get(record["request"])
        if request is None or request.stage is not RequestStage.ABORTED:
            why = record.get("reason")
            return (
                f"The stream was stopped by {record.by}{f' ({why})' if why else ''} since this was asked for, and only "
                "a person starts it."
            )
    return ""


def stopped_by_another(state: StreamState, run: str) -> str:
    """Return the author of a stop of the stream, done or requested; empty when there is none, or it is of the run
    itself.

    :param run: see `TaskIdentity.run`.
    """
    if state.phase not in (StreamPhase.STOPPED, StreamPhase.STOPPING):
        return ""
    stop = next((each for each in reversed(state.requests.values()) if each.to is None), None)
    if stop is None:
        return "somebody"
    return "" if stop.by.startswith(run) else author(stop)


def _mine(state: StreamState, identity: TaskIdentity) -> Request | None:
    """Return the newest stop that this task has asked for."""
    asked = (r for r in reversed(state.requests.values()) if r.by == identity.by and r.to is None)
    return next(asked, None)


def _forgotten(state: StreamState, identity: TaskIdentity) -> bool:
    """Whether this task stopped the stream so long ago that the state has left its request out."""
    return any(identity.request(how) in state.forgotten for how in ("stop", "stopped"))


def _started_since(state: StreamState, stop: Request) -> bool:
    """Whether a driver was appointed after this stop: it holds, held, or is about to."""
    requests = list(state.requests.values())
    later = requests[requests.index(stop) + 1 :]
    return any(r.to is not None and r.stage is not RequestStage.ABORTED for r in later)


def _not_stopped(snapshot: Snapshot, mine: Request) -> HandOverFailed:
    if mine.source == snapshot.state.holder:
        return HandOverFailed(
            f"{snapshot.holding} did not stop at a batch boundary in time and goes on.",
            next_step="Stop it again, in a new run, between two of its batches (they are in the Spark UI). If it must "
            "not write now, fence it (`airflow streams fence`): that cuts its batch off, which runs again once the "
            "stream is started. Then stop it at once, as the watch brings back what was fenced.",
        )
    return HandOverFailed(
        f"{mine.source} did not stop in time, and the stream was started again since. {snapshot.holder_sentence}",
        next_step="Stop it in a new run: clearing this task does not stop what was started since.",
    )
