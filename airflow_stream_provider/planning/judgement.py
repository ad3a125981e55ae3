"""Judge a standby's rehearsal beside what the holder does: may it take over without anybody being asked? Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_stream_provider.lifecycle.errors import RehearsalRefused
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import Incarnation
from airflow_stream_provider.planning.comparison import (
    Compared,
    Comparison,
    QueryComparison,
    compare,
    rehearsed,
    running,
)
from airflow_stream_provider.planning.hanging import crash_loops
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import judge_run


@dataclass(frozen=True)
class Judgement:
    """What is said of a rehearsal.

    :param refused: why the release must not take over; None: it may, if a person says so where there are doubts.
    """

    comparison: Comparison
    refused: RehearsalRefused | None = None

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why it has not passed, a sentence each; empty when it has."""
        return self.comparison.reasons if self.refused is None else (self.refused.message,)


def judge_rehearsal(snapshot: Snapshot, standby: Incarnation, max_seconds: float | None) -> Judgement:
    """Judge the rehearsal of a standby by the holder's batches as they are now.

    :param max_seconds: how far the stream may be behind Kafka (`lag.max_seconds`); None: that is not judged.
    """
    # Of itself, once it holds, nothing is said.
    mine = snapshot.holds(deployment_of(standby.id))
    holder = None if mine else snapshot.holder_heartbeat
    found = compare(rehearsed(standby.rehearsal.get("queries", {})), running(holder) if holder else None)
    if max_seconds is not None:
        found = Comparison({name: _in_time(name, each, max_seconds) for name, each in found.queries.items()})
    if found.verdict is not Compared.FAIL:
        return Judgement(found)
    return Judgement(
        found,
        RehearsalRefused(
            f"{' '.join(found.reasons)} {snapshot.holder_sentence}",
            next_step="Make it faster, give it more cores, or raise `lag.max_seconds` if that is the limit. If only "
            "the machine was busy, trigger the upgrade again.",
        ),
    )


def broken(snapshot: Snapshot, *, lost: bool) -> str:
    """Return why any release is better than what runs, as a sentence; empty when that is not known.

    That a holder which is alive hangs, `planning.hanging.hanging` says.

    :param lost: whether the holder gives no sign of life.
    """
    holder = snapshot.state.holder
    if holder is None or snapshot.state.must_fence:
        return judge_run(snapshot, None).reason
    return f"{holder} gives no sign of life." if lost else crash_loops(snapshot)


def _in_time(name: str, found: QueryComparison, limit: float) -> QueryComparison:
    """Fail a query of which no batch was as fast as the stream may be late; in doubt where each was a query's first."""
    fastest = min((seconds for *_, seconds in found.new.batches), default=0.0)
    if fastest <= limit or found.verdict is Compared.FAIL:
        return found
    sentence = (
        f"The query {name} took {fastest:.1f} s for a batch of live data; the stream may be at most {limit:.0f} s "
        "behind Kafka"
    )
    if not found.new.cold:
        return replace(found, verdict=Compared.FAIL, sentence=f"{sentence}.")
    doubt = f"{sentence}. But only the first batch of a query was seen, which is always slow."
    return replace(found, verdict=Compared.INCONCLUSIVE, sentence=doubt)
