"""Judge a standby's rehearsal beside what the holder does: may it take over without anybody being asked? Pure."""

from __future__ import annotations

from dataclasses import replace

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


def judge_rehearsal(snapshot: Snapshot, standby: Incarnation, max_seconds: float | None) -> Comparison:
    """Judge the rehearsal of a standby by the holder's batches as they are now; whatever is not a pass is in doubt.

    :param max_seconds: how far the stream may be behind Kafka (`lag.max_seconds`); None: that is not judged.
    """
    # Once it holds, it is not compared with itself.
    mine = snapshot.holds(deployment_of(standby.id))
    holder = None if mine else snapshot.holder_heartbeat
    found = compare(rehearsed(standby.rehearsal.get("queries", {})), running(holder) if holder else None)
    if max_seconds is None:
        return found
    return Comparison({name: _in_time(name, each, max_seconds) for name, each in found.queries.items()})


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
    """Doubt a query without a batch as fast as the stream may be late."""
    fastest = min((seconds for *_, seconds in found.new.batches), default=0.0)
    if fastest <= limit or found.verdict is not Compared.PASS:
        return found
    sentence = (
        f"The query {name} took {fastest:.1f} s for a batch of live data; the stream may be at most {limit:.0f} s "
        "behind Kafka. "
    )
    why = (
        "Only the first batch of a query was seen, which is always slow."
        if found.new.cold
        else "It is too slow, or its machine was busy."
    )
    return replace(found, verdict=Compared.INCONCLUSIVE, sentence=sentence + why)
