"""Whether what holds is alive, and yet broken: it gets nothing done, or dies again and again. Pure."""

from __future__ import annotations

from airflow_stream_provider.lag.limits import LagLimits, Moments
from airflow_stream_provider.lag.report import QueryLag, Verdict
from airflow_stream_provider.lifecycle.heartbeat import QueryState
from airflow_stream_provider.lifecycle.texts import duration
from airflow_stream_provider.planning.snapshot import Snapshot

# Without a limit `commit_age`: so many times the time in which a query is to reach its batch boundary.
BOUNDARIES = 10
# A release that was brought back so often in the last hour does not stay up.
BROUGHT_BACK = 3
_FAILED = (QueryState.RETRYING.value, QueryState.LOST.value)
HOUR = 3600.0


def hanging(snapshot: Snapshot, limits: LagLimits) -> str:
    """Return why the holder hangs, as a sentence; empty when it does not, or when that is not known.

    It does when one of its queries has not committed for longer than the limit `commit_age`, while records as old wait,
    and it has held for as long. Without that limit: for ten times `boundary_seconds`, and longer than its last commits
    span. The time counts from when its own promise ends: its trigger, the delay of its sources, the pause between two
    runs. Without the lag it looks like one that has nothing to do.
    """
    state, report, patience = snapshot.state, snapshot.lag, _patience(snapshot, limits)
    if report is None or state.holder is None:
        return ""
    held = next((r for r in reversed(snapshot.acquisitions()) if r["incarnation"] == state.holder), None)
    # A driver is not to blame for the state in which it takes over. Without its record, that was long ago.
    if held is not None and held.at > snapshot.at - patience:
        return ""
    judged = limits.ceilings.commit_age is not None
    beat = snapshot.holder_heartbeat
    # Between two tries a query is at its boundary: the holder can be asked.
    failed = {query.name for query in (beat.queries if beat else ()) if query.health and query.health.state in _FAILED}
    queries = [query for query in report.queries if query.query not in failed]
    stuck = [query for query in queries if _stuck(query, report.at, patience) and (judged or _stopped(query))]
    if not stuck:
        return ""
    lasted = duration(min(query.commit_age or 0.0 for query in stuck))
    names = ", ".join(query.query for query in stuck)
    return f"{state.holder} hangs: {names} has committed nothing for {lasted}, though records as old wait for it."


def crash_loops(snapshot: Snapshot) -> str:
    """Return that the release which holds was started again BROUGHT_BACK times in an hour, as a sentence; else empty.

    A start before the present wish for it does not count, such as one before a roll-back.
    """
    state, held = snapshot.state, snapshot.state.holding_deployment
    if held is None:
        return ""
    since = state.wish.seq if state.wish is not None and state.wish.family == held.family else 0
    again = [d for d in state.family(held.family) if d.declared.get("again") and d.declared.seq > since]
    lately = [each for each in again if each.declared_at > snapshot.at - HOUR]
    if len(lately) < BROUGHT_BACK:
        return ""
    return f"{snapshot.holding} does not stay up: its release was brought back {len(lately)} times in the last hour."


def needs_to_tell(snapshot: Snapshot, limits: LagLimits) -> Moments:
    """Return what the lag of a snapshot must say so that `hanging` can tell."""
    return Moments(ages=frozenset({_patience(snapshot, limits)}))


def _patience(snapshot: Snapshot, limits: LagLimits) -> float:
    said = limits.ceilings.commit_age
    return BOUNDARIES * snapshot.policy(snapshot.holding).boundary_seconds if said is None else said


def _stuck(query: QueryLag, at: float, patience: float) -> bool:
    if query.commit_age is None or not query.older(patience):
        return False
    waits = query.quiet_until is not None and query.quiet_until > at - patience
    return query.commit_age > patience and not waits


def _stopped(query: QueryLag) -> bool:
    return Verdict.STOP in query.by_verdict
