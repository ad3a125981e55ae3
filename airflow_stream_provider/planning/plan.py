"""What an operator does next: pure functions from a snapshot to a step.

Every plan starts from the log alone, so a task that was killed, cleared or retried at any moment goes on where the
stream is, not where the task was. The only thing it takes from the wait before is what only an observer can know: that
a driver has been silent, or is confirmed dead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_stream_provider.lifecycle.errors import HandOverFailed, RehearsalRefused, StreamError
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.lifecycle.state import Request, RequestStage
from airflow_stream_provider.planning.conditions import Dead, DriversGone, FirstCommits, Pause, RequestOver, StandbyUp
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Kill, Skip, Step, Submit, Wait
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome

# From the request to the holder's look at it: the standby must answer and beat once more, the holder wake up.
ANSWER_SECONDS = 30.0
# A driver that is told to go stops its SparkContext first.
GRACE_SECONDS = 60.0
# How long to wait for the first batch of a new holder before the gap is reported as not known (no input).
FIRST_COMMIT_SECONDS = 20.0
# How often to ask the cluster again whether a submission arrived.
ASK_AGAIN_SECONDS = 10.0


def stand_by(snapshot: Snapshot, deployment: str, outcome: WaitOutcome | None) -> Step:
    """Bring a declared deployment up: submit it, wait until it is rehearsed; Done when it is a standby or holds."""
    declared = snapshot.state.deployments[deployment]
    if declared.ended:
        return GiveUp(
            RehearsalRefused(
                f"Release {declared.release.version} ({deployment}) {declared.ended}: "
                f"{declared.reason or 'no reason given'} {snapshot.holder_sentence}",
                next_step="Correct it and start a new run; clearing this task changes nothing.",
                deployment=deployment,
            )
        )
    if snapshot.candidate(deployment) or snapshot.holds(deployment):
        return Done(standby_result(snapshot, deployment))
    if not declared.submission:
        return Submit(deployment)
    if outcome is not None and outcome.about(Ended.LOST, deployment):
        reason = f"Its driver never came up: {outcome.reason}. Look at the driver's log on the cluster."
        return Append(Kind.FAILED, {"deployment": deployment, "reason": reason, "error": outcome.reason})
    return Wait(StandbyUp(deployment))


def ask_again(snapshot: Snapshot, deployment: str) -> Step:
    """Wait before the cluster is asked again whether a submission arrived."""
    return Wait(Pause(deployment, snapshot.at + ASK_AGAIN_SECONDS))


def take_over(
    snapshot: Snapshot,
    identity: TaskIdentity,
    to: str,
    outcome: WaitOutcome | None,
    reason: str,
    *,
    escalate: bool = False,
) -> Step:
    """Make a deployment the holder, by a hand-over or, when nobody holds, by an appointment.

    A driver that is dead, or that stopped inside a batch, is fenced first. `escalate`: a holder that does not let
    go is fenced too, as in a roll-back.
    """
    state = snapshot.state
    mine = [r for r in state.requests.values() if r.by == identity.by and r.to and deployment_of(r.to) == to]
    last = mine[-1] if mine else None
    if last is not None and last.stage is RequestStage.DONE:
        return _taken(snapshot, last, outcome)
    step = fence_first(snapshot, outcome)
    if step is not None:
        return step
    if state.open_request is not None:
        return follow(snapshot, identity, state.open_request, outcome)
    if snapshot.holds(to):
        return Done(holder_result(snapshot, to))
    if last is not None and state.holder is not None:
        if escalate and state.holder == last.source:
            return fence(snapshot, state.holder, outcome, f"It did not let go of the stream: {reason}")
        return GiveUp(_not_taken(snapshot, last))
    standby = snapshot.candidate(to)
    if standby is None:
        return GiveUp(
            HandOverFailed(
                f"{to} has no driver that could take over. {snapshot.holder_sentence}",
                next_step="Start a new run: it brings up a standby of its own.",
                deployment=to,
            )
        )
    boundary = _policy(snapshot, snapshot.holder or to).boundary_seconds
    fields = {
        "request": identity.request(standby.id, state.holder or ""),
        "to": standby.id,
        "expires": snapshot.at + boundary + ANSWER_SECONDS,
        "reason": reason,
    }
    return Append(Kind.REQUESTED, fields)


def follow(snapshot: Snapshot, identity: TaskIdentity, request: Request, outcome: WaitOutcome | None) -> Step:
    """Wait for the open request; fence whoever is dead in it; abort it when nobody can act on it any more."""
    step = fence_first(snapshot, outcome)
    if step is not None:
        return step
    drivers = tuple(name for name in (request.source, request.to) if name)
    for name in drivers:
        if outcome is not None and outcome.about(Ended.SILENT, name) and _may_fence(snapshot, name):
            return fence(snapshot, name, outcome, f"{outcome.reason} while request {request.id} was open")
    nobody_left = request.to is not None and not live_standby(snapshot.state, request.to)
    if request.stage is RequestStage.RELEASED:
        nobody_left = nobody_left and not live_standby(snapshot.state, request.source)
    expired = outcome is not None and outcome.about(Ended.LOST, request.id)
    if nobody_left or expired:
        reason = "whoever should take over is dead" if nobody_left else "not acted upon in time"
        return Append(Kind.ABORTED, {"request": request.id, "reason": reason})
    watched = tuple(name for name in drivers if _may_fence(snapshot, name))
    return Wait(RequestOver(request.id, request.expires, watched, _lease(snapshot, drivers)))


def fence(snapshot: Snapshot, incarnation: str, outcome: WaitOutcome | None, reason: str) -> Step:
    """Kill a driver and, once that is confirmed, say so in the log (rule 4)."""
    if outcome is not None and outcome.about(Ended.DEAD, incarnation):
        evidence = outcome.evidence
        return Append(Kind.FENCED, {"incarnation": incarnation, "reason": reason, "evidence": dict(evidence)})
    return Kill(deployment_of(incarnation), Dead(incarnation, _lease(snapshot, (incarnation,))))


def fence_first(snapshot: Snapshot, outcome: WaitOutcome | None) -> Step | None:
    """Return the fence that comes before all else, of what is confirmed dead or stopped inside a batch; or None."""
    if outcome is not None and outcome.ended is Ended.DEAD and _may_fence(snapshot, outcome.subject):
        return fence(snapshot, outcome.subject, outcome, outcome.reason)
    for incarnation in snapshot.state.must_fence:
        return fence(snapshot, incarnation, outcome, "It stopped inside a batch.")
    return None


def roll_back(snapshot: Snapshot, identity: TaskIdentity, bad: str, outcome: WaitOutcome | None, reason: str) -> Step:
    """Give the stream back to the deployment that held it before `bad`: the warm one, else its release anew."""
    state = snapshot.state
    done = [r for r in state.requests.values() if r.by == identity.by and r.stage is RequestStage.DONE]
    if done and done[-1].to:
        return take_over(snapshot, identity, deployment_of(done[-1].to), outcome, reason, escalate=True)
    previous = snapshot.previous(bad)
    again = identity.deployment(snapshot.stream, state.deployments[previous].release.version) if previous else ""
    held = any(deployment_of(record["incarnation"]) == bad for record in snapshot.acquisitions())
    asked = any(request.by.startswith(identity.run) for request in state.requests.values())
    if (snapshot.holder and not snapshot.holds(bad)) or not (held or asked):
        return Skip(f"Nothing to roll back: {snapshot.holder_sentence}")
    if not previous:
        return Skip(f"No release ran before {bad}, so there is none to go back to. {snapshot.holder_sentence}")
    warm = next((d for d in (previous, again) if snapshot.candidate(d)), "")
    if warm:
        return take_over(snapshot, identity, warm, outcome, reason, escalate=True)
    if again in state.deployments:
        return stand_by(snapshot, again, outcome)
    old = state.deployments[previous]
    fields = {"deployment": again, "release": old.release.to_json(), "policy": old.policy.to_json(), "reason": reason}
    return Append(Kind.DECLARED, fields)


def retire(
    snapshot: Snapshot, identity: TaskIdentity, deployment: str, outcome: WaitOutcome | None, reason: str
) -> Step:
    """End a deployment that does not hold: say so, let its driver go, kill it when it does not."""
    declared = snapshot.state.deployments.get(deployment)
    if declared is None:
        return Skip(f"There is no deployment {deployment!r}." if deployment else "There is nothing to retire.")
    if snapshot.holds(deployment):
        return Skip(f"{deployment} holds the stream and is kept.")
    request = snapshot.state.open_request
    needed = {deployment_of(name) for name in (request.to, request.source) if name} if request else set()
    if request is not None and deployment in needed:
        return follow(snapshot, identity, request, outcome)
    if not declared.ended:
        return Append(Kind.RETIRED, {"deployment": deployment, "reason": reason})
    driver = snapshot.drivers.get(deployment)
    if (driver is not None and driver.gone) or (outcome is not None and outcome.about(Ended.REACHED, deployment)):
        return Done({"stream": snapshot.stream, "retired": deployment, "version": declared.release.version})
    if not snapshot.submission(deployment):
        # Nothing is known to run. Should a lost submission start yet, its launcher reads the log first and leaves.
        return Done({"stream": snapshot.stream, "retired": deployment, "version": declared.release.version})
    gone = DriversGone(deployment, snapshot.at + GRACE_SECONDS)
    stays = outcome is not None and outcome.about(Ended.LOST, deployment)
    # One that has not announced itself yet may be busy with its rehearsal for minutes.
    busy = not snapshot.state.of_deployment(deployment)
    return Kill(deployment, gone) if stays or busy else Wait(gone)


def retire_all(
    snapshot: Snapshot, identity: TaskIdentity, deployments: Iterable[str], outcome: WaitOutcome | None, reason: str
) -> Step | None:
    """Retire these, one after the other; None when all are through."""
    for deployment in deployments:
        step = retire(snapshot, identity, deployment, outcome, reason)
        if not isinstance(step, (Done, Skip)):
            return step
    return None


def leftovers(snapshot: Snapshot, identity: TaskIdentity) -> tuple[str, ...]:
    """The deployments that earlier runs left warm: in the way of a new standby. None that came after this run began.

    Once this run has declared its own there was room, and whoever is warm now is there for its roll-back.
    """
    if any(record.kind == Kind.DECLARED and record.by.startswith(identity.run) for record in snapshot.records):
        return ()
    began = next((record.seq for record in snapshot.records if record.by.startswith(identity.run)), None)
    return _to_retire(snapshot, identity, began)


def stoppable(snapshot: Snapshot, identity: TaskIdentity) -> tuple[str, ...]:
    """The deployments that a stop by this task ends: none that came after it was asked for."""
    asked = (
        r.seq for r in snapshot.records if r.kind == Kind.REQUESTED and r.by == identity.by and r.get("to") is None
    )
    return _to_retire(snapshot, identity, next(asked, None))


def stop(snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None, reason: str) -> Step:
    """Stop the stream at a boundary and end every driver of it; Done says what was the last batch."""
    state = snapshot.state
    mine = [r for r in state.requests.values() if r.by == identity.by and r.to is None]
    last = mine[-1] if mine else None
    asked = last is not None and last.stage is RequestStage.DONE
    if asked and (state.holder or state.open_request):
        return Done(
            {"stream": snapshot.stream, "stopped": False, "holder": snapshot.holder, "note": snapshot.holder_sentence}
        )
    step = fence_first(snapshot, outcome)
    if step is not None:
        return step
    if state.open_request is not None:
        return follow(snapshot, identity, state.open_request, outcome)
    if state.holder is not None:
        if last is not None and last.source == state.holder:
            return GiveUp(
                HandOverFailed(
                    f"{snapshot.holder} did not stop at a batch boundary in time and goes on.",
                    next_step="Look at its batches in the Spark UI; raise `upgrade.boundary_seconds` and "
                    "stop it again.",
                )
            )
        expires = snapshot.at + _policy(snapshot, snapshot.holder).boundary_seconds + ANSWER_SECONDS
        fields = {"request": identity.request(state.holder), "to": None, "expires": expires, "reason": reason}
        return Append(Kind.REQUESTED, fields)
    step = retire_all(snapshot, identity, stoppable(snapshot, identity), outcome, reason)
    return step or Done({"stream": snapshot.stream, "stopped": True, "holder": "", "note": snapshot.holder_sentence})


def holder_result(snapshot: Snapshot, deployment: str) -> dict[str, Any]:
    """Return the XCom of a task that made, or found, a deployment to be the holder."""
    return {
        "stream": snapshot.stream,
        "deployment": deployment,
        "version": snapshot.state.deployments[deployment].release.version,
        "previous": snapshot.previous(deployment),
        "holder": snapshot.holder,
        "epoch": snapshot.state.epoch,
    }


def standby_result(snapshot: Snapshot, deployment: str) -> dict[str, Any]:
    """Return the XCom of a task that brought up a standby."""
    incarnation = snapshot.candidate(deployment)
    return {
        **holder_result(snapshot, deployment),
        "incarnation": incarnation.id if incarnation else "",
        "rehearsal": dict(incarnation.rehearsal) if incarnation else {},
    }


def _taken(snapshot: Snapshot, request: Request, outcome: WaitOutcome | None) -> Step:
    """The request is done: wait a little for the first batch, so that the gap is known."""
    to = request.to or ""
    acquired = next((r for r in snapshot.acquisitions() if r["request"] == request.id and r["incarnation"] == to), None)
    result = {**holder_result(snapshot, deployment_of(to)), "request": request.id}
    known = outcome is not None and outcome.subject == to
    if acquired is None or snapshot.state.holder != to or not result["previous"] or known:
        return Done(result)  # the first release of all leaves no gap
    until = acquired.at + FIRST_COMMIT_SECONDS
    if snapshot.at >= until:
        return Done(result)
    queries = tuple(query["name"] for query in snapshot.state.incarnations[to].queries)
    return Wait(FirstCommits(to, queries, until))


def _may_fence(snapshot: Snapshot, incarnation: str) -> bool:
    found = snapshot.state.incarnations.get(incarnation)
    return found is not None and (not found.state.terminal or incarnation in snapshot.state.must_fence)


def _not_taken(snapshot: Snapshot, request: Request) -> StreamError:
    how = "was taken back" if request.stage is RequestStage.TAKEN_BACK else "was aborted"
    why = next((r.get("reason") for r in snapshot.records if r.kind == Kind.ABORTED and r["request"] == request.id), "")
    return HandOverFailed(
        f"The hand-over to {request.to} {how}{': ' + why if why else ''}. {snapshot.holder_sentence}",
        next_step="Nothing was lost. Look at both drivers' logs, then start a new run.",
        request=request.id,
        holder=snapshot.holder,
    )


def _to_retire(snapshot: Snapshot, identity: TaskIdentity, before: int | None) -> tuple[str, ...]:
    """The deployments that live, or that this task has retired, of those declared before this record."""
    mine = {r["deployment"] for r in snapshot.records if r.kind == Kind.RETIRED and r.by == identity.by}
    declared = (r for r in snapshot.records if r.kind == Kind.DECLARED and (before is None or r.seq < before))
    wanted = mine.union(snapshot.live_deployments())
    return tuple(record["deployment"] for record in declared if record["deployment"] in wanted)


def _policy(snapshot: Snapshot, deployment: str) -> Policy:
    found = snapshot.state.deployments.get(deployment)
    return found.policy if found else Policy()


def _lease(snapshot: Snapshot, incarnations: Iterable[str]) -> float:
    return max(
        (_policy(snapshot, deployment_of(name)).lease_seconds for name in incarnations), default=Policy.lease_seconds
    )
