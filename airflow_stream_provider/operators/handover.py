"""Change the holder: forward, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.planning.gaps import boundary, gaps
from airflow_stream_provider.planning.roll_back import roll_back
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Skip, Step
from airflow_stream_provider.planning.take_over import take_over
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import WaitOutcome


def with_gaps(snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
    """Add what the change of holder looked like: `boundary`, `ends` (last batch by query), `gap_seconds` by query."""
    request = done.get("request")
    acquired = next((record for record in snapshot.acquisitions() if request and record["request"] == request), None)
    if acquired is None:
        return dict(done)
    return {**done, **boundary(snapshot, acquired["request"]), "gap_seconds": gaps(snapshot, acquired)}


class HandOverOperator(StreamOperator):
    """Make a warm deployment the holder: by a hand-over at a batch boundary or, when nobody holds, by an appointment.

    The two drivers do it among themselves; this task asks and watches. A holder that is dead is fenced first: killed,
    and confirmed gone. Fails when the old holder went on or took back; the stream runs then, and the message says who
    holds.

    XCom: `deployment`, `version`, `previous` (deployment), `holder`, `epoch`, `request`, `boundary` (completed or
    interrupted), `ends` (the last batch by query), `gap_seconds` by query as far as it is known.
    """

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        """Return the next step."""
        return take_over(snapshot, identity, self.deployment, outcome, self.reason or identity.by)

    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        """Add the gaps."""
        return with_gaps(snapshot, done)


class RollBackOperator(StreamOperator):
    """Give the stream back to the deployment that held it before `deployment` did.

    While the old one is warm this is a hand-over; else its release is submitted anew and rehearsed. A holder that does
    not let go is fenced. Skipped when `deployment` does not hold, or when there is no release to go back to.

    XCom: as of HandOverOperator.
    """

    WAIT_SECONDS = 1500.0

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        """Return the next step."""
        if self.deployment not in snapshot.state.deployments:
            return Skip("Nothing to roll back: no release was submitted.")
        return roll_back(snapshot, identity, self.deployment, outcome, self.reason or identity.by)

    def result(self, snapshot: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        """Add the gaps."""
        return with_gaps(snapshot, done)
