"""Make a deployment the holder, by a hand-over or an appointment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.lifecycle.errors import HandOverFailed, StreamError
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.lifecycle.state import Request, RequestStage
from airflow_stream_provider.planning.begun import FOLLOW_FIRST, job_first
from airflow_stream_provider.planning.conditions import FirstCommits, RequestOver
from airflow_stream_provider.planning.fence import fence, fence_first, may_fence
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Step, TaskIdentity, Wait
from airflow_stream_provider.planning.waits import Ended, WaitOutcome

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


# A stream without input commits no batch; its gap is then reported as not known.
FIRST_COMMIT_SECONDS = 20.0


def take_over(
    snapshot: Snapshot,
    identity: TaskIdentity,
    deployment: str,
    outcome: WaitOutcome | None,
    reason: str,
    *,
    escalate: bool = False,
    hangs: str = "",
) -> Step:
    """Make a deployment the holder, by a hand-over or, without a holder, by an appointment.

    A driver that is dead, or that stopped inside a batch, is fenced first.

    :param escalate: fence a holder that does not release in time, as a roll-back does; default: give up then.
    :param hangs: why the holder is fenced without being asked: it would not stop; default: it is asked.
    """
    state = snapshot.state
    mine = [r for r in state.requests.values() if r.by == identity.by and r.to and deployment_of(r.to) == deployment]
    last = mine[-1] if mine else None
    if last is not None and last.stage is RequestStage.DONE:
        return _taken(snapshot, last, outcome)
    step = fence_first(snapshot, outcome)
    if step is not None:
        return step
    if state.open_request is not None:
        return follow(snapshot, state.open_request, outcome)
    if snapshot.holds(deployment):
        return Done(snapshot.holder_result(deployment))
    standby = snapshot.candidate(deployment)
    if hangs and state.holder is not None and standby is not None and (last is None or state.holder == last.source):
        return fence(snapshot, state.holder, outcome, hangs)
    if last is not None and state.holder is not None:
        if escalate and state.holder == last.source:
            return fence(snapshot, state.holder, outcome, f"It did not release the stream in time: {reason}")
        return GiveUp(_not_taken(snapshot, last))
    if standby is None:
        return GiveUp(
            HandOverFailed(
                f"{deployment} has no driver that could take over. {snapshot.holder_sentence}",
                next_step="Start a new run: it brings up a standby of its own.",
                deployment=deployment,
            )
        )
    job = job_first(state)
    if job:
        return GiveUp(HandOverFailed(job, next_step=FOLLOW_FIRST, deployment=deployment))
    # An appointment that was aborted while no driver held is made again, by an id of its own.
    tries = sum(request.to == standby.id and request.source == state.holder for request in mine)
    request = identity.request(standby.id, state.holder or "", *((tries,) if tries else ()))
    return ask(snapshot, request, standby.id, reason)


def _taken(snapshot: Snapshot, request: Request, outcome: WaitOutcome | None) -> Step:
    """The request is done: wait up to FIRST_COMMIT_SECONDS for the first batch, so that the gap can be measured."""
    to = request.to or ""
    acquired = next((r for r in snapshot.acquisitions() if r["request"] == request.id and r["incarnation"] == to), None)
    result = {**snapshot.holder_result(deployment_of(to)), "request": request.id}
    known = outcome is not None and outcome.subject == to
    if acquired is None or snapshot.state.holder != to or not result["previous"] or known:
        return Done(result)  # the first release of all leaves no gap
    until = acquired.at + FIRST_COMMIT_SECONDS
    if snapshot.at >= until:
        return Done(result)
    queries = tuple(query["name"] for query in snapshot.state.incarnations[to].queries)
    return Wait(FirstCommits(to, queries, until))


def _not_taken(snapshot: Snapshot, request: Request) -> StreamError:
    how = "was taken back" if request.stage is RequestStage.TAKEN_BACK else "was aborted"
    why = next((r.get("reason") for r in snapshot.records if r.kind == Kind.ABORTED and r["request"] == request.id), "")
    return HandOverFailed(
        f"The hand-over to {request.to} {how}{': ' + why if why else ''}. {snapshot.holder_sentence}",
        next_step="Nothing was lost. Look at both drivers' logs, then start a new run. Where the holder hangs, fence "
        "it first (`airflow streams fence`).",
        request=request.id,
        holder=snapshot.holding,
    )
