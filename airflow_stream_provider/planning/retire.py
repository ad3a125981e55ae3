"""End deployments that do not hold the stream."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.planning.conditions import DriversGone
from airflow_stream_provider.planning.requests import follow
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Done, Kill, Skip, Step, Wait
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome

# A driver that is told to go stops its SparkContext first.
GRACE_SECONDS = 60.0


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
    return to_retire(snapshot, identity, began)


def to_retire(snapshot: Snapshot, identity: TaskIdentity, before: int | None) -> tuple[str, ...]:
    """The deployments that live, or that this task has retired, of those declared before this record."""
    mine = {r["deployment"] for r in snapshot.records if r.kind == Kind.RETIRED and r.by == identity.by}
    declared = (r for r in snapshot.records if r.kind == Kind.DECLARED and (before is None or r.seq < before))
    wanted = mine.union(snapshot.live_deployments())
    return tuple(record["deployment"] for record in declared if record["deployment"] in wanted)
