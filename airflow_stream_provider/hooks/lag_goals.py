"""What a task can wait for that has to do with lag. Pure: each goal looks at a report and says if the wait is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from airflow_stream_provider.hooks.outcome import Ended, Outcome
from airflow_stream_provider.model.errors import StreamError
from airflow_stream_provider.model.incident import Spells
from airflow_stream_provider.model.lag import LagReport
from airflow_stream_provider.model.limits import Health, Judgement, LagLimits
from airflow_stream_provider.model.words import count, duration


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

    def judge(self, limits: LagLimits) -> Judgement:
        """Return what is to be said of it."""
        if self.report is None:
            return Judgement(Health.UNKNOWN, (self.problem,))
        return limits.judge(self.report)


@dataclass(frozen=True)
class LagGoal:
    """Base of the goals. `says`: what is waited for, for the log and for time-outs."""

    @property
    def says(self) -> str:
        """What is waited for, to follow on "waiting for"."""
        raise NotImplementedError

    def check(self, look: Look, spells: Spells) -> Outcome | None:
        """Return how the wait ended, or None to go on."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return the goal as a trigger carries it."""
        return {"goal": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class Measured(LagGoal):
    """There is a report, whatever it says. `limits`: LagLimits as JSON, for the alarms in it."""

    limits: Mapping[str, Any]

    @property
    def says(self) -> str:
        """What is waited for."""
        return "Kafka to answer"

    def check(self, look: Look, spells: Spells) -> Outcome | None:
        """Return REACHED with the first report."""
        return None if look.report is None else Outcome(Ended.REACHED)


@dataclass(frozen=True)
class WithinLimits(LagGoal):
    """The lag is within its limits: REACHED; LOST when it has been beyond them for so long, UNKNOWN likewise.

    `limits`: LagLimits as JSON. `seconds`: how long it must have lasted.
    """

    limits: Mapping[str, Any]
    seconds: float = 0.0
    unknown: str = Unknown.WAIT.value

    @property
    def says(self) -> str:
        """What is waited for."""
        return "a lag within its limits"

    def check(self, look: Look, spells: Spells) -> Outcome | None:
        """Return how it stands with the lag, once that is certain."""
        found = look.judge(LagLimits.from_json(self.limits))
        spells.add(found.health, look.at)
        if found.health is Health.PASS:
            return Outcome(Ended.REACHED)
        begun = spells.bad if found.health is Health.FAIL else spells.unknown
        if begun is None or look.at - begun < self.seconds:
            return None
        lasted = f" So it has been for {duration(look.at - begun)}." if self.seconds else ""
        if found.health is Health.FAIL:
            return Outcome(Ended.LOST, reason=f"{found}{lasted}")
        return None if self.unknown == Unknown.WAIT else Outcome(Ended.UNKNOWN, reason=f"{found}{lasted}")


@dataclass(frozen=True)
class CaughtUp(LagGoal):
    """Every record that was in Kafka at a moment (seconds since 1970) is committed."""

    moment: float

    @property
    def says(self) -> str:
        """What is waited for."""
        return "every record up to the moment to be committed"

    def check(self, look: Look, spells: Spells) -> Outcome | None:
        """Return REACHED; a lag that is known only in part is not caught up."""
        report = look.report
        if report is None or report.at < self.moment or report.late(report.at - self.moment) is not False:
            return None
        return Outcome(Ended.REACHED, reason=f"behind by {count(report.records, 'record')}")


_GOALS: dict[str, Callable[..., LagGoal]] = {goal.__name__: goal for goal in (Measured, WithinLimits, CaughtUp)}


def lag_goal_from_json(data: Mapping[str, Any]) -> LagGoal:
    """Return the goal that a trigger carries; raise StreamError when it is not one of ours."""
    fields = dict(data)
    try:
        return _GOALS[fields.pop("goal")](**fields)
    except (KeyError, TypeError) as error:
        raise StreamError(
            f"{data!r} is not something to wait for.", todo="Clear the task: it was deferred by another version."
        ) from error
