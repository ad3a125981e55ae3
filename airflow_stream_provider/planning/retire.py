"""End deployments that do not hold the stream."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.planning.deaths import DriversGone
from airflow_stream_provider.planning.recovery_decision import release_to_run
from airflow_stream_provider.planning.requests import follow
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Done, Kill, Skip, Step, Wait
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome

# A driver that exits stops its SparkContext first.
GRACE_SECONDS = 60.0


def retire(snapshot: Snapshot, deployment: str, outcome: WaitOutcome | None, reason: str) -> Step:
    """Retire a deployment that does not hold, wait until its driver has exited, and kill it when it does not.

    Skip when it holds the stream or is not known; Done when its driver is confirmed gone, or the cluster
    has lost its machine: it reads there that it has ended.
    """
    declared = snapshot.state.deployments.get(deployment)
    if declared is None:
        return Skip(f"There is no deployment {deployment!r}." if deployment else "There is nothing to retire.")
    if snapshot.holds(deployment):
        return Skip(f"{deployment} holds the stream and is kept.")
    request = snapshot.state.open_request
    if request is not None and deployment in snapshot.in_request:
        return follow(snapshot, request, outcome)
    if not declared.ended:
        return Append(Kind.RETIRED, {"deployment": deployment, "reason": reason})
    driver = snapshot.drivers.get(deployment)
    if (driver is not None and driver.out_of_sight) or (
        outcome is not None and outcome.about(Ended.REACHED, deployment)
    ):
        return Done({"stream": snapshot.stream, "retired": deployment, "version": declared.release.version})
    if not snapshot.submission(deployment):
        # Nothing of it is known to run. If a lost submission starts later, its launcher reads the log first and exits.
        return Done({"stream": snapshot.stream, "retired": deployment, "version": declared.release.version})
    gone = DriversGone(deployment, snapshot.at + GRACE_SECONDS)
    stays = outcome is not None and outcome.about(Ended.EXPIRED, deployment)
    # A driver that has not announced itself may be rehearsing for minutes and look at the log only then.
    busy = not snapshot.state.of_deployment(deployment)
    return Kill(deployment, gone) if stays or busy else Wait(gone)


def retire_all(snapshot: Snapshot, deployments: Iterable[str], outcome: WaitOutcome | None, reason: str) -> Step | None:
    """Retire these deployments one after the other; None when all are retired."""
    for deployment in deployments:
        step = retire(snapshot, deployment, outcome, reason)
        if not isinstance(step, (Done, Skip)):
            return step
    return None


def leftovers(snapshot: Snapshot, identity: TaskIdentity) -> tuple[str, ...]:
    """Return the deployments that earlier runs left warm and that take room from this run's standby.

    Deployments that were declared after this run began are not among them, nor, while the stream is down, those of the
    release that the watch is bringing it back with. Once this run has declared its own deployment there are none: what
    is warm then is kept for its roll-back.
    """
    if any(deployment.declared.by.startswith(identity.run) for deployment in snapshot.state.deployments.values()):
        return ()
    began = next((record.seq for record in snapshot.records if record.by.startswith(identity.run)), None)
    state = snapshot.state
    needed = release_to_run(state, snapshot.at) if state.phase in (StreamPhase.DOWN, StreamPhase.FAILED) else ""
    found = to_retire(snapshot, identity, began)
    return tuple(d for d in found if state.deployments[d].ended or state.deployments[d].release.hash != needed)


def to_retire(snapshot: Snapshot, identity: TaskIdentity, before: int | None) -> tuple[str, ...]:
    """Return the deployments, declared before this record, that live or that this task has retired."""
    mine = {r["deployment"] for r in snapshot.records if r.kind == Kind.RETIRED and r.by == identity.by}
    wanted = mine.union(snapshot.live_deployments())
    declared = (d for d in snapshot.state.deployments.values() if before is None or d.declared.seq < before)
    return tuple(deployment.id for deployment in declared if deployment.id in wanted)
