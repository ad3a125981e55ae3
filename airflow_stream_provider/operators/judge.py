"""Compare a standby's rehearsal with the holder's batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.lifecycle.errors import RehearsalRefused
from airflow_stream_provider.operators.base import StreamOperator

if TYPE_CHECKING:
    from airflow_stream_provider.lifecycle.heartbeat import QueryProgress
    from airflow_stream_provider.planning.snapshot import Snapshot
    from airflow_stream_provider.planning.steps import Step
    from airflow_stream_provider.planning.task_identity import TaskIdentity
    from airflow_stream_provider.planning.wait_outcome import WaitOutcome


class JudgeRehearsalOperator(StreamOperator):
    """Compare what a standby rehearsed with what the holder does, and refuse one that cannot keep up.

    Spark's own refusals end the standby before this. This refuses a query whose last rehearsed batch of live data took
    longer than the stream's `lag.max_seconds`: it would be too late from its first batch on.

    XCom: `queries`, by name the seconds and rows per second of both sides, and `notes` of the rehearsal.
    """

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        """Return Done with the comparison, or GiveUp; the same again after the deployment has taken over."""
        from airflow_stream_provider.planning.steps import Done, GiveUp

        standby = next(iter(reversed(snapshot.state.of_deployment(self.deployment))), None)
        if standby is None:
            return GiveUp(
                RehearsalRefused(
                    f"{self.deployment} has not been rehearsed.", next_step="Submit it first, in a new run."
                )
            )
        holder = snapshot.heartbeats.get(snapshot.state.holder or "")
        table = compare_speed(standby.rehearsal.get("queries", {}), holder.queries if holder else ())
        limit = self.stream.lag.max_seconds
        for name, row in table.items():
            self.log.info("%s: %s", name, row)
            took = row["rehearsed_seconds"]
            if limit is not None and took is not None and took > limit:
                return GiveUp(
                    RehearsalRefused(
                        f"The query {name} took {took:.1f} s for a batch of live data; the stream may be at most "
                        f"{limit:.0f} s behind Kafka. {snapshot.holder_sentence}",
                        next_step="Make it faster, give it more cores, or raise `lag.max_seconds`.",
                        query=name,
                    )
                )
        return Done({"deployment": self.deployment, "queries": table, "notes": standby.rehearsal.get("notes", [])})


def compare_speed(
    rehearsed: Mapping[str, Mapping[str, Any]], running: Sequence[QueryProgress]
) -> dict[str, dict[str, float | None]]:
    """Return seconds and rows per second of both sides by query's name; None for what is not known."""
    from airflow_stream_provider.lifecycle.heartbeat import QueryProgress

    holder = {query.name: query for query in running}
    unknown = QueryProgress("", rows_per_second=None)
    return {
        name: {
            "rehearsed_seconds": summary.get("last_batch_seconds"),
            "rehearsed_rows_per_second": summary.get("rows_per_second"),
            "holder_seconds": holder.get(name, unknown).batch_seconds,
            "holder_rows_per_second": holder.get(name, unknown).rows_per_second,
        }
        for name, summary in rehearsed.items()
    }
