"""The deployments of a release that one task has declared: each follows one whose driver was lost before it held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import DeploymentEnd, IncarnationState, StreamState
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, GiveUp, Step
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import WaitOutcome

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
