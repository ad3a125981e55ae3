"""Give the stream back to the release that held it before."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import RequestStage
from airflow_stream_provider.planning.requests import follow
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stand_by import declare_again, stand_by
from airflow_stream_provider.planning.steps import GiveUp, Skip, Step
from airflow_stream_provider.planning.take_over import take_over
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import WaitOutcome


def roll_back(
    snapshot: Snapshot,
    identity: TaskIdentity,
    bad: str,
    outcome: WaitOutcome | None,
    reason: str,
    *,
    fault_found: bool = True,
) -> Step:
    """Give the stream back to the deployment that held it before `bad`.

    While that is warm, by a hand-over; else its release is declared again and brought up. Skip when `bad` never held,
    does not hold any more, or no release ran before it; but a stream that this run has stopped is started again.

    :param bad: empty when the run declared nothing.
    :param fault_found: False: nothing was found wrong with `bad`, so it stays if it holds, and this gives up.
    """
    state = snapshot.state
    done = [r for r in state.requests.values() if r.by == identity.by and r.stage is RequestStage.DONE]
    if done and done[-1].to:
        return take_over(snapshot, identity, deployment_of(done[-1].to), outcome, reason, escalate=True)
    request = state.open_request
    if request is not None and request.to is None and request.by.startswith(identity.run):
        return follow(snapshot, request, outcome)  # the run's own stop: the holder may still carry it out
    previous = snapshot.previous(bad)
    again = identity.deployment(snapshot.stream, state.deployments[previous].release.version) if previous else ""
    held = any(deployment_of(record["incarnation"]) == bad for record in snapshot.acquisitions())
    asked = any(request.by.startswith(identity.run) for request in state.requests.values())
    if (snapshot.holding and not snapshot.holds(bad)) or not (held or asked):
        return Skip(f"Nothing to roll back: {snapshot.holder_sentence}")
    if not previous:
        return Skip(f"No release ran before {bad}, so there is none to go back to. {snapshot.holder_sentence}")
    if snapshot.holds(bad) and not fault_found:
        return GiveUp(_no_fault(snapshot, bad))
    warm = next((d for d in (previous, again) if snapshot.candidate(d)), "")
    if warm:
        return take_over(snapshot, identity, warm, outcome, reason, escalate=True)
    if again in state.deployments:
        return stand_by(snapshot, again, outcome)
    return declare_again(snapshot, again, previous, reason)


def _no_fault(snapshot: Snapshot, deployment: str) -> HandOverFailed:
    return HandOverFailed(
        f"No fault of {deployment} was found; a task of this run failed for another reason, and says which. "
        f"It stays: {snapshot.holder_sentence}",
        next_step="Clear the task that failed: the soak then judges the release, and this task rolls back if it is no "
        "good. Or roll back now, with a RollBackOperator of your own.",
        deployment=deployment,
    )
