"""Start a stream that has no holder."""

from __future__ import annotations

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.lifecycle.state import RequestStage
from airflow_stream_provider.planning.begun import FOLLOW_FIRST, job_first
from airflow_stream_provider.planning.own_tries import end_lost, own_tries
from airflow_stream_provider.planning.signs_of_life import SignsOfLife
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stand_by import bring_up
from airflow_stream_provider.planning.steps import Done, GiveUp, Step, Wait
from airflow_stream_provider.planning.take_over import take_over
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import WaitOutcome


def start(snapshot: Snapshot, identity: TaskIdentity, version: str, outcome: WaitOutcome | None, reason: str) -> Step:
    """Bring up a deployment of the release that the task asks for and appoint it.

    One whose driver is lost before it holds is followed by another one (`own_tries`): nothing else would bring up a
    stream that was stopped, or never ran. Done when this version runs already and its driver is alive; gives up when
    another one holds, when the driver of this one is dead, or when what this task started has held and was ended since.
    """
    state = snapshot.state
    own = own_tries(state, identity, snapshot.stream, version)
    deployment, held = own[-1], state.holding_deployment
    asked = any(r.by == identity.by and r.stage is not RequestStage.ABORTED for r in state.requests.values())
    if held is not None and held.id != deployment and not asked:
        if held.release.version == version:
            return _if_alive(snapshot, outcome)
        return GiveUp(
            HandOverFailed(
                snapshot.holder_sentence,
                next_step="Upgrade it instead of starting it, or stop it first.",
                holder=held.id,
            )
        )
    job = "" if asked else job_first(state)
    if job:
        return GiveUp(HandOverFailed(job, next_step=FOLLOW_FIRST, deployment=deployment))
    if not asked and not snapshot.candidate(deployment):
        return end_lost(snapshot, own, outcome) or bring_up(snapshot, deployment, outcome, reason)
    step = take_over(snapshot, identity, deployment, outcome, reason)
    if isinstance(step, Done) and not snapshot.holding:
        return GiveUp(
            HandOverFailed(
                f"{deployment} was started by this task, and has been ended since. {snapshot.holder_sentence}",
                next_step="Start a new run: clearing this task starts nothing again that has held.",
                deployment=deployment,
            )
        )
    return step


def _if_alive(snapshot: Snapshot, outcome: WaitOutcome | None) -> Step:
    """A holder by the log counts only once its driver gave a sign of life."""
    holder, lease = snapshot.state.holder or "", snapshot.policy(snapshot.holding).lease_seconds
    known = SignsOfLife.found(outcome, snapshot)
    if holder not in known:
        return Wait(SignsOfLife({holder: snapshot.counter(holder)}, lease))
    if known[holder]:
        return Done(snapshot.holder_result(snapshot.holding))
    return GiveUp(
        HandOverFailed(
            f"{snapshot.holder_sentence} It gives no sign of life.",
            next_step="The watch replaces it. Without a watch: fence it, then start the stream again.",
            holder=snapshot.holding,
        )
    )
