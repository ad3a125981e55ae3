"""What a task can wait for that has to do with lag. Pure: each goal looks at a report and says if the wait is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from airflow_stream_provider.lag.formatting import count, duration
from airflow_stream_provider.lag.limits import Health, LagJudgement, LagLimits
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lag.streaks import Streaks
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.planning.wait_outcome import Ended, WaitOutcome


class Unknown(StrEnum):
    """What a sensor does about a lag that cannot be known."""

    WAIT = "wait"  # look again, until the time is over
    FAIL = "fail"  # once it has not been known for as long as a bad lag would have to last
    SKIP = "skip"  # likewise, and end as skipped


@dataclass(frozen=True)
class Look:
    """What was found at one moment (`at`, seconds since 1970): a report, or the reason why there is none."""

    at: float
    report: LagReport | None
    problem: str = ""

    def judge(self, limits: LagLimits) -> LagJudgement:
        """Return what is to be said of it."""
        if self.report is None:
            return LagJudgement(Health.UNKNOWN, (self.problem,))
        return limits.judge(self.report)


@dataclass(frozen=True)
class LagCondition:
    """Base of the goals. `says`: what is waited for, for the log and for time-outs."""

    @property
    def description(self) -> str:
        """What is waited for, to follow on "waiting for"."""
        raise NotImplementedError

    def check(self, look: Look, streaks: Streaks) -> WaitOutcome | None:
        """Return how the wait ended, or None to go on."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return the goal as a trigger carries it."""
        return {"condition": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class Measured(LagCondition):
    """There is a report, whatever it says. `limits`: LagLimits as JSON, for the alarms in it."""

    limits: Mapping[str, Any]

    @property
    def description(self) -> str:
        """What is waited for."""
        return "Kafka to answer"

    def check(self, look: Look, streaks: Streaks) -> WaitOutcome | None:
        """Return REACHED with the first report."""
        return None if look.report is None else WaitOutcome(Ended.REACHED)


@dataclass(frozen=True)
class WithinLimits(LagCondition):
    """The lag is within its limits: REACHED; LOST when it has been beyond them for so long, UNKNOWN likewise.

    `limits`: LagLimits as JSON. `seconds`: how long it must have lasted.
    """

    limits: Mapping[str, Any]
    seconds: float = 0.0
    unknown: str = Unknown.WAIT.value

    @property
    def description(self) -> str:
        """What is waited for."""
        return "a lag within its limits"

    def check(self, look: Look, streaks: Streaks) -> WaitOutcome | None:
        """Return how it stands with the lag, once that is certain."""
        found = look.judge(LagLimits.from_json(self.limits))
        streaks.add(found.health, look.at)
        if found.health is Health.PASS:
            return WaitOutcome(Ended.REACHED)
        begun = streaks.bad if found.health is Health.FAIL else streaks.unknown
        if begun is None or look.at - begun < self.seconds:
            return None
        lasted = f" So it has been for {duration(look.at - begun)}." if self.seconds else ""
        if found.health is Health.FAIL:
            return WaitOutcome(Ended.LOST, reason=f"{found}{lasted}")
        return None if self.unknown == Unknown.WAIT else WaitOutcome(Ended.UNKNOWN, reason=f"{found}{lasted}")


@dataclass(frozen=True)
class CaughtUp(LagCondition):
    """Every record that was in Kafka at a moment (seconds since 1970) is committed."""

    moment: float

    @property
    def description(self) -> str:
        """What is waited for."""
        return "every record up to the moment to be committed"

    def check(self, look: Look, streaks: Streaks) -> WaitOutcome | None:
        """Return REACHED; a lag that is known only in part is not caught up."""
        report = look.report
        if report is None or report.at < self.moment or report.late(report.at - self.moment) is not False:
            return None
        return WaitOutcome(Ended.REACHED, reason=f"behind by {count(report.records, 'record')}")


_CONDITIONS: dict[str, Callable[..., LagCondition]] = {
    condition.__name__: condition for condition in (Measured, WithinLimits, CaughtUp)
}


def lag_condition_from_json(data: Mapping[str, Any]) -> LagCondition:
    """Return the goal that a trigger carries; raise StreamError when it is not one of ours."""
    fields = dict(data)
    try:
        return _CONDITIONS[fields.pop("condition")](**fields)
    except (KeyError, TypeError) as error:
        raise StreamError(
            f"{data!r} is not something to wait for.", next_step="Clear the task: it was deferred by another version."
        ) from error
