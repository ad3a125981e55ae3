"""Whether a new release may stay: pure, from what the soak watch saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from airflow_stream_provider.lag.limits import Health, LagLimits
from airflow_stream_provider.lag.report import Alarm, LagReport


class SoakResult(StrEnum):
    """What the watch says of the new release."""

    GOOD = "good"  # so far
    BAD = "bad"  # roll back
    SUPERSEDED = "superseded"  # somebody else holds by a person's wish: not ours to judge any more


@dataclass(frozen=True)
class SoakLimits:
    """What a new release must keep to.

    `lag`: how far it may be behind Kafka, as the watch judges it; None = not judged. `samples`: that many in a row must
    be beyond it before it counts, since the lag of a healthy stream is a saw-tooth. `silent_seconds`: a holder whose
    heartbeat stands still for longer is lost (two leases: it has halted itself by then).
    """

    lag: LagLimits | None = None
    samples: int = 5
    silent_seconds: float = 60.0

    def to_json(self) -> dict[str, Any]:
        """Return the limits as a JSON object."""
        lag = None if self.lag is None else self.lag.to_json()
        return {"lag": lag, "samples": self.samples, "silent_seconds": self.silent_seconds}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SoakLimits:
        """Return the limits again."""
        lag = None if data["lag"] is None else LagLimits.from_json(data["lag"])
        return cls(lag, data["samples"], data["silent_seconds"])


@dataclass(frozen=True)
class SoakSample:
    """One look at the stream.

    `holder`: deployment that holds, None for nobody. `ended`: how the watched deployment ended, empty while it lives,
    `reason` why. `superseded`: another took over by request. `silent`: seconds its heartbeat has stood still, by the
    watcher's monotonic clock. `lag_records`: behind Kafka by so many records, None if not known. `too_far`: why
    that, or the rest of the lag, is known to be beyond the limits; empty if it is not, or is not known.
    """

    holder: str | None
    ended: str = ""
    reason: str = ""
    superseded: bool = False
    silent: float = 0.0
    lag_records: int | None = None
    too_far: str = ""


@dataclass(frozen=True)
class SoakJudgement:
    """A verdict and its reason, one sentence for a person."""

    verdict: SoakResult
    reason: str = ""


def judge_soak(deployment: str, samples: Sequence[SoakSample], limits: SoakLimits) -> SoakJudgement:
    """Judge the deployment by the samples so far, oldest first; the first one says how it began.

    A stream that was behind before the upgrade and catches up is not at fault: a sample counts as too far behind only
    if the lag in records is no smaller than it was at the beginning.
    """
    if not samples:
        return SoakJudgement(SoakResult.GOOD)
    last = samples[-1]
    if last.ended:
        return SoakJudgement(SoakResult.BAD, f"It {last.ended}: {last.reason or 'no reason given'}.".replace("..", "."))
    if last.superseded:
        return SoakJudgement(SoakResult.SUPERSEDED, f"{last.holder} took over since.")
    if last.holder != deployment:
        return SoakJudgement(SoakResult.BAD, f"It does not hold the stream any more; {last.holder or 'nobody'} does.")
    if last.silent > limits.silent_seconds:
        return SoakJudgement(SoakResult.BAD, f"Its heartbeat has stood still for {last.silent:.0f} s.")
    return _judge_lag(samples, limits)


def too_far(report: LagReport | None, limits: SoakLimits) -> str:
    """Return why a lag is beyond the limits; empty when it is not, or is not known."""
    if report is None or limits.lag is None:
        return ""
    found = limits.lag.without(Alarm.STUCK_TRANSACTION).judge(report)  # a producer's doing: no release can help it
    return str(found) if found.health is Health.FAIL else ""


def _judge_lag(samples: Sequence[SoakSample], limits: SoakLimits) -> SoakJudgement:
    recent = samples[-limits.samples :]
    if len(recent) < limits.samples:
        return SoakJudgement(SoakResult.GOOD)
    began = next((s.lag_records for s in samples if s.lag_records is not None), None)
    if all(sample.too_far and not _catching_up(sample, began) for sample in recent):
        return SoakJudgement(
            SoakResult.BAD, f"{limits.samples} times in a row it was too far behind. {recent[-1].too_far}"
        )
    return SoakJudgement(SoakResult.GOOD)


def _catching_up(sample: SoakSample, began: int | None) -> bool:
    return began is not None and sample.lag_records is not None and sample.lag_records < began
