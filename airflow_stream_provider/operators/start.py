"""Start a stream that nobody holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.lifecycle.errors import HandOverFailed
from airflow_stream_provider.operators.handover import with_gaps
from airflow_stream_provider.operators.standby import ReleaseOperator
from airflow_stream_provider.planning.plan import holder_result, take_over
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Done, GiveUp, Step
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import WaitOutcome


class StartStreamOperator(ReleaseOperator):
    """Start a stream that nobody holds: submit a release, wait until it is up, appoint it.

    Nothing is done when the wanted version runs already; fails when another one does. XCom: as of HandOverOperator.
    """

    WAIT_SECONDS = 1500.0

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        """Return the next step."""
        mine, held = self.subject(identity), snapshot.state.holding_deployment
        asked = any(request.by == identity.by for request in snapshot.state.requests.values())
        if held is not None and held.id != mine and not asked:
            if held.release.version == self.wanted.version:
                return Done(holder_result(snapshot, held.id))
            return GiveUp(
                HandOverFailed(
                    f"{snapshot.holder_sentence}",
                    next_step="Upgrade it instead of starting it, or stop it first.",
                    holder=held.id,
                )
            )
        if not asked and not snapshot.candidate(mine):
            return self.bring_up(snapshot, identity, outcome)
        return take_over(snapshot, identity, mine, outcome, self.reason or identity.by)

    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        """Add the gaps."""
        return with_gaps(snapshot, done)
