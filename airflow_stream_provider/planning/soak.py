"""Judge whether a new release may stay, from what the soak has seen. Pure.

A soak judges one look as the watch does (`stream_health`). Its own are the start-up time, the trend of a lag, and the
request of a take-over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import takewhile
from typing import Any

from airflow_stream_provider.lag.limits import Health, LagLimits
from airflow_stream_provider.lag.report import Alarm, Verdict
from airflow_stream_provider.lifecycle.state import DeploymentEnd
from airflow_stream_provider.planning.hanging import hanging
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.stream_health import RunJudgement, judge_lag, judge_queries, judge_run

# A holder that has not committed since it took over is not judged by its lag for so long, or three leases if longer.
START_UP_SECONDS = 60.0
# A lag must be beyond its limits, without getting smaller, for at least so long, or two batches if longer.
TREND_SECONDS = 30.0


class SoakResult(StrEnum):
    """The judgement on a new release."""

    GOOD = "good"  # so far
    UNDECIDED = "undecided"  # it starts, changes hands, or is too far behind, and it is too early to say how that ends
    BAD = "bad"  # it must be rolled back
    SUPERSEDED = (
        "superseded"  # another release took over, or the stream was stopped, on request: nothing is left to judge
    )


@dataclass(frozen=True)
class SoakLimits:
    """Limits that a new release must keep.

    :param lag: how far it may be behind Kafka, judged as by the stream's watch; None = not judged.
    :param samples: number of samples in a row that must be beyond them before it counts: the lag of a healthy stream is
        a saw-tooth.
    :param start_up_seconds: how long the lag of a holder that has not committed yet does not count.
    """

    lag: LagLimits | None = None
    samples: int = 5
    start_up_seconds: float = START_UP_SECONDS

    @classmethod
    def of(cls, lag: LagLimits | None, lease_seconds: float) -> SoakLimits:
        """Return the limits for a holder with this lease."""
        return cls(lag, start_up_seconds=max(START_UP_SECONDS, 3 * lease_seconds))

    def to_json(self) -> dict[str, Any]:
        """Return the limits as a JSON object."""
        lag = None if self.lag is None else self.lag.to_json()
        return {**vars(self), "lag": lag}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SoakLimits:
        """Return the limits that `to_json` wrote."""
        lag = None if data["lag"] is None else LagLimits.from_json(data["lag"])
        return cls(lag, data["samples"], data["start_up_seconds"])


@dataclass(frozen=True)
class SoakLook:
    """One look of a soak.

    :param holding: deployment that holds the stream; None for none.
    :param ended: how the soaking deployment ended; empty while it lives.
    :param reason: why it ended.
    :param superseded: another deployment took over, or the stream was stopped, on request: a sentence on its author.
        The other deployment may hold no more.
    :param ill: what is wrong with queries that have failed for some time and have not committed in this driver; empty:
        nothing that is the release's fault.
    :param doubt: what is wrong with those that have committed, wait for their checkpoint, or need a Kafka that does not
        answer.
    :param run: whether the holder gives signs of life, by the observer's monotonic clock.
    :param lag_records: records behind Kafka; None = unknown.
    :param too_far: why the lag is beyond the limits; empty if it is not, or is unknown.
    :param at: seconds since 1970 by the observer's clock.
    :param lag_known: the records behind Kafka and, if that is limited, their age are known in every partition, or no
        query of the holder reads Kafka.
    :param stopped: which query commits nothing, by the pace of its last commits, a sentence; empty for none.
    :param starting: the holder has not committed yet, and may still be reading what waited for it.
    :param batch_seconds: how long the last batch of its slowest query took and, before it, may have waited by its own
        promise, of those that are too far behind, if any is; 0 when it is not known.
    """

    holding: str | None
    ended: str = ""
    reason: str = ""
    superseded: str = ""
    ill: str = ""
    doubt: str = ""
    run: RunJudgement = field(default_factory=lambda: RunJudgement(Health.PASS))
    lag_records: int | None = None
    too_far: str = ""
    lag_known: bool = False
    at: float = 0.0
    starting: bool = False
    batch_seconds: float = 0.0
    stopped: str = ""


@dataclass(frozen=True)
class SoakJudgement:
    """The result, and its reason as a sentence."""

    result: SoakResult
    reason: str = ""


def soak_look(snapshot: Snapshot, deployment: str, run: str, silent: float, limits: SoakLimits) -> SoakLook:
    """Return what a look says about a soaking deployment.

    :param run: prefix of the authors of the soak's DAG run, whose own requests do not supersede the deployment.
    :param silent: seconds for which the observer has seen the holder's heartbeat stand still.
    """
    watched = snapshot.state.deployments[deployment]
    # A person or a roll-back retired it: the holder tells which of them.
    ended = "" if watched.ended in (None, DeploymentEnd.RETIRED) else watched.ended.value
    ill, doubt = ill_queries(snapshot, limits)
    return SoakLook(
        holding=snapshot.holding or None,
        ended=ended,
        reason=watched.reason,
        superseded=_superseded(snapshot, deployment, run),
        ill=ill,
        doubt=doubt,
        run=judge_run(snapshot, silent or None),
        lag_records=snapshot.lag.records if snapshot.lag else None,
        too_far=too_far(snapshot, limits),
        lag_known=lag_known(snapshot, limits),
        at=snapshot.at,
        starting=_starting(snapshot, limits),
        batch_seconds=_batch_seconds(snapshot, limits),
        stopped=stopped(snapshot, limits),
    )


def judge_soak(deployment: str, samples: Sequence[SoakLook], limits: SoakLimits) -> SoakJudgement:
    """Judge a deployment by its samples so far, oldest first.

    A lag counts only after the first commit, or the start-up time. Then it is bad when it stays beyond its limits for
    long enough without getting smaller; a release that takes over a backlog and catches up is not at fault.
    """
    if not samples:
        return SoakJudgement(SoakResult.GOOD)
    last = samples[-1]
    if last.ended:
        return SoakJudgement(SoakResult.BAD, f"It {last.ended}: {last.reason or 'no reason given'}.".replace("..", "."))
    if last.superseded:
        return SoakJudgement(SoakResult.SUPERSEDED, last.superseded)
    if last.holding is None and last.run.health is Health.UNKNOWN:
        return SoakJudgement(SoakResult.UNDECIDED, "The stream changes hands.")
    if last.holding != deployment:
        who = f"{last.holding} does." if last.holding else last.run.reason or "Nobody does."
        return SoakJudgement(SoakResult.BAD, f"It does not hold the stream any more. {who}")
    if last.run.health is Health.FAIL:
        return SoakJudgement(SoakResult.BAD, last.run.reason)
    if last.ill:
        return SoakJudgement(SoakResult.BAD, last.ill)
    found, doubt = _judge_lag(samples, limits), last.doubt or last.stopped
    return SoakJudgement(SoakResult.UNDECIDED, doubt) if doubt and found.result is SoakResult.GOOD else found


def too_far(snapshot: Snapshot, limits: SoakLimits) -> str:
    """Return why a lag is beyond the limits; empty when it is not, or is unknown, or is not judged."""
    if limits.lag is None:
        return ""
    # A transaction that hangs is the producer's fault, and no release makes a topic anew: a roll-back would not help.
    judged = limits.lag.without(Alarm.STUCK_TRANSACTION).without(Alarm.TOPIC_RECREATED)
    judged = replace(judged, verdicts=tuple(verdict for verdict in judged.verdicts if verdict is not Verdict.STOP))
    found = judge_lag(snapshot, snapshot.lag, judged)
    # A query that is silent for a while may be on a machine that is busy; one that hangs is not.
    return str(found) if found.health is Health.FAIL else hanging(snapshot, limits.lag)


def stopped(snapshot: Snapshot, limits: SoakLimits) -> str:
    """Return which query commits nothing, by the pace of its last commits, if that is judged; else empty."""
    if limits.lag is None or Verdict.STOP not in limits.lag.verdicts:
        return ""
    found = judge_lag(snapshot, snapshot.lag, LagLimits(verdicts=(Verdict.STOP,), alarms=()))
    return str(found) if found.health is Health.FAIL else ""


def lag_known(snapshot: Snapshot, limits: SoakLimits) -> bool:
    """Return whether the records behind Kafka, and their age if that is limited, are known in every partition.

    Not asked for are verdicts and alarms: so soon after a change of holder little may be known of them.
    """
    if limits.lag is None:
        return False
    counted = replace(limits.lag, verdicts=(), alarms=())
    return judge_lag(snapshot, snapshot.lag, counted).health is not Health.UNKNOWN


def _superseded(snapshot: Snapshot, deployment: str, run: str) -> str:
    """Return that somebody outside of the run wishes something else for the stream by now; or empty."""
    wish, found = snapshot.state.wish, snapshot.state.deployments.get(deployment)
    if wish is None or wish.by.startswith(run) or (found is not None and wish.family == found.family):
        return ""
    return f"Record {wish.seq} asks for something else since, by {wish.author}."


def ill_queries(snapshot: Snapshot, limits: SoakLimits) -> tuple[str, str]:
    """Return what is wrong with queries by the release's fault, and what may be by another's."""
    away = limits.lag is not None and snapshot.lag is None
    found = judge_queries(snapshot).ill
    others = [query for query in found if query.committed or query.waits or (away and query.needs_kafka)]
    return " ".join(str(query) for query in found if query not in others), " ".join(map(str, others))


def _starting(snapshot: Snapshot, limits: SoakLimits) -> bool:
    holder = snapshot.state.holder
    if holder is None or snapshot.has_committed(holder):
        return False
    return snapshot.at < snapshot.acquisitions()[-1].at + limits.start_up_seconds


def _batch_seconds(snapshot: Snapshot, limits: SoakLimits) -> float:
    """Only queries beyond the limits count, if there are any: another one may have ended for good."""
    heartbeat, report = snapshot.holder_heartbeat, snapshot.lag
    beyond = set()
    if limits.lag is not None and report is not None:
        looks = {query.query: limits.lag.judge(replace(report, queries=(query,))) for query in report.queries}
        beyond = {name for name, judged in looks.items() if judged.health is Health.FAIL}
    queries = heartbeat.queries if heartbeat else ()
    slow = [query for query in queries if query.name in beyond] or queries
    return max(((query.batch_seconds or 0.0) + (query.quiet or 0.0) for query in slow), default=0.0)


def _judge_lag(samples: Sequence[SoakLook], limits: SoakLimits) -> SoakJudgement:
    last = samples[-1]
    if limits.lag is not None and last.starting and (last.too_far or not last.lag_known):
        return SoakJudgement(SoakResult.UNDECIDED, "It has not committed yet.")
    # Looks without a known lag say nothing. The rest must be one observer's: another begins anew after a restart.
    known = (look for look in reversed(samples) if look.too_far or look.lag_known)
    streak = list(takewhile(lambda look: look.too_far and not look.starting, known))[::-1]
    if not streak:
        return SoakJudgement(SoakResult.GOOD)
    lasted = streak[-1].at - streak[0].at
    seconds = max(TREND_SECONDS, 2 * last.batch_seconds)
    if len(streak) < limits.samples or lasted < seconds:
        return SoakJudgement(SoakResult.UNDECIDED, streak[-1].too_far)
    if _shrinking(streak, seconds):
        # The span before must be as long as a tooth of the saw, or a lag that rises shrinks by chance.
        if lasted < seconds + max(look.batch_seconds for look in streak):
            return SoakJudgement(SoakResult.UNDECIDED, streak[-1].too_far)
        return SoakJudgement(SoakResult.GOOD)
    return SoakJudgement(
        SoakResult.BAD, f"For {lasted:.0f} s it was too far behind and did not catch up. {streak[-1].too_far}"
    )


def _shrinking(streak: Sequence[SoakLook], seconds: float) -> bool:
    """Whether the lowest lag of the last `seconds` is below the lowest of as long before: lag is a saw-tooth."""
    newest = streak[-1].at
    counts: tuple[list[int], list[int]] = ([], [])
    for look in streak:
        age = newest - look.at
        if age < 2 * seconds and look.lag_records is not None:
            counts[age < seconds].append(look.lag_records)
    before, since = counts
    return bool(before and since) and min(since) < min(before)
