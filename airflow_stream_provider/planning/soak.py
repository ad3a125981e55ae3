"""Judge whether a new release may stay, from what the soak has seen. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from airflow_stream_provider.lag.limits import Health, LagLimits
from airflow_stream_provider.lag.report import Alarm, LagReport
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.state import DeploymentEnd, RequestStage
from airflow_stream_provider.planning.heartbeat_age import silence_limit
from airflow_stream_provider.planning.snapshot import Snapshot


class SoakResult(StrEnum):
    """The judgement on a new release."""

    GOOD = "good"  # so far
    BAD = "bad"  # it must be rolled back
    SUPERSEDED = "superseded"  # another release took over on request: there is nothing left to judge


@dataclass(frozen=True)
class SoakLimits:
    """Limits that a new release must keep.

    :param lag: how far it may be behind Kafka, judged as by the stream's watch; None = not judged.
    :param samples: number of samples in a row that must be beyond them before it counts: the lag of a healthy stream is
        a saw-tooth.
    :param silent_seconds: a holder whose heartbeat stands still for longer is lost; see `silence_limit`.
    """

    lag: LagLimits | None = None
    samples: int = 5
    silent_seconds: float = silence_limit(Policy.lease_seconds)

    def to_json(self) -> dict[str, Any]:
        """Return the limits as a JSON object."""
        lag = None if self.lag is None else self.lag.to_json()
        return {"lag": lag, "samples": self.samples, "silent_seconds": self.silent_seconds}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SoakLimits:
        """Return the limits that `to_json` wrote."""
        lag = None if data["lag"] is None else LagLimits.from_json(data["lag"])
        return cls(lag, data["samples"], data["silent_seconds"])


@dataclass(frozen=True)
class SoakLook:
    """One look of a soak.

    :param holding: deployment that holds the stream; None for nobody.
    :param ended: how the soaking deployment ended; empty while it lives.
    :param reason: why it ended.
    :param superseded: another deployment took over on request.
    :param silent: seconds for which the holder's heartbeat has stood still, by the observer's monotonic clock.
    :param lag_records: records behind Kafka; None = unknown.
    :param too_far: why the lag is beyond the limits; empty if it is not, or is unknown.
    """

    holding: str | None
    ended: str = ""
    reason: str = ""
    superseded: bool = False
    silent: float = 0.0
    lag_records: int | None = None
    too_far: str = ""


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
    return SoakLook(
        holding=snapshot.holding or None,
        ended=ended,
        reason=watched.reason,
        superseded=bool(snapshot.holding) and not snapshot.holds(deployment) and requested,
        silent=silent,
        lag_records=snapshot.lag.records if snapshot.lag else None,
        too_far=too_far(snapshot.lag, limits),
    )


def judge_soak(deployment: str, samples: Sequence[SoakLook], limits: SoakLimits) -> SoakJudgement:
    """Judge a deployment by its samples so far, oldest first.

    A release that takes over a lag and catches up is not at fault: a sample counts as too far behind only if its lag in
    records is not smaller than that of the first sample.
    """
    if not samples:
        return SoakJudgement(SoakResult.GOOD)
    last = samples[-1]
    if last.ended:
        return SoakJudgement(SoakResult.BAD, f"It {last.ended}: {last.reason or 'no reason given'}.".replace("..", "."))
    if last.superseded:
        return SoakJudgement(SoakResult.SUPERSEDED, f"{last.holding} took over since.")
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


def _judge_lag(samples: Sequence[SoakLook], limits: SoakLimits) -> SoakJudgement:
    recent = samples[-limits.samples :]
    if len(recent) < limits.samples:
        return SoakJudgement(SoakResult.GOOD)
    began = next((s.lag_records for s in samples if s.lag_records is not None), None)
    if all(sample.too_far and not _catching_up(sample, began) for sample in recent):
        return SoakJudgement(
            SoakResult.BAD, f"{limits.samples} times in a row it was too far behind. {recent[-1].too_far}"
        )
    return SoakJudgement(SoakResult.GOOD)


def _catching_up(sample: SoakLook, began: int | None) -> bool:
    return began is not None and sample.lag_records is not None and sample.lag_records < began
