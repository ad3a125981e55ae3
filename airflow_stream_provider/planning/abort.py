"""Call off a release that comes up or stands by, before it holds the stream."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.planning.retire import retire
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import GiveUp, Step
from airflow_stream_provider.planning.wait_outcome import WaitOutcome


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
