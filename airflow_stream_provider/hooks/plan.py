"""What an operator does next: pure functions from a snapshot to a step.

Every plan starts from the log alone, so a task that was killed, cleared or retried at any moment goes on where the
stream is, not where the task was. The only thing it takes from the wait before is what only an observer can know: that
a driver has been silent, or is confirmed dead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_stream_provider.hooks.author import Author
from airflow_stream_provider.hooks.goals import Dead, DriversGone, FirstCommits, Pause, RequestOver, StandbyUp
from airflow_stream_provider.hooks.outcome import Ended, Outcome
from airflow_stream_provider.hooks.snapshot import Snapshot
from airflow_stream_provider.hooks.steps import Append, Done, GiveUp, Kill, Skip, Step, Submit, Wait
from airflow_stream_provider.model.errors import HandOverFailed, RehearsalRefused, StreamError
from airflow_stream_provider.model.names import deployment_of
from airflow_stream_provider.model.policy import Policy
from airflow_stream_provider.model.record import Kind
from airflow_stream_provider.model.rules import live_standby
from airflow_stream_provider.model.state import Request, RequestStage

# From the request to the holder's look at it: the standby must answer and beat once more, the holder wake up.
ANSWER_SECONDS = 30.0
# A driver that is told to go stops its SparkContext first.
GRACE_SECONDS = 60.0
# How long to wait for the first batch of a new holder before the gap is reported as not known (no input).
FIRST_COMMIT_SECONDS = 20.0
# How often to ask the cluster again whether a submission arrived.
ASK_AGAIN_SECONDS = 10.0


def stand_by(view: Snapshot, deployment: str, outcome: Outcome | None) -> Step:
    """Bring a declared deployment up: submit it, wait until it is rehearsed; Done when it is a standby or holds."""
    declared = view.state.deployments[deployment]
    if declared.ended:
        return GiveUp(
            RehearsalRefused(
                f"Release {declared.release['version']} ({deployment}) {declared.ended}: "
                f"{declared.reason or 'no reason given'} {view.holder_sentence}",
                todo="Correct it and start a new run; clearing this task changes nothing.",
                deployment=deployment,
            )
        )
    if view.candidate(deployment) or view.holds(deployment):
        return Done(standby_result(view, deployment))
    if not declared.submission:
        return Submit(deployment)
    if outcome is not None and outcome.about(Ended.LOST, deployment):
        reason = f"Its driver never came up: {outcome.reason}. Look at the driver's log on the cluster."
        return Append(Kind.FAILED, {"deployment": deployment, "reason": reason, "error": outcome.reason})
    return Wait(StandbyUp(deployment))


def ask_again(view: Snapshot, deployment: str) -> Step:
    """Wait before the cluster is asked again whether a submission arrived."""
    return Wait(Pause(deployment, view.at + ASK_AGAIN_SECONDS))


def take_over(
    view: Snapshot, author: Author, to: str, outcome: Outcome | None, reason: str, *, escalate: bool = False
) -> Step:
    """Make a deployment the holder, by a hand-over or, when nobody holds, by an appointment.

    A driver that is dead, or that stopped inside a batch, is fenced first. `escalate`: a holder that does not let
    go is fenced too, as in a roll-back.
    """
    state = view.state
    mine = [r for r in state.requests.values() if r.by == author.by and r.to and deployment_of(r.to) == to]
    last = mine[-1] if mine else None
    if last is not None and last.stage is RequestStage.DONE:
        return _taken(view, last, outcome)
    step = fence_first(view, outcome)
    if step is not None:
        return step
    if state.open_request is not None:
        return follow(view, author, state.open_request, outcome)
    if view.holds(to):
        return Done(holder_result(view, to))
    if last is not None and state.holder is not None:
        if escalate and state.holder == last.source:
            return fence(view, state.holder, outcome, f"It did not let go of the stream: {reason}")
        return GiveUp(_not_taken(view, last))
    standby = view.candidate(to)
    if standby is None:
        return GiveUp(
            HandOverFailed(
                f"{to} has no driver that could take over. {view.holder_sentence}",
                todo="Start a new run: it brings up a standby of its own.",
                deployment=to,
            )
        )
    boundary = _policy(view, view.holder or to).boundary_seconds
    fields = {
        "id": author.request(standby.id, state.holder or ""),
        "to": standby.id,
        "expires": view.at + boundary + ANSWER_SECONDS,
        "reason": reason,
    }
    return Append(Kind.REQUESTED, fields)


def follow(view: Snapshot, author: Author, request: Request, outcome: Outcome | None) -> Step:
    """Wait for the open request; fence whoever is dead in it; abort it when nobody can act on it any more."""
    step = fence_first(view, outcome)
    if step is not None:
        return step
    drivers = tuple(name for name in (request.source, request.to) if name)
    for name in drivers:
        if outcome is not None and outcome.about(Ended.SILENT, name) and _may_fence(view, name):
            return fence(view, name, outcome, f"{outcome.reason} while request {request.id} was open")
    nobody_left = request.to is not None and not live_standby(view.state, request.to)
    if request.stage is RequestStage.RELEASED:
        nobody_left = nobody_left and not live_standby(view.state, request.source)
    expired = outcome is not None and outcome.about(Ended.LOST, request.id)
    if nobody_left or expired:
        reason = "whoever should take over is dead" if nobody_left else "not acted upon in time"
        return Append(Kind.ABORTED, {"id": request.id, "reason": reason})
    watched = tuple(name for name in drivers if _may_fence(view, name))
    return Wait(RequestOver(request.id, request.expires, watched, _lease(view, drivers)))


def fence(view: Snapshot, incarnation: str, outcome: Outcome | None, reason: str) -> Step:
    """Kill a driver and, once that is confirmed, say so in the log (rule 4)."""
    if outcome is not None and outcome.about(Ended.DEAD, incarnation):
        evidence = outcome.evidence
        return Append(Kind.FENCED, {"incarnation": incarnation, "reason": reason, "evidence": dict(evidence)})
    return Kill(deployment_of(incarnation), Dead(incarnation, _lease(view, (incarnation,))))


def fence_first(view: Snapshot, outcome: Outcome | None) -> Step | None:
    """Return the fence that comes before all else, of what is confirmed dead or stopped inside a batch; or None."""
    if outcome is not None and outcome.ended is Ended.DEAD and _may_fence(view, outcome.subject):
        return fence(view, outcome.subject, outcome, outcome.reason)
    for incarnation in view.state.must_fence:
        return fence(view, incarnation, outcome, "It stopped inside a batch.")
    return None


def roll_back(view: Snapshot, author: Author, bad: str, outcome: Outcome | None, reason: str) -> Step:
    """Give the stream back to the deployment that held it before `bad`: the warm one, else its release anew."""
    state = view.state
    done = [r for r in state.requests.values() if r.by == author.by and r.stage is RequestStage.DONE]
    if done and done[-1].to:
        return take_over(view, author, deployment_of(done[-1].to), outcome, reason, escalate=True)
    previous = view.previous(bad)
    again = author.deployment(view.stream, state.deployments[previous].release["version"]) if previous else ""
    held = any(deployment_of(record["incarnation"]) == bad for record in view.acquisitions())
    asked = any(request.by.startswith(author.run) for request in state.requests.values())
    if (view.holder and not view.holds(bad)) or not (held or asked):
        return Skip(f"Nothing to roll back: {view.holder_sentence}")
    if not previous:
        return Skip(f"No release ran before {bad}, so there is none to go back to. {view.holder_sentence}")
    warm = next((d for d in (previous, again) if view.candidate(d)), "")
    if warm:
        return take_over(view, author, warm, outcome, reason, escalate=True)
    if again in state.deployments:
        return stand_by(view, again, outcome)
    old = state.deployments[previous]
    fields = {"deployment": again, "release": dict(old.release), "policy": dict(old.policy), "reason": reason}
    return Append(Kind.DECLARED, fields)


def retire(view: Snapshot, author: Author, deployment: str, outcome: Outcome | None, reason: str) -> Step:
    """End a deployment that does not hold: say so, let its driver go, kill it when it does not."""
    declared = view.state.deployments.get(deployment)
    if declared is None:
        return Skip(f"There is no deployment {deployment!r}." if deployment else "There is nothing to retire.")
    if view.holds(deployment):
        return Skip(f"{deployment} holds the stream and is kept.")
    request = view.state.open_request
    needed = {deployment_of(name) for name in (request.to, request.source) if name} if request else set()
    if request is not None and deployment in needed:
        return follow(view, author, request, outcome)
    if not declared.ended:
        return Append(Kind.RETIRED, {"deployment": deployment, "reason": reason})
    driver = view.drivers.get(deployment)
    if (driver is not None and driver.gone) or (outcome is not None and outcome.about(Ended.REACHED, deployment)):
        return Done({"stream": view.stream, "retired": deployment, "version": declared.release["version"]})
    if not view.submission(deployment):
        # Nothing is known to run. Should a lost submission start yet, its launcher reads the log first and leaves.
        return Done({"stream": view.stream, "retired": deployment, "version": declared.release["version"]})
    gone = DriversGone(deployment, view.at + GRACE_SECONDS)
    stays = outcome is not None and outcome.about(Ended.LOST, deployment)
    # One that has not announced itself yet may be busy with its rehearsal for minutes.
    busy = not view.state.of_deployment(deployment)
    return Kill(deployment, gone) if stays or busy else Wait(gone)


def retire_all(
    view: Snapshot, author: Author, deployments: Iterable[str], outcome: Outcome | None, reason: str
) -> Step | None:
    """Retire these, one after the other; None when all are through."""
    for deployment in deployments:
        step = retire(view, author, deployment, outcome, reason)
        if not isinstance(step, (Done, Skip)):
            return step
    return None


def leftovers(view: Snapshot, author: Author) -> tuple[str, ...]:
    """The deployments that earlier runs left warm: in the way of a new standby. None that came after this run began.

    Once this run has declared its own there was room, and whoever is warm now is there for its roll-back.
    """
    if any(record.kind == Kind.DECLARED and record.by.startswith(author.run) for record in view.records):
        return ()
    began = next((record.seq for record in view.records if record.by.startswith(author.run)), None)
    return _to_retire(view, author, began)


def stoppable(view: Snapshot, author: Author) -> tuple[str, ...]:
    """The deployments that a stop by this task ends: none that came after it was asked for."""
    asked = (r.seq for r in view.records if r.kind == Kind.REQUESTED and r.by == author.by and r.get("to") is None)
    return _to_retire(view, author, next(asked, None))


def stop(view: Snapshot, author: Author, outcome: Outcome | None, reason: str) -> Step:
    """Stop the stream at a boundary and end every driver of it; Done says what was the last batch."""
    state = view.state
    mine = [r for r in state.requests.values() if r.by == author.by and r.to is None]
    last = mine[-1] if mine else None
    asked = last is not None and last.stage is RequestStage.DONE
    if asked and (state.holder or state.open_request):
        return Done({"stream": view.stream, "stopped": False, "holder": view.holder, "note": view.holder_sentence})
    step = fence_first(view, outcome)
    if step is not None:
        return step
    if state.open_request is not None:
        return follow(view, author, state.open_request, outcome)
    if state.holder is not None:
        if last is not None and last.source == state.holder:
            return GiveUp(
                HandOverFailed(
                    f"{view.holder} did not stop at a batch boundary in time and goes on.",
                    todo="Look at its batches in the Spark UI; raise `upgrade.boundary_seconds` and stop it again.",
                )
            )
        expires = view.at + _policy(view, view.holder).boundary_seconds + ANSWER_SECONDS
        fields = {"id": author.request(state.holder), "to": None, "expires": expires, "reason": reason}
        return Append(Kind.REQUESTED, fields)
    step = retire_all(view, author, stoppable(view, author), outcome, reason)
    return step or Done({"stream": view.stream, "stopped": True, "holder": "", "note": view.holder_sentence})


def holder_result(view: Snapshot, deployment: str) -> dict[str, Any]:
    """Return the XCom of a task that made, or found, a deployment to be the holder."""
    return {
        "stream": view.stream,
        "deployment": deployment,
        "version": view.state.deployments[deployment].release["version"],
        "previous": view.previous(deployment),
        "holder": view.holder,
        "epoch": view.state.epoch,
    }


def standby_result(view: Snapshot, deployment: str) -> dict[str, Any]:
    """Return the XCom of a task that brought up a standby."""
    incarnation = view.candidate(deployment)
    return {
        **holder_result(view, deployment),
        "incarnation": incarnation.id if incarnation else "",
        "rehearsal": dict(incarnation.rehearsal) if incarnation else {},
    }


def _taken(view: Snapshot, request: Request, outcome: Outcome | None) -> Step:
    """The request is done: wait a little for the first batch, so that the gap is known."""
    to = request.to or ""
    acquired = next((r for r in view.acquisitions() if r["id"] == request.id and r["incarnation"] == to), None)
    result = {**holder_result(view, deployment_of(to)), "request": request.id}
    known = outcome is not None and outcome.subject == to
    if acquired is None or view.state.holder != to or not result["previous"] or known:
        return Done(result)  # the first release of all leaves no gap
    until = acquired.at + FIRST_COMMIT_SECONDS
    if view.at >= until:
        return Done(result)
    queries = tuple(query["name"] for query in view.state.incarnations[to].queries)
    return Wait(FirstCommits(to, queries, until))


def _may_fence(view: Snapshot, incarnation: str) -> bool:
    found = view.state.incarnations.get(incarnation)
    return found is not None and (not found.state.terminal or incarnation in view.state.must_fence)


def _not_taken(view: Snapshot, request: Request) -> StreamError:
    how = "was taken back" if request.stage is RequestStage.TAKEN_BACK else "was aborted"
    why = next((r.get("reason") for r in view.records if r.kind == Kind.ABORTED and r["id"] == request.id), "")
    return HandOverFailed(
        f"The hand-over to {request.to} {how}{': ' + why if why else ''}. {view.holder_sentence}",
        todo="Nothing was lost. Look at both drivers' logs, then start a new run.",
        request=request.id,
        holder=view.holder,
    )


def _to_retire(view: Snapshot, author: Author, before: int | None) -> tuple[str, ...]:
    """The deployments that live, or that this task has retired, of those declared before this record."""
    mine = {r["deployment"] for r in view.records if r.kind == Kind.RETIRED and r.by == author.by}
    declared = (r for r in view.records if r.kind == Kind.DECLARED and (before is None or r.seq < before))
    wanted = mine.union(view.live_deployments())
    return tuple(record["deployment"] for record in declared if record["deployment"] in wanted)


def _policy(view: Snapshot, deployment: str) -> Policy:
    found = view.state.deployments.get(deployment)
    return Policy.from_json(found.policy) if found else Policy()


def _lease(view: Snapshot, incarnations: Iterable[str]) -> float:
    return max((_policy(view, deployment_of(name)).lease_seconds for name in incarnations), default=30.0)
