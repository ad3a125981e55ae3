"""Judge whether a lag is within its limits, and since when, by one rule for all who ask. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from airflow_stream_provider.lag.report import Alarm, Ceilings, LagReport, PartitionLag, QueryLag, Verdict
from airflow_stream_provider.lifecycle.texts import count, duration


@dataclass(frozen=True)
class Moments:
    """The moments that are searched in Kafka exactly, one request for each; ages without a moment are estimates.

    :param at: moments, in seconds since 1970.
    :param ages: moments relative to the measurement, in seconds before it.
    """

    at: frozenset[float] = frozenset()
    ages: frozenset[float] = frozenset()

    def __or__(self, other: Moments) -> Moments:
        return Moments(self.at | other.at, self.ages | other.ages)

    def __le__(self, other: Moments) -> bool:
        """Return whether a report about `other` says all that is asked here."""
        return self.at <= other.at and self.ages <= other.ages


# The verdicts that make a group's status ERR.
BAD = (Verdict.STOP, Verdict.STALL, Verdict.REWIND)

_VERDICTS = {
    Verdict.OK: "keeps up",
    Verdict.WARN: "commits, but falls behind",
    Verdict.STOP: "has not committed for longer than its last commits span",
    Verdict.STALL: "commits the same offset again and again",
    Verdict.REWIND: "went back, or its topic was recreated",
}

_UNDECIDED = {
    Alarm.COMMIT_AGE: "whether a record has waited too long for a commit is unknown",
    Alarm.RETENTION: "when Kafka deletes unread records is unknown",
    Alarm.STUCK_TRANSACTION: "since when a transaction has hidden records is unknown",
    Alarm.LOST_DATA: "whether Kafka has deleted unread records is unknown",
    Alarm.TOPIC_RECREATED: "whether a topic was made anew is unknown",
}


class Health(StrEnum):
    """The judgement of one look at a lag, by limits."""

    PASS = "pass"  # everything that the limits judge is known, and within them
    FAIL = "fail"  # something is beyond a limit, even if something else is unknown
    UNKNOWN = "unknown"  # nothing known is beyond a limit, but something is unknown


@dataclass(frozen=True)
class LagJudgement:
    """The health of a lag, and the reasons as sentences; PASS needs none."""

    health: Health
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join(self.reasons) or "It is within its limits."


@dataclass(frozen=True)
class LagLimits:
    """How far a query may be behind.

    :param max_records: records, all partitions together; None = not judged.
    :param max_seconds: age of the oldest record that is not committed; None = not judged.
    :param per_partition: `max_records` counts for each partition, not for their sum.
    :param verdicts: Burrow's verdicts on a partition that are bad; none = not judged.
    :param alarms: alarms that are bad; they are raised beyond `ceilings`.
    """

    max_records: int | None = None
    max_seconds: float | None = None
    per_partition: bool = False
    verdicts: tuple[Verdict, ...] = BAD
    alarms: tuple[Alarm, ...] = tuple(Alarm)
    ceilings: Ceilings = field(default_factory=Ceilings)

    def without(self, alarm: Alarm) -> LagLimits:
        """Return these limits, but ignoring one alarm."""
        return replace(self, alarms=tuple(other for other in self.alarms if other is not alarm))

    @property
    def moments(self) -> Moments:
        """The numbers that a report must have exactly to be judged by these limits."""
        ages = (self.max_seconds, self.ceilings.commit_age)
        return Moments(ages=frozenset(age for age in ages if age is not None))

    def judge(self, report: LagReport) -> LagJudgement:
        """Judge a report, best one that was asked for `moments`."""
        beyond = tuple(reason for query in report.queries for reason in self._beyond(query))
        if beyond:
            return LagJudgement(Health.FAIL, beyond)
        if not report.queries:
            return LagJudgement(Health.UNKNOWN, ("No query that reads Kafka has started yet.",))
        unknown = tuple(reason for query in report.queries for reason in self._unknown(query))
        return LagJudgement(Health.UNKNOWN if unknown else Health.PASS, unknown)

    def _beyond(self, query: QueryLag) -> Iterator[str]:
        name = query.query
        if self.max_records is not None:
            worst = query.worst
            if self.per_partition:
                if worst is not None and (worst.lag or 0) > self.max_records:
                    yield (
                        f"{name} is behind by {count(worst.lag, 'record')} in {_named(worst)}; "
                        f"{count(self.max_records)} are allowed."
                    )
            elif query.records is not None and query.records > self.max_records:
                yield f"{name} is behind by {count(query.records, 'record')}; {count(self.max_records)} are allowed."
        if self.max_seconds is not None and query.older(self.max_seconds):
            yield (
                f"{name} has not committed a record that is {duration(max(query.seconds or 0, self.max_seconds))} old; "
                f"{duration(self.max_seconds)} are allowed."
            )
        for verdict in self.verdicts:
            found = query.by_verdict.get(verdict, ())
            if found:
                yield f"{name} {_VERDICTS[verdict]} ({verdict.value}) in {_several(found, len(query.partitions))}."
        for alarm in query.alarms(self.ceilings):
            if alarm in self.alarms:
                yield f"{name}: {_sentence(alarm, query)}."

    def _unknown(self, query: QueryLag) -> Iterator[str]:
        if not query.complete:
            unknown = len(query.unknown)
            yield query.problem or (
                f"The lag of {query.query} is unknown in {unknown} of {len(query.partitions)} partitions."
                if query.partitions
                else f"The lag of {query.query} is unknown."
            )
        elif self.max_seconds is not None and query.older(self.max_seconds) is None:
            yield f"The age of the oldest record that {query.query} has not committed is unknown."
        elif undecided := [alarm for alarm in query.undecided(self.ceilings) if alarm in self.alarms]:
            yield query.problem or f"{query.query}: {_UNDECIDED[undecided[0]]}."
        elif self.verdicts and None in query.by_verdict:
            yield (
                f"The commit times of {query.query} are unknown, as its checkpoint cannot be read here: mount it, "
                "or judge without verdicts."
                if query.commit_age is None
                else f"Whether {query.query} keeps up is unknown: its driver's heartbeat does not say for how long it "
                "waits by design."
                if query.quiet_until is None
                else f"Too few commits of {query.query} are known for a verdict yet: it has just begun, or its "
                "checkpoint cannot be read here and it reads very many partitions."
            )

    def to_json(self) -> dict[str, Any]:
        """Return the limits as a JSON object."""
        found: dict[str, Any] = _stored().dump_python(self, mode="json")
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LagLimits:
        """Return the limits that `to_json` wrote; fields that this version does not know are ignored."""
        return _stored().validate_python(data)


@cache
def _stored() -> TypeAdapter[LagLimits]:
    return TypeAdapter(LagLimits)


def _named(partition: PartitionLag) -> str:
    return f"{partition.topic}-{partition.partition}"


def _several(partitions: tuple[PartitionLag, ...], all_of_them: int) -> str:
    if len(partitions) == 1:
        return _named(partitions[0])
    names = ", ".join(_named(partition) for partition in partitions[:3])
    return f"{len(partitions)} of {all_of_them} partitions ({names}{', …' if len(partitions) > 3 else ''})"


def _sentence(alarm: Alarm, query: QueryLag) -> str:
    if alarm is Alarm.COMMIT_AGE:
        return f"no commit for {duration(query.commit_age)}, while unread records are as old"
    if alarm is Alarm.RETENTION:
        return f"Kafka deletes unread records in {duration(query.retention_seconds)}"
    if alarm is Alarm.STUCK_TRANSACTION:
        by = f" ({query.held_by})" if query.held_by else ""
        return f"a transaction open for {duration(query.held_seconds)}{by} hides the records behind it"
    if alarm is Alarm.TOPIC_RECREATED:
        topics, were = ("topics", "were") if len(query.recreated) > 1 else ("topic", "was")
        return (
            f"the {topics} {', '.join(query.recreated)} {were} deleted and made anew, so its offsets are those of "
            "other records, and some may have been skipped; give it a new checkpoint, and a file sink a new folder, "
            "or, once that is made good, upgrade it with `PATH: source`, with its checkpoint, in the form's "
            "`changed_checkpoints` (docs/lag.md)"
        )
    return f"Kafka deleted {count(query.lost, 'record')} before they were read"


@dataclass
class Streaks:
    """When the present run of bad, good or unknown looks began (seconds since 1970); None = there is no such run now.

    An unknown look ends neither a bad nor a good run: only the opposite health does.
    """

    bad: float | None = None
    good: float | None = None
    unknown: float | None = None

    def add(self, health: Health, at: float) -> None:
        """Update the runs with the health of one look."""
        if health is Health.UNKNOWN:
            self.unknown = at if self.unknown is None else self.unknown
            return
        self.unknown = None
        if health is Health.FAIL:
            self.bad, self.good = (at if self.bad is None else self.bad), None
        else:
            self.good, self.bad = (at if self.good is None else self.good), None


@dataclass(frozen=True)
class LagLook:
    """The finding of one moment.

    :param at: seconds since 1970.
    :param report: None when the lag could not be measured.
    :param problem: why it could not be measured; empty when it was.
    """

    at: float
    report: LagReport | None
    problem: str = ""

    @classmethod
    def of(cls, report: LagReport) -> LagLook:
        """Build the look that found this report."""
        return cls(report.at, report)

    @classmethod
    def failed(cls, error: Exception, at: float | None = None) -> LagLook:
        """Build the look that found only this error. `at`: default now."""
        return cls(time.time() if at is None else at, None, str(error))

    def judge(self, limits: LagLimits) -> LagJudgement:
        """Judge the report; UNKNOWN when there is none."""
        if self.report is None:
            return LagJudgement(Health.UNKNOWN, (self.problem,))
        return limits.judge(self.report)
