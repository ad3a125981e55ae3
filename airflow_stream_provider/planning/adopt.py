"""Adopt a job that runs without a stream: its follower stands by, the job ends, the follower takes over.

Nothing that cannot be undone is done before the follower has rehearsed on the job's own checkpoints. It is appointed
only once the job is confirmed gone, and answers only once the logs of the checkpoints stand still
(`runtime.adopted_logs`): so it runs no batch while the job may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.clusters import DriverState, UnmanagedView
from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.state import Incarnation, Request, RequestStage, StreamState
from airflow_stream_provider.planning.begun import confirmed, orphaned
from airflow_stream_provider.planning.conditions import FirstCommits
from airflow_stream_provider.planning.signs_of_life import JobGone, SignsOfLife
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stand_by import ask_again, bring_up, standby_result
from airflow_stream_provider.planning.steps import Append, Done, EndJob, GiveUp, Step, TaskIdentity, Wait
from airflow_stream_provider.planning.take_over import FIRST_COMMIT_SECONDS, ask, follow
from airflow_stream_provider.planning.waits import Ended, WaitOutcome

# The time for the task that ends a job, or asks a person to. After that the watch tells that the stream is down.
ENDING_SECONDS = 60.0
ASKING_SECONDS = 600.0
NOT_THAT_ONE = (
    "Adopt that one, by its id; or see that no job runs that writes these checkpoints, and adopt by your word "
    "(`--confirmed-by`) instead of an id."
)
END_IT_YOURSELF = "Leave the job out, and end it yourself when you are asked: nothing of it was touched."


def adopt(
    snapshot: Snapshot,
    identity: TaskIdentity,
    deployment: str,
    outcome: WaitOutcome | None,
    reason: str,
    *,
    job: str = "",
    confirmed_by: str = "",
) -> Step:
    """Bring up a deployment beside the job, have the job ended, and appoint the deployment.

    :param job: the cluster's id of the job, which the cluster ends.
    :param confirmed_by: the person who made sure that the job neither runs nor can come back; the cluster is not asked.
        With neither, it is Done once the deployment stands by: `adopted` is then False.
    """
    state = snapshot.state
    mine = [r for r in state.requests.values() if r.to and deployment_of(r.to) == deployment]
    last = mine[-1] if mine else None
    if last is not None and last.stage is RequestStage.DONE:
        return _taken(snapshot, last, outcome)
    if state.open_request is not None:
        return follow(snapshot, state.open_request, outcome)
    if state.holder is not None:
        return GiveUp(
            HandOverFailed(
                f"{snapshot.holder_sentence} Somebody has started the stream meanwhile.",
                next_step="There is nothing to adopt: see that the job without a stream has ended.",
                deployment=deployment,
            )
        )
    if last is not None:
        return GiveUp(_not_adopted(snapshot, last.id, job))
    standby = snapshot.candidate(deployment)
    if standby is None:
        over = deployment in state.deployments and bool(state.deployments[deployment].ended)
        if over and (confirmed_by or (snapshot.job is not None and snapshot.job.gone)):
            return GiveUp(_nobody_runs(snapshot, deployment, job), log_of=snapshot.log_of_failed(deployment))
        return _unless_submitted_by_another(snapshot, identity, deployment) or bring_up(
            snapshot, deployment, outcome, reason
        )
    if confirmed_by:
        return _appoint(snapshot, identity, standby, reason, {"person": confirmed_by})
    if not job:
        up = Done({**standby_result(snapshot, deployment), "adopted": False, "says": says(snapshot, deployment)})
        return _unless_lost(snapshot, standby, outcome) or up
    return _after_the_job(snapshot, identity, standby, outcome, reason, job)


def ask_for_the_end(snapshot: Snapshot, deployment: str, reason: str) -> Append | None:
    """Return what is said before a person is asked to end the job; None: it is said, or nothing is to follow."""
    state = snapshot.state
    if snapshot.candidate(deployment) is None or state.holder is not None or state.open_request is not None:
        return None
    known = state.job.id if state.job is not None and not state.job.gone else ""  # the person is asked to end that one
    return _ending(snapshot, deployment, known, ASKING_SECONDS, reason)


def _ending(snapshot: Snapshot, deployment: str, job: str, seconds: float, reason: str) -> Append | None:
    """Return the intent, which comes before the end: should this process die after that, the watch knows."""
    said = snapshot.state.job
    if said is not None and (said.deployment, said.id) == (deployment, job):
        return None
    fields = {"deployment": deployment, "job": job, "expires": snapshot.at + seconds, "reason": reason}
    return Append(Kind.ENDING, fields)


def left_to_another(state: StreamState, deployment: str, identity: TaskIdentity) -> str:
    """Return why a follower that has not taken over is not ended: another run or command has brought it up, and may
    still wait for the job to end; empty: it is this one's own.
    """
    found = state.deployments.get(deployment)
    if found is None or found.ended or found.declared.by.startswith(identity.run):
        return ""
    return (
        f"{deployment} was brought up by {found.declared.by}, and is left to that. If nobody follows that any more, "
        "call it off (`airflow streams abort`)."
    )


def says(snapshot: Snapshot, deployment: str) -> str:
    """Return what the follower says of the job, in one line: its batches, and when its logs were written last."""
    standby = snapshot.candidate(deployment)
    beat = snapshot.heartbeats.get(standby.id) if standby else None
    return " ".join(beat.message.split()) if beat else ""


def another_job(state: StreamState, job: str) -> str:
    """Return that another job is to be followed, which may write still: the end of this one says nothing of that."""
    known = state.job
    if known is None or known.gone or known.id in ("", job):
        return ""
    return f"{known.id} was to be ended for {known.deployment}, and nobody has confirmed that it is gone."


def unknown_whose(found: UnmanagedView) -> str:
    """Return that the cluster does not show whose a job is: it is not ended then."""
    about = found.about or found.id
    return f"Nothing shows that no stream of this provider runs {about}: its log does not begin with its command."


def _unless_submitted_by_another(snapshot: Snapshot, identity: TaskIdentity, deployment: str) -> Step | None:
    """Return a wait for the run that has declared this one just now and submits it. None: there is none."""
    known = snapshot.state.deployments.get(deployment)
    if known is None or known.ended or known.submission or orphaned(known, snapshot.at):
        return None
    return None if known.declared.by.startswith(identity.run) else ask_again(snapshot, deployment)


def _unless_lost(snapshot: Snapshot, standby: Incarnation, outcome: WaitOutcome | None) -> Step | None:
    """Return what comes before the job is ended: it is known that the driver lives. None: it does.

    No task looks after a standby of a stream without a holder: it may be dead for hours.
    """
    if outcome is not None and outcome.about(Ended.REACHED, standby.deployment):
        return None  # it has come up just now
    known = SignsOfLife.found(outcome, snapshot)
    if standby.id not in known:
        return Wait(SignsOfLife({standby.id: snapshot.counter(standby.id)}, snapshot.lease([standby.id])))
    if known[standby.id]:
        return None
    return GiveUp(
        HandOverFailed(
            f"{standby.deployment}, which is to follow the job, gives no sign of life.",
            next_step="The job was not touched. Call that one off (`airflow streams abort`), then adopt the job again.",
            deployment=standby.deployment,
        )
    )


def _after_the_job(
    snapshot: Snapshot, identity: TaskIdentity, standby: Incarnation, outcome: WaitOutcome | None, reason: str, job: str
) -> Step:
    found = snapshot.job
    if found is None:
        why = f"The cluster of {snapshot.stream} cannot end {job}."
        return GiveUp(HandOverFailed(why, next_step="Leave the job out, and end it yourself.", job=job))
    other = another_job(snapshot.state, job)
    if other:
        return GiveUp(HandOverFailed(other, next_step=NOT_THAT_ONE, job=job))
    if found.managed:
        why = f"{found.about or job} is run by a stream of this provider."
        return GiveUp(HandOverFailed(why, next_step="Stop that stream, and see docs/control.md.", job=job))
    if found.managed is None and not found.gone:
        return GiveUp(HandOverFailed(unknown_whose(found), next_step=END_IT_YOURSELF, job=job))
    if found.gone:
        return _appoint(snapshot, identity, standby, reason, confirmed(found))
    unknown = outcome is not None and outcome.about(Ended.UNKNOWN, job)
    if unknown or (found.state is DriverState.LOST and outcome is None):
        left = " ".join((*found.remains.alive, *found.remains.lost)) or "It does not know it."
        return GiveUp(
            HandOverFailed(
                f"The cluster does not confirm that {job} is gone: {left}",
                next_step="Nothing took over. See that it is gone and cannot come back, then adopt again by your word "
                "(confirmed_by) instead of its id.",
                job=job,
            )
        )
    ended = found.state.terminal
    again = ended or (outcome is not None and outcome.about(Ended.EXPIRED, job))
    first = None if again else _unless_lost(snapshot, standby, outcome)
    first = first or _ending(snapshot, standby.deployment, job, ENDING_SECONDS, reason)
    if first is not None:
        return first
    return Wait(JobGone(job)) if ended and not found.remains.alive else EndJob(job, JobGone(job))


def _taken(snapshot: Snapshot, request: Request, outcome: WaitOutcome | None) -> Step:
    """It has taken over: wait for the first batch, as of any change of holder, so that the gap can be measured."""
    to = request.to or ""
    acquired = next((r for r in snapshot.acquisitions() if r["request"] == request.id), None)
    known = outcome is not None and outcome.subject == to
    if acquired is not None and snapshot.state.holder == to and not known:
        until = acquired.at + FIRST_COMMIT_SECONDS
        if snapshot.at < until:
            queries = tuple(query["name"] for query in snapshot.state.incarnations[to].queries)
            return Wait(FirstCommits(to, queries, until))
    return Done({**snapshot.holder_result(deployment_of(to)), "request": request.id, "adopted": True})


def _appoint(
    snapshot: Snapshot, identity: TaskIdentity, standby: Incarnation, reason: str, evidence: Mapping[str, Any]
) -> Append:
    return ask(snapshot, identity.request(standby.id, "adopt"), standby.id, reason, evidence=evidence)


def _not_adopted(snapshot: Snapshot, request: str, job: str) -> HandOverFailed:
    aborted = (r for r in snapshot.records if r.kind == Kind.ABORTED and r["request"] == request)
    why = next((str(r.get("reason")) for r in aborted), "it was aborted")
    old = f"{job} is gone" if job else "the job is gone, by a person's word"
    return HandOverFailed(
        f"The stream was not adopted: {why}. Though {old}, its driver did not take over: the logs of a checkpoint did "
        "not stand still, so somebody else writes it, or the driver is lost.",
        next_step="Nobody runs the stream by its control log. Find out who writes the checkpoint, end that, and adopt "
        "again; or, if nobody does, start the stream.",
        request=request,
    )


def _nobody_runs(snapshot: Snapshot, deployment: str, job: str) -> HandOverFailed:
    old = f"{job} has ended" if job else "The job is gone, by a person's word"
    return HandOverFailed(
        f"{old}, and {deployment}, which was to follow it, has ended: {snapshot.why_ended(deployment)} Nobody runs the "
        "stream.",
        next_step="If this provider has ended that job, the watch starts the release again. Else, or without a watch: "
        "start the stream, or that job again.",
        deployment=deployment,
    )
