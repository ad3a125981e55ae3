"""End deployments that do not hold the stream, and decide what of its folder can go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.state import StreamPhase, StreamState
from airflow_stream_provider.planning.recovery_decision import release_to_run
from airflow_stream_provider.planning.signs_of_life import DriversGone
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Kill, Skip, Step, TaskIdentity, Wait
from airflow_stream_provider.planning.take_over import follow
from airflow_stream_provider.planning.waits import Ended, WaitOutcome

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


def abort(snapshot: Snapshot, deployment: str, outcome: WaitOutcome | None, reason: str) -> Step:
    """End a deployment that has never held, and wait until its driver has exited; an open request to it is followed.

    Gives up when it has come to hold meanwhile: then it takes a roll-back.
    """
    if snapshot.state.has_held(deployment):
        return GiveUp(
            HandOverFailed(
                f"{deployment} has taken the stream over meanwhile. {snapshot.holder_sentence}",
                next_step="Nothing was called off. Roll it back, if it shall not stay.",
                deployment=deployment,
            )
        )
    return retire(snapshot, deployment, outcome, reason)


# How many of the last releases stay, and how many of the last that held the stream: what people go back to.
KEPT_RELEASES = 20


@dataclass(frozen=True)
class Stored:
    """The content of a stream's folder beside its log: heartbeats by incarnation, releases by hash."""

    heartbeats: frozenset[str] = frozenset()
    releases: frozenset[str] = frozenset()


def expendable(state: StreamState, idle: Stored) -> Stored:
    """Return what may go.

    Heartbeats stay of drivers that may act or must be fenced, and of the last holder. Releases stay of deployments that
    have not ended or must be fenced, of the last 20 declared, and of the last 20 that held the stream, to which a
    roll-back or the watch goes back: however many bad ones were tried since.

    :param idle: files that were not written for long: a driver that beats, or a release that is just being published,
        is not in it. It was listed before `state` was read, so that a driver in it was declared by then.
    """
    needed = {i.id for i in state.incarnations.values() if not i.state.terminal}
    needed.update(state.must_fence, (state.last_holder or "",))
    running = {state.incarnations[name].deployment for name in needed & state.incarnations.keys()}
    kept = {d.release.hash for d in state.deployments.values() if not d.ended or d.id in running}
    kept.update(_last(d.release.hash for d in reversed(list(state.deployments.values()))))
    kept.update(_last(state.deployments[i.deployment].release.hash for i in state.held))
    return Stored(idle.heartbeats - needed, idle.releases - kept)


def settled(state: StreamState) -> tuple[str, ...]:
    """Return the deployments whose drivers have all ended by the log, and are not to be fenced any more."""
    may_live = {i.deployment for i in state.incarnations.values() if not i.state.terminal or i.id in state.must_fence}
    # One whose driver was fenced is not ended by that: another one of it could come up.
    over = {i.deployment for i in state.incarnations.values()} | {d.id for d in state.deployments.values() if d.ended}
    return tuple(name for name in state.deployments if name in over - may_live)


def _last(hashes: Iterable[str]) -> list[str]:
    """Return the first 20 different ones."""
    return list(dict.fromkeys(hashes))[:KEPT_RELEASES]
