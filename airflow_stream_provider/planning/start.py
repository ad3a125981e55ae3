"""Start a stream that nobody holds."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stand_by import bring_up
from airflow_stream_provider.planning.steps import Done, GiveUp, Step
from airflow_stream_provider.planning.take_over import take_over
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import WaitOutcome


def start(
    snapshot: Snapshot,
    identity: TaskIdentity,
    deployment: str,
    version: str,
    outcome: WaitOutcome | None,
    reason: str,
) -> Step:
    """Bring up a deployment of the release that the task asks for and appoint it.

    Done at once when this version runs already; gives up when another one does.
    """
    held = snapshot.state.holding_deployment
    asked = any(request.by == identity.by for request in snapshot.state.requests.values())
    if held is not None and held.id != deployment and not asked:
        if held.release.version == version:
            return Done(snapshot.holder_result(held.id))
        return GiveUp(
            HandOverFailed(
                snapshot.holder_sentence,
                next_step="Upgrade it instead of starting it, or stop it first.",
                holder=held.id,
            )
        )
    if not asked and not snapshot.candidate(deployment):
        return bring_up(snapshot, deployment, outcome, reason)
    return take_over(snapshot, identity, deployment, outcome, reason)
