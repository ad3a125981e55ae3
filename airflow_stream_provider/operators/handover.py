"""Change the holder: forward, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.hooks.author import Author
from airflow_stream_provider.hooks.commits import boundary, gaps
from airflow_stream_provider.hooks.outcome import Outcome
from airflow_stream_provider.hooks.plan import roll_back, take_over
from airflow_stream_provider.hooks.snapshot import Snapshot
from airflow_stream_provider.hooks.steps import Skip, Step
from airflow_stream_provider.operators.base import StreamOperator


def with_gaps(view: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
    """Add what the change of holder looked like: `boundary`, `queries` (last batches), `gap_seconds` by query."""
    request = done.get("request")
    acquired = next((record for record in view.acquisitions() if request and record["id"] == request), None)
    if acquired is None:
        return dict(done)
    return {**done, **boundary(view, acquired["id"]), "gap_seconds": gaps(view, acquired)}


class HandOverOperator(StreamOperator):
    """Make a warm deployment the holder: by a hand-over at a batch boundary or, when nobody holds, by an appointment.

    The two drivers do it among themselves; this task asks and watches. A holder that is dead is fenced first: killed,
    and confirmed gone. Fails when the old holder went on or took back; the stream runs then, and the message says who
    holds.

    XCom: `deployment`, `version`, `previous` (deployment), `holder`, `epoch`, `request`, `boundary` (completed or
    interrupted), `queries` (their last batches), `gap_seconds` by query as far as it is known.
    """

    def plan(self, view: Snapshot, author: Author, outcome: Outcome | None) -> Step:
        """Return the next step."""
        return take_over(view, author, self.deployment, outcome, self.reason or author.by)

    def result(self, view: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        """Add the gaps."""
        return with_gaps(view, done)


class RollBackOperator(StreamOperator):
    """Give the stream back to the deployment that held it before `deployment` did.

    While the old one is warm this is a hand-over; else its release is submitted anew and rehearsed. A holder that does
    not let go is fenced. Skipped when `deployment` does not hold, or when there is no release to go back to.

    XCom: as of HandOverOperator.
    """

    WAIT_SECONDS = 1500.0

    def plan(self, view: Snapshot, author: Author, outcome: Outcome | None) -> Step:
        """Return the next step."""
        if self.deployment not in view.state.deployments:
            return Skip("Nothing to roll back: no release was submitted.")
        return roll_back(view, author, self.deployment, outcome, self.reason or author.by)

    def result(self, view: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        """Add the gaps."""
        return with_gaps(view, done)
