"""Start a stream that has no holder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import DeploymentEnd, IncarnationState, RequestStage, StreamState
from airflow_stream_provider.planning.begun import FOLLOW_FIRST, job_first
from airflow_stream_provider.planning.signs_of_life import SignsOfLife
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stand_by import bring_up
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Step, TaskIdentity, Wait
from airflow_stream_provider.planning.take_over import take_over
from airflow_stream_provider.planning.waits import WaitOutcome

# So many drivers are lost before a try of a task gives up: a release may end each time without a word, too.
TRIES = 3


def own_tries(state: StreamState, identity: TaskIdentity, stream: str, version: str) -> tuple[str, ...]:
    """Return the deployments of a task, oldest first: all were lost but the last one, which it works on.

    Two tries of the task that run at once find the same ids, so only one of them declares the next.
    """
    names = [identity.deployment(stream, version)]
    while _was_lost(state, names[-1]):
        names.append(identity.deployment(stream, version, len(names)))
    return tuple(names)


def end_lost(snapshot: Snapshot, own: Sequence[str], outcome: WaitOutcome | None) -> Step | None:
    """Return what comes before the last of `own_tries` is brought up; None: nothing does.

    A deployment whose drivers were fenced before they held is ended: one that the cluster starts again reads that, and
    exits. Gives up instead of declaring the next one when a person wants the stream to stay down, and when `TRIES` were
    lost; a task that is cleared, or tried again, begins with one more.
    """
    found = snapshot.state.deployments.get(own[-1])
    if found is not None and not found.ended and _only_fenced(snapshot.state, own[-1], at_least=1):
        reason = "Its driver was lost before it held the stream."
        return Append(Kind.FAILED, {"deployment": own[-1], "reason": reason, "error": ""})
    if found is not None or len(own) == 1:
        return None
    lost = own[-2]
    since = (record for record in snapshot.records if record.seq > snapshot.declared(lost).seq)
    why = next(filter(None, (_by_a_person(record, lost) for record in since)), "")
    if why:
        return GiveUp(
            HandOverFailed(
                f"{lost} was lost before it held the stream, and is not started again: {why}. "
                f"{snapshot.holder_sentence}",
                next_step="If the stream shall run, start it in a new run.",
                deployment=lost,
            )
        )
    if outcome is not None and len(own) > TRIES:
        return GiveUp(
            HandOverFailed(
                f"{len(own) - 1} drivers were lost one after the other before they held the stream, the last one of "
                f"{lost}: {snapshot.why_ended(lost)} {snapshot.holder_sentence}",
                next_step="Look at the cluster, and at the drivers' logs. Then clear this task: it starts one more.",
                deployment=lost,
            ),
            log_of=lost,
        )
    return None


def _was_lost(state: StreamState, deployment: str) -> bool:
    """Whether a deployment has ended before it ever held, and no driver of it says why: killed, or with its machine."""
    found = state.deployments.get(deployment)
    return found is not None and found.ended is DeploymentEnd.FAILED and _only_fenced(state, deployment)


def _only_fenced(state: StreamState, deployment: str, *, at_least: int = 0) -> bool:
    drivers = state.of_deployment(deployment)
    return len(drivers) >= at_least and all(d.state is IncarnationState.FENCED and not d.epoch for d in drivers)


def _by_a_person(record: Record, deployment: str) -> str:
    """Why nothing is started after this record; empty for any other."""
    if record.kind == Kind.STOPPED or (record.kind == Kind.REQUESTED and record.get("to") is None):
        return f"{record.by} has stopped the stream since"
    evidence = record.get("evidence")
    if record.kind == Kind.FENCED and isinstance(evidence, Mapping) and evidence.get("person"):
        return f"{record.by} has fenced it since" if deployment_of(record["incarnation"]) == deployment else ""
    return ""


def start(snapshot: Snapshot, identity: TaskIdentity, version: str, outcome: WaitOutcome | None, reason: str) -> Step:
    """Bring up a deployment of the release that the task asks for and appoint it.

    One whose driver is lost before it holds is followed by another one (`own_tries`): nothing else would bring up a
    stream that was stopped, or never ran. Done when this version runs already and its driver is alive; gives up when
    another one holds, when the driver of this one is dead, or when what this task started has held and was ended since.
    """
    state = snapshot.state
    own = own_tries(state, identity, snapshot.stream, version)
    deployment, held = own[-1], state.holding_deployment
    asked = any(r.by == identity.by and r.stage is not RequestStage.ABORTED for r in state.requests.values())
    if held is not None and held.id != deployment and not asked:
        if held.release.version == version:
            return _if_alive(snapshot, outcome)
        return GiveUp(
            HandOverFailed(
                snapshot.holder_sentence,
                next_step="Upgrade it instead of starting it, or stop it first.",
                holder=held.id,
            )
        )
    job = "" if asked else job_first(state)
    if job:
        return GiveUp(HandOverFailed(job, next_step=FOLLOW_FIRST, deployment=deployment))
    if not asked and not snapshot.candidate(deployment):
        return end_lost(snapshot, own, outcome) or bring_up(snapshot, deployment, outcome, reason)
    step = take_over(snapshot, identity, deployment, outcome, reason)
    if isinstance(step, Done) and not snapshot.holding:
        return GiveUp(
            HandOverFailed(
                f"{deployment} was started by this task, and has been ended since. {snapshot.holder_sentence}",
                next_step="Start a new run: clearing this task starts nothing again that has held.",
                deployment=deployment,
            )
        )
    return step


def _if_alive(snapshot: Snapshot, outcome: WaitOutcome | None) -> Step:
    """A holder by the log counts only once its driver gave a sign of life."""
    holder, lease = snapshot.state.holder or "", snapshot.policy(snapshot.holding).lease_seconds
    known = SignsOfLife.found(outcome, snapshot)
    if holder not in known:
        return Wait(SignsOfLife({holder: snapshot.counter(holder)}, lease))
    if known[holder]:
        return Done(snapshot.holder_result(snapshot.holding))
    return GiveUp(
        HandOverFailed(
            f"{snapshot.holder_sentence} It gives no sign of life.",
            next_step="The watch replaces it. Without a watch: fence it, then start the stream again.",
            holder=snapshot.holding,
        )
    )
