"""Start a stream that nobody holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.hooks.author import Author
from airflow_stream_provider.hooks.outcome import Outcome
from airflow_stream_provider.hooks.plan import holder_result, take_over
from airflow_stream_provider.hooks.snapshot import Snapshot
from airflow_stream_provider.hooks.steps import Done, GiveUp, Step
from airflow_stream_provider.model.errors import HandOverFailed
from airflow_stream_provider.operators.handover import with_gaps
from airflow_stream_provider.operators.standby import ReleaseOperator


class StartStreamOperator(ReleaseOperator):
    """Start a stream that nobody holds: submit a release, wait until it is up, appoint it.

    Nothing is done when the wanted version runs already; fails when another one does. XCom: as of HandOverOperator.
    """

    WAIT_SECONDS = 1500.0

    def plan(self, view: Snapshot, author: Author, outcome: Outcome | None) -> Step:
        """Return the next step."""
        mine, held = self.subject(author), view.state.holding_deployment
        asked = any(request.by == author.by for request in view.state.requests.values())
        if held is not None and held.id != mine and not asked:
            if held.release["version"] == self.wanted.version:
                return Done(holder_result(view, held.id))
            return GiveUp(
                HandOverFailed(
                    f"{view.holder_sentence}",
                    todo="Upgrade it instead of starting it, or stop it first.",
                    holder=held.id,
                )
            )
        if not asked and not view.candidate(mine):
            return self.bring_up(view, author, outcome)
        return take_over(view, author, mine, outcome, self.reason or author.by)

    def result(self, view: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        """Add the gaps."""
        return with_gaps(view, done)
