"""The conditions on lag that a task can wait for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from airflow_stream_provider.lag.limits import Health, LagLimits, LagLook, Moments, Streaks
from airflow_stream_provider.lag.report import Ceilings
from airflow_stream_provider.lag.summary import summary
from airflow_stream_provider.lifecycle.texts import count, duration
from airflow_stream_provider.planning.waits import Ended, WaitCondition, WaitOutcome


class Unknown(StrEnum):
    """The ways of a sensor with an unknown lag."""

    WAIT = "wait"  # look again, until its timeout
    FAIL = "fail"  # fail once it has been unknown for as long as a bad lag must last
    SKIP = "skip"  # likewise, but skip


@dataclass(frozen=True)
class LagCondition(WaitCondition[LagLook, Streaks]):
    """Base of the conditions on a lag. `limits`: LagLimits as JSON; their ceilings raise the alarms."""

    limits: Mapping[str, Any]

    def new_memory(self) -> Streaks:
        """Return streaks without any look."""
        return Streaks()

    def problem(self, look: LagLook) -> str:
        """Return why the lag could not be measured."""
        return look.problem

    @property
    def ceilings(self) -> Ceilings:
        """Ceilings beyond which the evidence shows alarms."""
        return LagLimits.from_json(self.limits).ceilings

    @property
    def moments(self) -> Moments:
        """The numbers that this condition needs exactly."""
        return LagLimits.from_json(self.limits).moments

    def evidence(self, look: LagLook | None, *, partitions: bool = False) -> Mapping[str, Any]:
        """Return the look's report as a JSON object; empty when there is none."""
        if look is None or look.report is None:
            return {}
        return summary(look.report, self.ceilings, partitions=partitions)


@dataclass(frozen=True)
class Measured(LagCondition):
    """Kafka has answered, whatever the lag is."""

    WAITS_FOR: ClassVar[str] = "Kafka to answer"

    def check(self, look: LagLook, memory: Streaks) -> WaitOutcome | None:
        """Return REACHED with the first report."""
        return None if look.report is None else WaitOutcome(Ended.REACHED)


@dataclass(frozen=True)
class WithinLimits(LagCondition):
    """The lag is within its limits.

    :param seconds: how long the lag must be bad, or unknown, before the wait ends.
    :param unknown: see `Unknown`.
    """

    seconds: float = 0.0
    unknown: str = Unknown.WAIT.value

    WAITS_FOR: ClassVar[str] = "a lag within its limits"

    def check(self, look: LagLook, memory: Streaks) -> WaitOutcome | None:
        """Return REACHED for a good lag, BAD for one that stays bad, UNKNOWN for one that stays unknown."""
        judgement = look.judge(LagLimits.from_json(self.limits))
        memory.add(judgement.health, look.at)
        if judgement.health is Health.PASS:
            return WaitOutcome(Ended.REACHED)
        since = memory.bad if judgement.health is Health.FAIL else memory.unknown
        if since is None or look.at - since < self.seconds:
            return None
        reason = str(judgement) + (f" This has lasted for {duration(look.at - since)}." if self.seconds else "")
        if judgement.health is Health.FAIL:
            return WaitOutcome(Ended.BAD, reason=reason)
        return None if self.unknown == Unknown.WAIT else WaitOutcome(Ended.UNKNOWN, reason=reason)


@dataclass(frozen=True)
class CaughtUp(LagCondition):
    """Every record that was in Kafka at a moment (seconds since 1970) is committed."""

    moment: float

    WAITS_FOR: ClassVar[str] = "every record up to the moment to be committed"

    @property
    def moments(self) -> Moments:
        """Its own moment, and what the limits of its evidence ask for."""
        return super().moments | Moments(at=frozenset({self.moment}))

    def check(self, look: LagLook, memory: Streaks) -> WaitOutcome | None:
        """Return REACHED; a lag that is known only in part does not count as caught up."""
        report = look.report
        if report is None or report.at < self.moment or report.unread_before(self.moment) is not False:
            return None
        return WaitOutcome(Ended.REACHED, reason=f"behind by {count(report.records, 'record')}")


# The conditions that a trigger may carry.
LAG_CONDITIONS: tuple[type[LagCondition], ...] = (Measured, WithinLimits, CaughtUp)
