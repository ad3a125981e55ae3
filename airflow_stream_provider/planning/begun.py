"""An operation that has begun by ending a driver or a job: until when it sees to the rest, and what hinders others.

After that the watch tells people, and goes on with it where that is safe: no stream rests because a process died.
"""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.clusters import UnmanagedView
from airflow_stream_provider.lifecycle.rules import job_may_write
from airflow_stream_provider.lifecycle.state import Deployment, StreamState

# The time between two records that a run has which stops a stream to start it again.
RESTART_SECONDS = 120.0
# A release that was declared since has so long to come up and be appointed by its own run, before the watch starts
# another: as long as such a task waits.
BY_ITSELF_SECONDS = 1500.0
# After so long people are told that it has not come up yet.
TELL_SECONDS = 300.0
# A declared deployment that was not submitted for so long has lost the task that declared it.
ADOPT_SECONDS = 60.0
FOLLOW_FIRST = (
    "Adopt that job (`airflow streams adopt`), by its id or by your word that it is gone. If nothing is to follow it: "
    "see that it is gone, and stop the stream (`airflow streams stop`), which ends its follower, too; then try again."
)


def seen_to(state: StreamState, now: float) -> bool:
    """Return whether people are not told yet that the stream has no holder: a run or command that has begun goes on."""
    if state.job is not None:
        return not state.job.doubt and now < state.job.expires
    return _is_fresh(state, now) or _comes_by_itself(state, now, TELL_SECONDS)


def left_to_its_run(state: StreamState, now: float) -> bool:
    """Return whether no other driver is started yet: the stream was stopped for a start, which is under way."""
    return _is_fresh(state, now) or _comes_by_itself(state, now, BY_ITSELF_SECONDS)


def hindrance(state: StreamState, *, gone: bool = False) -> str:
    """Return why only a person can go on with an adoption, as sentences; empty where others can, too.

    :param gone: whether the cluster confirms now that the job is gone.
    """
    job = state.job
    if job is None:
        return ""
    if job.doubt:
        return (
            f"{job.deployment} was to follow {job.id or 'a job'}, which is gone, and did not: "
            f"{job.doubt.rstrip('.')}. As a rule somebody else writes the checkpoint: end that, then adopt it, or "
            "start the stream if nobody does."
        )
    if job.gone or gone:
        return ""
    if job.id:
        return (
            f"{job.id} was to be ended, for {job.deployment} to follow it, and nobody has confirmed that it is gone. "
            "Adopt it again, by its id or by your word that it is gone (`--confirmed-by`); if it is to run on, stop "
            "the stream."
        )
    return (
        f"A person was asked to end the job that {job.deployment} is to follow, and nobody has said that it is gone. "
        "Adopt it by your word (`--confirmed-by`); if it is to run on, stop the stream."
    )


def confirmed(found: UnmanagedView) -> dict[str, Any]:
    """Return the evidence of a job that the cluster confirms to be gone."""
    return {"job": found.id, "state": found.state.value}


def follows_a_job(deployment: str) -> str:
    """Return why no other driver is brought up, or appointed, beside a job that a deployment is to follow."""
    return f"{deployment} is to follow a job that may write its checkpoints still."


def job_first(state: StreamState) -> str:
    """Return why no driver is brought up or appointed now but by an adoption; empty: one may be."""
    name = state.follower or (state.job.deployment if state.job is not None else "")
    return follows_a_job(name) if job_may_write(state) else ""


def orphaned(deployment: Deployment, now: float) -> bool:
    """Return whether a declared deployment has lost the task that was to submit it."""
    # Either way: the clock of the machine that declared it may be ahead.
    return not deployment.submission and abs(now - deployment.declared_at) > ADOPT_SECONDS


def _is_fresh(state: StreamState, now: float) -> bool:
    return bool(state.until) and now < state.until


def _comes_by_itself(state: StreamState, now: float, seconds: float) -> bool:
    # Either way: the clock of the machine that declared it may be ahead.
    return any(abs(now - each.declared_at) < seconds for each in _since(state) if not _is_left(state, each, now))


def _is_left(state: StreamState, deployment: Deployment, now: float) -> bool:
    """Whether a deployment is orphaned and no driver of it has announced itself: it does not come up by itself."""
    return orphaned(deployment, now) and not state.of_deployment(deployment.id)


def _since(state: StreamState) -> list[Deployment]:
    """Return what was declared to run the stream since it was stopped for a start, and may come to hold yet."""
    if not state.until:
        return []
    live = (each for each in state.deployments.values() if not each.ended and not each.declared.get("again"))
    return [each for each in live if each.declared.seq > state.held_to and not state.has_held(each.id)]
