"""Adopt a job that runs without a stream: its follower stands by, the job ends, the follower takes over.

Nothing that cannot be undone is done before the follower has rehearsed on the job's own checkpoints. It is appointed
only once the job is confirmed gone, and answers only once the logs of the checkpoints stand still
(`runtime.adopted_logs`): so it runs no batch while the job may.
"""

from __future__ import annotations

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.errors import HandOverFailed, StreamError
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.lifecycle.state import Incarnation
from airflow_stream_provider.lifecycle.wish import Wish
from airflow_stream_provider.planning.bring_up import bring_up
from airflow_stream_provider.planning.fence import fence
from airflow_stream_provider.planning.job import (
    FOLLOW_FIRST,
    doubted,
    job_first,
    unknown_whose,
    witness,
)
from airflow_stream_provider.planning.request import ask
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.signs_of_life import JobGone, SignsOfLife
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Append, AskPerson, EndJob, GiveUp, Step, Wait
from airflow_stream_provider.planning.waits import Ended

# The time for the task that ends a job, or asks a person to. After that the watch tells that the stream is down.
ENDING_SECONDS = 60.0
ASKING_SECONDS = 600.0
NOT_THAT_ONE = (
    "Adopt that one, by its id; or see that no job runs that writes these checkpoints, and adopt by your word "
    "(`--confirmed-by`) instead of an id."
)
END_IT_YOURSELF = "Leave the job out, and end it yourself when you are asked: nothing of it was touched."


def follow_job(scene: Scene, wish: Wish) -> Step | None:
    """Return the next step of an adoption: bring up a deployment beside the job, have the job ended, appoint it.

    None: the job is gone, and none stands by to follow it; the release comes up as any other then.
    """
    state, job = scene.state, scene.state.job
    standby = max(
        (each for d in state.family(wish.family) if (each := scene.snapshot.candidate(d.id)) is not None),
        key=lambda each: each.announced,
        default=None,
    )
    gone = witness(scene.snapshot, wish)
    if standby is None:
        return None if gone else bring_up(scene, wish)
    if gone:
        return _unless_lost(scene, standby) or ask(scene, wish, standby.id)
    id = wish.job or (job.id if job is not None else "")
    if not id:
        return _unless_lost(scene, standby) or _ask_a_person(scene, standby)
    return _end(scene, standby, id)


def hindrance(scene: Scene, wish: Wish) -> HandOverFailed | None:
    """Return why only an adoption can go on, while a job that was to be ended may run; None: others can, too."""
    state = scene.state
    if state.job is not None and state.job.doubt:
        return doubted(state)
    why = job_first(state)
    return HandOverFailed(why, next_step=FOLLOW_FIRST) if why and not witness(scene.snapshot, wish) else None


def says(snapshot: Snapshot, deployment: str) -> str:
    """Return what the follower says of the job, in one line: its batches, and when its logs were written last."""
    standby = snapshot.candidate(deployment)
    beat = snapshot.heartbeats.get(standby.id) if standby else None
    return " ".join(beat.message.split()) if beat else ""


def _ask_a_person(scene: Scene, standby: Incarnation) -> Step:
    """A person is to end the job. That is said first: should the task that asks die, the watch knows."""
    said = _ending(scene, standby.deployment, "", ASKING_SECONDS)
    return said or AskPerson(standby.deployment, says(scene.snapshot, standby.deployment))


def _ending(scene: Scene, deployment: str, job: str, seconds: float) -> Append | None:
    """Return the intent, which comes before the end: should this process die after that, the watch knows."""
    said = scene.state.job
    if said is not None and (said.deployment, said.id) == (deployment, job):
        return None
    wish = scene.state.wish
    reason = (wish.reason or wish.by) if wish is not None else scene.me.by
    fields = {"deployment": deployment, "job": job, "expires": scene.snapshot.at + seconds, "reason": reason}
    return Append(Kind.ENDING, fields)


def _unless_lost(scene: Scene, standby: Incarnation) -> Step | None:
    """Return what comes before the job is ended: it is known that the driver lives. None: it does.

    No task looks after a standby of a stream without a holder: it may be dead for hours.
    """
    if scene.outcome is not None and scene.outcome.about(Ended.REACHED, standby.deployment):
        return None  # it has come up just now
    alive = scene.alive.get(standby.id)
    if alive is None:
        snapshot = scene.snapshot
        return Wait(SignsOfLife({standby.id: snapshot.counter(standby.id)}, snapshot.lease([standby.id])))
    if alive:
        return None
    return fence(scene.snapshot, standby.id, scene.outcome, "It was to follow a job, and gives no sign of life.")


def _end(scene: Scene, standby: Incarnation, job: str) -> Step:
    found, known = scene.snapshot.job, scene.state.job
    if found is None:
        why: StreamError = HandOverFailed(
            f"The cluster of {scene.snapshot.stream} cannot end {job}.",
            next_step="Leave the job out, and end it yourself.",
            job=job,
        )
        return GiveUp(why)
    if known is not None and not known.gone and known.id not in ("", job):
        other = f"{known.id} was to be ended for {known.deployment}, and nobody has confirmed that it is gone."
        return GiveUp(HandOverFailed(other, next_step=NOT_THAT_ONE, job=job))
    if found.managed:
        of_a_stream = f"{found.about or job} is run by a stream of this provider."
        return GiveUp(HandOverFailed(of_a_stream, next_step="Stop that stream, and see docs/control.md.", job=job))
    if found.managed is None:
        return GiveUp(HandOverFailed(unknown_whose(found), next_step=END_IT_YOURSELF, job=job))
    outcome = scene.outcome
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
    first = None if again else _unless_lost(scene, standby)
    first = first or _ending(scene, standby.deployment, job, ENDING_SECONDS)
    if first is not None:
        return first
    return Wait(JobGone(job)) if ended and not found.remains.alive else EndJob(job, JobGone(job))
