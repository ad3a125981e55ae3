"""Give the stream back to the release that held it before."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import RequestStage
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stand_by import declare_again, stand_by
from airflow_stream_provider.planning.steps import Skip, Step
from airflow_stream_provider.planning.take_over import take_over
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import WaitOutcome


def roll_back(snapshot: Snapshot, identity: TaskIdentity, bad: str, outcome: WaitOutcome | None, reason: str) -> Step:
    """Give the stream back to the deployment that held it before `bad`.

    While that is warm, by a hand-over; else its release is declared again and brought up. Skip when `bad` never held,
    does not hold any more, or no release ran before it.
    """
    state = snapshot.state
    done = [r for r in state.requests.values() if r.by == identity.by and r.stage is RequestStage.DONE]
    if done and done[-1].to:
        return take_over(snapshot, identity, deployment_of(done[-1].to), outcome, reason, escalate=True)
    previous = snapshot.previous(bad)
    again = identity.deployment(snapshot.stream, state.deployments[previous].release.version) if previous else ""
    held = any(deployment_of(record["incarnation"]) == bad for record in snapshot.acquisitions())
    asked = any(request.by.startswith(identity.run) for request in state.requests.values())
    if (snapshot.holding and not snapshot.holds(bad)) or not (held or asked):
        return Skip(f"Nothing to roll back: {snapshot.holder_sentence}")
    if not previous:
        return Skip(f"No release ran before {bad}, so there is none to go back to. {snapshot.holder_sentence}")
    warm = next((d for d in (previous, again) if snapshot.candidate(d)), "")
    if warm:
        return take_over(snapshot, identity, warm, outcome, reason, escalate=True)
    if again in state.deployments:
        return stand_by(snapshot, again, outcome)
    return declare_again(snapshot, again, previous, reason)
