"""Whether somebody has to act for a stream now, and what has to be known for that. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.state import DeploymentEnd
from airflow_stream_provider.planning.bring_up import ORPHANED_SECONDS
from airflow_stream_provider.planning.choice import coming_up
from airflow_stream_provider.planning.job import job_of_interest
from airflow_stream_provider.planning.reconcile import reconcile
from airflow_stream_provider.planning.retire import unneeded
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.signs_of_life import DriversGone, SignsOfLife
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, AskPerson, Done, GiveUp, Later, Skip, Step, Wait
from airflow_stream_provider.planning.waits import Needs


def needs(snapshot: Snapshot, families: Iterable[str] = ()) -> Needs:
    """Return what a decision needs beside log and heartbeats: the cluster's word on what comes up or is to be gone.

    :param families: of which nothing is to be left that is not needed.
    """
    state, wish = snapshot.state, snapshot.state.wish
    makes_room = (wish, state.candidate) if wish is not None and (wish.goal.rest or wish.alone) else (state.candidate,)
    since = min((each.seq for each in makes_room if each is not None), default=state.seq)
    gone = [d.id for d in state.deployments.values() if d.ended is DeploymentEnd.RETIRED and d.ended_seq > since]
    asked = dict.fromkeys((*(each.id for each in coming_up(state)), *gone, *unneeded(snapshot, families)))
    return Needs(drivers=tuple(name for name in asked if snapshot.submission(name)), job=job_of_interest(state))


# After so many seconds without a record the task of a wish counts as lost.
QUIET_SECONDS = ORPHANED_SECONDS
_NEEDS_NO_CLUSTER = (Kind.REQUESTED, Kind.ABORTED, Kind.RETIRED)


def is_due(scene: Scene, *, cluster_answers: bool) -> bool:
    """Return whether somebody has to act who has not: the watch starts a run that takes the next steps.

    Not while the task of a wish works on it. Such a run decides anew, so one too many does no harm.

    :param cluster_answers: whether the stream's cluster answered this look: without it a run would wait in vain.
    """
    step = reconcile(scene)
    if isinstance(step, Wait) and isinstance(step.condition, DriversGone):
        return cluster_answers and not _is_worked_on(scene)
    if isinstance(step, Wait):
        # A standby that may be dead has to be looked at more closely.
        return isinstance(step.condition, SignsOfLife) and scene.state.holder is None and not _is_worked_on(scene)
    if isinstance(step, GiveUp) and scene.snapshot.job is None and job_of_interest(scene.state):
        # A look does not ask the cluster for a job that is to be followed; only its word lets anybody go on.
        return cluster_answers and not _is_worked_on(scene)
    if isinstance(step, (Done, Skip, GiveUp, Later, AskPerson)) or _is_worked_on(scene):
        return False
    return cluster_answers or due_without_cluster(step)


def due_without_cluster(step: Step) -> bool:
    """Return whether a step is done at once, and needs no cluster: also beside a run that waits for one."""
    return isinstance(step, Append) and step.kind in _NEEDS_NO_CLUSTER


def _is_worked_on(scene: Scene) -> bool:
    state = scene.state
    newest = max((each.seq for each in (state.wish, state.candidate) if each is not None), default=0)
    # Either way: the clock of the machine that wrote the last record may be ahead.
    return newest > max(state.held_from, state.held_to) and abs(scene.snapshot.at - state.at) < QUIET_SECONDS
