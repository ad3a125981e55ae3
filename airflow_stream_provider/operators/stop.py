"""End deployments, or the whole stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_stream_provider.hooks.author import Author
from airflow_stream_provider.hooks.commits import boundary
from airflow_stream_provider.hooks.goals import Asks
from airflow_stream_provider.hooks.outcome import Outcome
from airflow_stream_provider.hooks.plan import leftovers, retire, retire_all, stop, stoppable
from airflow_stream_provider.hooks.snapshot import Snapshot
from airflow_stream_provider.hooks.steps import Done, Step
from airflow_stream_provider.model.record import Kind
from airflow_stream_provider.operators.base import StreamOperator


class RetireOperator(StreamOperator):
    """End a deployment that does not hold the stream: its driver exits, and is killed if it does not.

    Skipped when it holds the stream, or is not known. XCom: `retired`, `version`.
    """

    def plan(self, view: Snapshot, author: Author, outcome: Outcome | None) -> Step:
        """Return the next step."""
        return retire(view, author, self.deployment, outcome, self.reason or author.by)

    def asks(self, view: Snapshot, author: Author) -> Asks:
        """Ask whether its driver is gone."""
        return Asks(drivers=(self.deployment,) if self.deployment in view.state.deployments else ())


class MakeRoomOperator(StreamOperator):
    """Retire what earlier runs left warm, so that the cluster has room for a new standby. The holder is not touched."""

    def plan(self, view: Snapshot, author: Author, outcome: Outcome | None) -> Step:
        """Return the next step."""
        wanted = leftovers(view, author)
        step = retire_all(view, author, wanted, outcome, self.reason or f"superseded by {author.run}")
        return step or Done({"stream": view.stream, "retired": list(wanted)})

    def asks(self, view: Snapshot, author: Author) -> Asks:
        """Ask which of their drivers are gone."""
        return Asks(drivers=leftovers(view, author))


class StopStreamOperator(StreamOperator):
    """Stop the stream at a batch boundary, and end every driver of it. Done when all of them are confirmed gone.

    XCom: `stopped`, `holder` (empty), `boundary` (completed or interrupted), `queries` (their last batches) and
    `offsets` by query: topic, partition, offset of the first record that is not committed.
    """

    def plan(self, view: Snapshot, author: Author, outcome: Outcome | None) -> Step:
        """Return the next step."""
        return stop(view, author, outcome, self.reason or author.by)

    def asks(self, view: Snapshot, author: Author) -> Asks:
        """Ask which drivers are gone, once nobody holds."""
        return Asks(drivers=() if view.holder else stoppable(view, author))

    def result(self, view: Snapshot, done: Mapping[str, Any]) -> dict[str, Any]:
        """Add where the queries stand."""
        if not done["stopped"]:
            return dict(done)
        released = [r for r in view.records if r.kind == Kind.RELEASED]
        ends = boundary(view, released[-1]["id"]) if released and released[-1].get("id") else {}
        offsets = self.hook.committed(view.state, view.heartbeats)
        # Through JSON, since Spark's partitions are numbers here and the keys of XCom are text.
        return {**done, **ends, "offsets": json.loads(json.dumps(offsets))}
