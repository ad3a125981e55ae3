"""A job without a stream that is to be followed: what the log says of it, and what hinders others meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.clusters import UnmanagedView
from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.rules import is_adopting, job_may_write
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.lifecycle.wish import Wish
from airflow_stream_provider.planning.snapshot import Snapshot

FOLLOW_FIRST = (
    "Adopt that job (`airflow streams adopt`), by its id or by your word that it is gone. If nothing is to follow it: "
    "see that it is gone, and stop the stream (`airflow streams stop`), which ends its follower, too; then try again."
)


def job_of_interest(state: StreamState) -> str:
    """Return the job that the cluster is asked about: it is to be ended, and may run still. Empty: none."""
    job, wished = state.job, state.wish.job if state.wish is not None and state.holder is None else ""
    if job is None:
        return wished
    return job.id or wished if not job.gone and not job.doubt else wished if wished != job.id else ""


def follows_job(state: StreamState, wish: Wish) -> bool:
    """Return whether a job without a stream is to be followed, and is not confirmed gone."""
    origin = state.wishes.get(wish.family)
    adopts = origin is not None and origin.adopts
    gone = state.job is not None and bool(state.job.gone) and wish.job in ("", state.job.id)
    return adopts and not gone and not state.has_run(wish.family) and not has_run_since(state, wish)


def has_run_since(state: StreamState, wish: Wish) -> bool:
    """Return whether the stream has run since a wish that it follows a job: its checkpoints are the stream's now."""
    return state.holder is not None or (state.job is None and wish.seq < state.held_to)


def witness(snapshot: Snapshot, wish: Wish) -> Mapping[str, Any]:
    """Return the evidence that the job is gone which is to be followed: a person's word, or the cluster's of this look
    or of an earlier one. Empty: there is none, or no job is to be followed.
    """
    state, found = snapshot.state, snapshot.job
    if state.job is not None and state.job.gone and wish.job in ("", state.job.id):
        return state.job.gone
    if not job_may_write(state):
        return {}
    if wish.confirmed_by:
        return {"person": wish.confirmed_by}
    gone = found is not None and found.gone and found.id == job_of_interest(state)
    return {"job": found.id, "state": found.state.value} if gone and found is not None else {}


def job_first(state: StreamState) -> str:
    """Return why no driver is brought up or appointed now but by an adoption; empty: one may be."""
    name = state.follower or (state.job.deployment if state.job is not None else "")
    return f"{name} is to follow a job that may write its checkpoints still." if job_may_write(state) else ""


def waits_for_person(state: StreamState) -> str:
    """Return why only a person can go on with an adoption, as sentences; empty where others can, too."""
    job = state.job
    if job is None and is_adopting(state) and not state.follower:
        return "No driver comes up or stands by to follow the job without a stream: adopt it again, or stop the stream."
    if job is None or (job.gone and not job.doubt):
        return ""
    if job.doubt:
        return str(doubted(state))
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


def doubted(state: StreamState) -> HandOverFailed:
    """Return why a follower did not take over though the job is gone."""
    job = state.job
    assert job is not None
    return HandOverFailed(
        f"{job.deployment} was to follow {job.id or 'a job'}, which is gone, and did not: {job.doubt.rstrip('.')}.",
        next_step="As a rule somebody else writes the checkpoint: end that, then adopt it, or start the stream if "
        "nobody does.",
        deployment=job.deployment,
    )


def unknown_whose(found: UnmanagedView) -> str:
    """Return that the cluster does not show whose a job is: it is not ended then."""
    about = found.about or found.id
    return f"Nothing shows that no stream of this provider runs {about}: its log does not begin with its command."
