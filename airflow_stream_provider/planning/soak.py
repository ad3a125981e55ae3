"""Judge whether a new release may stay, from what the soak has seen. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Any

from airflow_stream_provider.lag.limits import Health, LagLimits
from airflow_stream_provider.lag.report import Alarm, LagReport
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.state import DeploymentEnd, RequestStage
from airflow_stream_provider.planning.descent import family
from airflow_stream_provider.planning.heartbeat_age import silence_limit
from airflow_stream_provider.planning.snapshot import Snapshot

# A holder that has not committed since it took over is not judged by its lag for so long, or three leases if longer.
START_UP_SECONDS = 60.0
# A lag must be beyond its limits, without getting smaller, for at least so long, or two batches if longer.
TREND_SECONDS = 30.0


class SoakResult(StrEnum):
    """The judgement on a new release."""

    GOOD = "good"  # so far
    UNDECIDED = "undecided"  # it starts, or is too far behind, and it is too early to say whether it catches up
    BAD = "bad"  # it must be rolled back
    SUPERSEDED = "superseded"  # another release took over on request: there is nothing left to judge


@dataclass(frozen=True)
class SoakLimits:
    """Limits that a new release must keep.

    :param lag: how far it may be behind Kafka, judged as by the stream's watch; None = not judged.
    :param samples: number of samples in a row that must be beyond them before it counts: the lag of a healthy stream is
        a saw-tooth.
    :param silent_seconds: a holder whose heartbeat stands still for longer is lost; see `silence_limit`.
    :param start_up_seconds: how long the lag of a holder that has not committed yet does not count.
    """

    lag: LagLimits | None = None
    samples: int = 5
    silent_seconds: float = silence_limit(Policy.lease_seconds)
    start_up_seconds: float = START_UP_SECONDS

    @classmethod
    def of(cls, lag: LagLimits | None, lease_seconds: float) -> SoakLimits:
        """Return the limits for a holder with this lease."""
        start_up = max(START_UP_SECONDS, 3 * lease_seconds)
        return cls(lag, silent_seconds=silence_limit(lease_seconds), start_up_seconds=start_up)

    def to_json(self) -> dict[str, Any]:
        """Return the limits as a JSON object."""
        lag = None if self.lag is None else self.lag.to_json()
        return {**vars(self), "lag": lag}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SoakLimits:
        """Return the limits that `to_json` wrote."""
        lag = None if data["lag"] is None else LagLimits.from_json(data["lag"])
        # Triggers of earlier versions carry no `start_up_seconds`.
        start_up = data.get("start_up_seconds", START_UP_SECONDS)
        return cls(lag, data["samples"], data["silent_seconds"], start_up)


@dataclass(frozen=True)
class SoakLook:
    """One look of a soak.

    :param holding: deployment that holds the stream; None for nobody.
    :param ended: how the soaking deployment ended; empty while it lives.
    :param reason: why it ended.
    :param superseded: another deployment took over on request; it may hold no more.
    :param silent: seconds for which the holder's heartbeat has stood still, by the observer's monotonic clock.
    :param lag_records: records behind Kafka; None = unknown.
    :param too_far: why the lag is beyond the limits; empty if it is not, or is unknown.
    :param at: seconds since 1970 by the observer's clock.
    :param lag_known: the lag is known at least in part, or no query of the holder reads Kafka.
    :param starting: the holder has not committed yet, and may still be reading what waited for it.
    :param batch_seconds: how long the last batch of its slowest query took; 0 when it is not known.
    """

    holding: str | None
    ended: str = ""
    reason: str = ""
    superseded: bool = False
    silent: float = 0.0
    lag_records: int | None = None
    too_far: str = ""
    lag_known: bool = False
    at: float = 0.0
    starting: bool = False
    batch_seconds: float = 0.0


@dataclass(frozen=True)
class SoakJudgement:
    """The result, and its reason as a sentence."""

    result: SoakResult
    reason: str = ""


def soak_look(snapshot: Snapshot, deployment: str, run: str, silent: float, limits: SoakLimits) -> SoakLook:
    """Return what a look says about a soaking deployment.

    :param run: prefix of the authors of the soak's DAG run, whose own requests do not supersede the deployment.
    :param silent: seconds for which the holder's heartbeat has stood still.
    """
    state = snapshot.state
    watched = state.deployments[deployment]
    # A person or a roll-back retired it: the holder tells which of them.
    ended = "" if watched.ended in (None, DeploymentEnd.RETIRED) else watched.ended.value
    acquired = snapshot.acquisitions()
    request = state.requests.get(acquired[-1]["request"]) if acquired else None
    requested = request is not None and request.stage is RequestStage.DONE and not request.by.startswith(run)
    last = deployment_of(state.last_holder or "")
    return SoakLook(
        holding=snapshot.holding or None,
        ended=ended,
        reason=watched.reason,
        superseded=requested and bool(last) and last not in family(state, deployment),
        silent=silent,
        lag_records=snapshot.lag.records if snapshot.lag else None,
        too_far=too_far(snapshot.lag, limits),
        lag_known=lag_known(snapshot),
        at=snapshot.at,
        starting=_starting(snapshot, limits),
        batch_seconds=_batch_seconds(snapshot),
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
        return SoakJudgement(SoakResult.SUPERSEDED, f"{last.holding or 'Another release'} took over since.")
    if last.holding != deployment:
        return SoakJudgement(SoakResult.BAD, f"It does not hold the stream any more; {last.holding or 'nobody'} does.")
    if last.silent > limits.silent_seconds:
        return SoakJudgement(SoakResult.BAD, f"Its heartbeat has stood still for {last.silent:.0f} s.")
    return _judge_lag(samples, limits)


def too_far(report: LagReport | None, limits: SoakLimits) -> str:
    """Return why a lag is beyond the limits; empty when it is not, or is unknown."""
    if report is None or limits.lag is None:
        return ""
    # A transaction that hangs is the producer's fault; a roll-back would not help.
    found = limits.lag.without(Alarm.STUCK_TRANSACTION).judge(report)
    return str(found) if found.health is Health.FAIL else ""


def lag_known(snapshot: Snapshot) -> bool:
    """Return whether a look says anything of the lag: Kafka or the committed offsets may be out of reach."""
    report, holder = snapshot.lag, snapshot.state.holder
    if report is None:
        return False
    return report.records is not None or (
        not report.queries and holder is not None and snapshot.has_committed(holder)  # none of them reads Kafka
    )


def _starting(snapshot: Snapshot, limits: SoakLimits) -> bool:
    holder = snapshot.state.holder
    if holder is None or snapshot.has_committed(holder):
        return False
    return snapshot.at < snapshot.acquisitions()[-1].at + limits.start_up_seconds


def _batch_seconds(snapshot: Snapshot) -> float:
    heartbeat = snapshot.heartbeats.get(snapshot.state.holder or "")
    return max((query.batch_seconds or 0.0 for query in heartbeat.queries), default=0.0) if heartbeat else 0.0


def _judge_lag(samples: Sequence[SoakLook], limits: SoakLimits) -> SoakJudgement:
    last = samples[-1]
    if limits.lag is not None and last.starting and (last.too_far or last.lag_records is None):
        return SoakJudgement(SoakResult.UNDECIDED, "It has not committed yet.")
    # Looks without a known lag say nothing. The rest must be one observer's: another begins anew after a restart.
    known = (look for look in reversed(samples) if look.too_far or look.lag_records is not None)
    streak = list(takewhile(lambda look: look.too_far and not look.starting, known))[::-1]
    if not streak:
        return SoakJudgement(SoakResult.GOOD)
    lasted = streak[-1].at - streak[0].at
    seconds = max(TREND_SECONDS, 2 * last.batch_seconds)
    if len(streak) < limits.samples or lasted < seconds:
        return SoakJudgement(SoakResult.UNDECIDED, streak[-1].too_far)
    if _shrinking(streak, seconds):
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
