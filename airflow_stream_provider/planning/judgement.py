"""Judge a standby's rehearsal beside what the holder does: may it take over without anybody being asked? Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import Incarnation, StreamPhase
from airflow_stream_provider.planning.comparison import (
    Compared,
    Comparison,
    QueryComparison,
    compare,
    rehearsed,
    running,
)
from airflow_stream_provider.planning.hanging import crash_loops, hanging, needs_to_tell
from airflow_stream_provider.planning.signs_of_life import lost
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import judge_run
from airflow_stream_provider.planning.waits import Condition, Ended, Needs, Observations, WaitOutcome


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


@dataclass(frozen=True)
class Answered(Condition):
    """A person has answered, which this does not see; or the question makes no sense any more.

    It does not when the release that was shown cannot take over any more, and when another one holds than it was
    compared with, or the stream was stopped. A holder that dies meanwhile and is brought back is the same release. But
    a question that is asked only because the new release may be slower is not waited for once any release is better
    than the running one.

    :param deployment: the one that stands by.
    :param holding: the deployment that held the stream when the question was asked; empty: none.
    :param limits: LagLimits as JSON, by which a holder that hangs is known, if the question is only asked because of a
        doubt; None: a person has to be asked in any case.
    """

    deployment: str
    holding: str
    limits: Mapping[str, Any] | None = None

    WAITS_FOR: ClassVar[str] = "an answer about {deployment}"
    pace: ClassVar[float] = 5.0

    def needs(self, snapshot: Snapshot | None, seen: Observations) -> Needs:
        """Ask the cluster about drivers that have been silent for half a lease; Kafka, whether the holder hangs."""
        if snapshot is None:
            return Needs()
        standby, lag = snapshot.candidate(self.deployment), None
        watched = [] if standby is None else [standby.id]
        if self.limits is not None and snapshot.state.holder is not None:
            watched.append(snapshot.state.holder)
            lag = needs_to_tell(snapshot, LagLimits.from_json(self.limits))
        silent = [name for each in watched for name in seen.silent(snapshot, (each,), snapshot.lease([each]))]
        return Needs(drivers=tuple(silent), lag=lag)

    def check(self, snapshot: Snapshot, seen: Observations) -> WaitOutcome | None:
        """Return GONE when there is nothing left to decide, REACHED when no person has to; and why, as a sentence."""
        why = self._standby(snapshot, seen) or self._holder(snapshot)
        if why:
            return WaitOutcome(Ended.GONE, self.deployment, f"{why} {snapshot.holder_sentence}")
        bad = self._broken(snapshot, seen)
        return WaitOutcome(Ended.REACHED, self.deployment, bad) if bad else None

    def _standby(self, snapshot: Snapshot, seen: Observations) -> str:
        if snapshot.state.deployments[self.deployment].ended:
            reason = snapshot.why_ended(self.deployment) or "no reason is given"
            return f"{self.deployment} has ended: {reason.rstrip('.')}."
        standby = snapshot.candidate(self.deployment)
        if standby is None:
            return "" if snapshot.holds(self.deployment) else f"{self.deployment} has no driver that could take over."
        silent = seen.ages.seconds(snapshot, standby.id)
        if lost(snapshot, standby.id, silent, snapshot.lease([standby.id])):
            return f"The driver of {self.deployment} has given no sign of life for {silent:.0f} s."
        return ""

    def _holder(self, snapshot: Snapshot) -> str:
        holding, state = snapshot.holding, snapshot.state
        if holding and holding != self.deployment and not state.akin(holding, self.holding):
            return f"{holding} has taken over since {self.deployment} was compared with {self.holding or 'nobody'}."
        if self.holding and state.phase in (StreamPhase.STOPPED, StreamPhase.FINISHED):
            return f"The stream is {state.phase.value} by now."
        return ""

    def _broken(self, snapshot: Snapshot, seen: Observations) -> str:
        holder = snapshot.state.holder
        if self.limits is None or snapshot.holds(self.deployment):
            return ""
        gone = holder is not None and lost(
            snapshot, holder, seen.ages.seconds(snapshot, holder), snapshot.lease([holder])
        )
        return broken(snapshot, lost=gone) or hanging(snapshot, LagLimits.from_json(self.limits))
