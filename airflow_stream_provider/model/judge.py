"""Whether a new release may stay: pure, from what the soak watch saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Verdict(str, Enum):
    """What the watch says of the new release."""

    GOOD = "good"  # so far
    BAD = "bad"  # roll back
    SUPERSEDED = "superseded"  # somebody else holds by a person's wish: not ours to judge any more


@dataclass(frozen=True)
class Limits:
    """What a new release must keep to. None = not judged.

    `max_records`, `max_seconds`: how far it may be behind Kafka. `samples`: that many in a row must be above a limit
    before it counts, since the lag of a healthy stream is a saw-tooth. `silent_seconds`: a holder whose heartbeat
    stands still for longer is lost (two leases: it has halted itself by then).
    """

    max_records: int | None = None
    max_seconds: float | None = None
    samples: int = 5
    silent_seconds: float = 60.0


@dataclass(frozen=True)
class Sample:
    """One look at the stream.

    `holder`: deployment that holds, None for nobody. `ended`: how the watched deployment ended, empty while it lives,
    `reason` why. `superseded`: another took over by request. `silent`: seconds its heartbeat has stood still, by the
    watcher's monotonic clock. `lag_records`: behind Kafka by so many records, None if not known. `late`: whether
    a record older than `max_seconds` is not committed yet, None if not known.
    """

    holder: str | None
    ended: str = ""
    reason: str = ""
    superseded: bool = False
    silent: float = 0.0
    lag_records: int | None = None
    late: bool | None = None


@dataclass(frozen=True)
class Judgement:
    """A verdict and its reason, one sentence for a person."""

    verdict: Verdict
    reason: str = ""


def judge(deployment: str, samples: Sequence[Sample], limits: Limits) -> Judgement:
    """Judge the deployment by the samples so far, oldest first; the first one says how it began.

    A stream that was behind before the upgrade and catches up is not at fault: a sample counts as above the limit
    only if the lag in records is no smaller than it was at the beginning.
    """
    if not samples:
        return Judgement(Verdict.GOOD)
    last = samples[-1]
    if last.ended:
        return Judgement(Verdict.BAD, f"It {last.ended}: {last.reason or 'no reason given'}.".replace("..", "."))
    if last.superseded:
        return Judgement(Verdict.SUPERSEDED, f"{last.holder} took over since.")
    if last.holder != deployment:
        return Judgement(Verdict.BAD, f"It does not hold the stream any more; {last.holder or 'nobody'} does.")
    if last.silent > limits.silent_seconds:
        return Judgement(Verdict.BAD, f"Its heartbeat has stood still for {last.silent:.0f} s.")
    return _judge_lag(samples, limits)


def _judge_lag(samples: Sequence[Sample], limits: Limits) -> Judgement:
    recent = samples[-limits.samples :]
    if len(recent) < limits.samples:
        return Judgement(Verdict.GOOD)
    began = next((s.lag_records for s in samples if s.lag_records is not None), None)
    if all(_above(sample, began, limits) for sample in recent):
        last = recent[-1]
        return Judgement(
            Verdict.BAD,
            f"It is behind Kafka by {last.lag_records} records, {limits.samples} samples in a row above the limit of "
            + " and ".join(_limits(limits))
            + ".",
        )
    return Judgement(Verdict.GOOD)


def _above(sample: Sample, began: int | None, limits: Limits) -> bool:
    if sample.lag_records is None:
        return False
    if began is not None and sample.lag_records < began:
        return False  # catching up
    too_many = limits.max_records is not None and sample.lag_records > limits.max_records
    too_late = limits.max_seconds is not None and bool(sample.late)
    return too_many or too_late


def _limits(limits: Limits) -> list[str]:
    found = []
    if limits.max_records is not None:
        found.append(f"{limits.max_records} records")
    if limits.max_seconds is not None:
        found.append(f"{limits.max_seconds:.0f} s")
    return found
