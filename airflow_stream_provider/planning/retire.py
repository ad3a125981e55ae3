"""End deployments that do not hold the stream, and decide what of its folder can go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.state import DeploymentEnd, StreamState
from airflow_stream_provider.planning.request import see_through
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.signs_of_life import DriversGone
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, Done, Kill, Skip, Step, Wait
from airflow_stream_provider.planning.waits import Ended

# A driver that exits stops its SparkContext first.
GRACE_SECONDS = 60.0


def retire(scene: Scene, deployment: str, reason: str) -> Step | None:
    """Retire a deployment that does not hold, wait until its driver has exited, kill it if it does not.

    An open request that needs it is seen through first.

    None when its driver is confirmed gone, or the cluster has lost its machine: it reads there that it has ended.
    """
    snapshot, outcome, request = scene.snapshot, scene.outcome, scene.state.open_request
    if not snapshot.state.deployments[deployment].ended:
        if request is not None and deployment in snapshot.in_request:
            return see_through(scene, request)
        return Append(Kind.RETIRED, {"deployment": deployment, "reason": reason})
    driver = snapshot.drivers.get(deployment)
    gone = (driver is not None and driver.out_of_sight) or scene.alive.get(deployment) is False
    gone = gone or (outcome is not None and outcome.about(Ended.REACHED, deployment))
    # One without a submission is not known to run. If it starts later, its launcher reads the log and exits.
    if gone or not snapshot.submission(deployment):
        return None
    exits = DriversGone(deployment, snapshot.at + GRACE_SECONDS)
    stays = outcome is not None and outcome.about(Ended.EXPIRED, deployment)
    # A driver that has not announced itself may be rehearsing for minutes and look at the log only then.
    busy = not snapshot.state.of_deployment(deployment)
    return Kill(deployment, exits) if stays or busy else Wait(exits)


def end(scene: Scene, deployment: str, reason: str) -> Step:
    """Return the next step of a task that ends one deployment: Skip when it holds the stream, or is not known."""
    snapshot = scene.snapshot
    declared = snapshot.state.deployments.get(deployment)
    if declared is None:
        return Skip(f"There is no deployment {deployment!r}." if deployment else "There is nothing to retire.")
    if snapshot.holds(deployment):
        return Skip(f"{deployment} holds the stream and is kept.")
    wish, held = scene.state.wish, scene.state.holding_deployment
    to_hold = wish is not None and declared.fulfils(wish) and not (held is not None and held.fulfils(wish))
    if wish is not None and to_hold and not declared.ended and scene.state.has_held(deployment):
        return Skip(f"{deployment} is to hold the stream, by {wish.author}, and is kept.")
    done = Done({"stream": snapshot.stream, "retired": deployment, "version": declared.release.version})
    return retire(scene, deployment, reason) or done


def retire_all(scene: Scene, deployments: Iterable[str], reason: str) -> Step | None:
    """Retire these deployments one after the other; None when all are gone."""
    return next((step for each in deployments if (step := retire(scene, each, reason)) is not None), None)


def end_unneeded(scene: Scene, step: Step, families: Iterable[str], reason: str) -> Step:
    """Return this step of a task that takes a wish back; once all else is done, the end of what is not needed."""
    if not isinstance(step, (Done, Skip)):
        return step
    return retire_all(scene, unneeded(scene.snapshot, families), reason) or step


def never_held(state: StreamState) -> frozenset[str]:
    """Return the families of which no driver has ever held the stream."""
    return frozenset(each.family for each in state.deployments.values() if not state.has_run(each.family))


def unneeded(snapshot: Snapshot, families: Iterable[str]) -> tuple[str, ...]:
    """Return the deployments of these families that are not needed: that live, or that were retired for what is wished.

    Needed is what is to hold or to stand by, and what it took over from, for a way back.
    """
    state, wish = snapshot.state, snapshot.state.wish
    wanted = {each.family for each in (wish, state.candidate) if each is not None}
    if wish is not None and not wish.back and state.has_run(wish.before):
        wanted.add(wish.before)
    since = wish.seq if wish is not None else 0
    left = (each for name in families if name not in wanted for each in state.family(name))
    return tuple(
        each.id
        for each in left
        if not (snapshot.holds(each.id) or each.id in snapshot.in_request)
        and (not each.ended or (each.ended is DeploymentEnd.RETIRED and each.ended_seq > since))
    )


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
