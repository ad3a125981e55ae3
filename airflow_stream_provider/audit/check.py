"""A check: name, severity, what is wanted and why, the command that fixes it, and a pure function of the facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Generic, Protocol, TypeVar

from airflow_stream_provider.audit.facts import BrokerFacts, Facts, NotRead, NotVerifiable, Requirements, Topic
from airflow_stream_provider.audit.fix import fill_template
from airflow_stream_provider.lifecycle.errors import SpecError


class Severity(IntEnum):
    """The severity of a check that does not hold; a larger value is worse."""

    INFO = 1
    LOW = 2
    MEDIUM = 3
    HIGH = 4
    CRITICAL = 5

    @property
    def label(self) -> str:
        """The name of the severity in reports, such as ``high``."""
        return self.name.lower()

    @classmethod
    def of(cls, label: str) -> Severity:
        """Return the severity with a name, in upper or lower case.

        :raises SpecError: there is no severity of this name.
        """
        try:
            return cls[label.upper()]
        except KeyError:
            known = ", ".join(severity.label for severity in cls)
            raise SpecError(f"{label!r} is not a severity.", next_step=f"Use one of {known}.", severity=label) from None


class CheckResult(StrEnum):
    """Why a check is in the report. Checks that hold are only counted.

    BROKEN: the check does not hold. UNREAD: Kafka did not return what the check needs. UNVERIFIABLE: brokers do not
    know what the check needs, and it was not declared.
    """

    BROKEN = "broken"
    UNREAD = "could not read"
    UNVERIFIABLE = "not verifiable"


@dataclass(frozen=True)
class Broken:
    """The fault that a check found.

    :param found: what is wrong, for the report.
    :param values: values for the names in braces in the command that fixes it.
    :param fix: a command to use in place of the check's own; default empty: the check's own.
    """

    found: str
    values: Mapping[str, object] = field(default_factory=dict)
    fix: str = ""


class Subject(Protocol):
    """The object of a check: a topic, a broker, the cluster or the clients."""

    @property
    def title(self) -> str:
        """Its name in a finding, such as ``topic orders``."""


S = TypeVar("S", bound=Subject)


@dataclass(frozen=True)
class Scope(Generic[S]):
    """The subjects of a check.

    :param subjects: returns them from the facts and the requirements. The check runs once for each.
    """

    subjects: Callable[[Facts, Requirements], Iterable[S]]


def _known(topics: Iterable[Topic]) -> Iterable[Topic]:
    # Topics that could not be read are reported once, by `topic-readable`.
    return (topic for topic in topics if not topic.problem)


TOPICS: Scope[Topic] = Scope(lambda facts, _: _known(facts.topics))
"""The audited topics."""
ALL_TOPICS: Scope[Topic] = Scope(lambda facts, _: _known((*facts.topics, *facts.internal)))
"""The audited topics, and `__consumer_offsets` and `__transaction_state`, on which all streams depend."""
NAMED_TOPICS: Scope[Topic] = Scope(lambda facts, _: (*facts.topics, *(t for t in facts.internal if not t.missing)))
"""`ALL_TOPICS` and the topics that cannot be read. An internal topic is left out until Kafka has created it."""
BROKERS: Scope[BrokerFacts] = Scope(lambda facts, _: facts.live)
CLUSTER: Scope[Facts] = Scope(lambda facts, _: (facts,))
CLIENTS: Scope[Requirements] = Scope(lambda _, requirements: (requirements,))


@dataclass(frozen=True)
class Finding:
    """A check that does not hold for a subject, or that could not be decided.

    :param check: name of the check.
    :param severity: severity of the check.
    :param result: whether the check does not hold, could not be read, or is not verifiable.
    :param subject: what was examined, such as ``topic orders``.
    :param found: what is wrong, or why the check could not be decided.
    :param wanted: what the check wants.
    :param why: why it matters.
    :param fix: the command that fixes it; empty if the check could not be decided.
    :param waived: the waiver that accepts it, such as ``until 2027-03-01: the test cluster has one broker``; empty if
        there is none.
    """

    check: str
    severity: Severity
    result: CheckResult
    subject: str
    found: str
    wanted: str
    why: str
    fix: str
    waived: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the finding as a JSON object."""
        return {**asdict(self), "severity": self.severity.label, "result": self.result.value}

    def __str__(self) -> str:
        text = f"{self.severity.label.upper()} {self.check}, {self.subject}"
        if self.waived:
            return f"{text}: waived {self.waived}. {self.result.capitalize()}: {self.found}"
        if self.result is not CheckResult.BROKEN:
            return f"{text}: {self.result}. {self.found}"
        return f"{text}: {self.found}; wanted: {self.wanted}. Fix: {self.fix}"


@dataclass(frozen=True)
class Check(Generic[S]):
    """A named check.

    :param name: the check's name in reports.
    :param severity: how bad it is if the check does not hold.
    :param scope: what it examines.
    :param wanted: what it wants, for the report.
    :param why: why that matters.
    :param fix: template of the command that fixes it; see `audit.fix`.
    :param look: returns what is wrong with a subject, or None if the check holds. Raises NotRead or NotVerifiable if
        that cannot be decided.
    """

    name: str
    severity: Severity
    scope: Scope[S]
    wanted: str
    why: str
    fix: str
    look: Callable[[S, Facts, Requirements], Broken | None]

    def findings(self, facts: Facts, requirements: Requirements, held: Counter[str]) -> Iterator[Finding]:
        """Yield a finding for each subject for which the check does not hold or cannot be decided.

        :param held: counts, by name of the check, the subjects for which it holds; updated here.
        """
        for subject in self.scope.subjects(facts, requirements):
            fix, values = self.fix, _names(subject)
            try:
                broken = self.look(subject, facts, requirements)
                if broken is None:
                    held[self.name] += 1
                    continue
                result, found = CheckResult.BROKEN, broken.found
                fix, values = broken.fix or fix, {**values, **broken.values}
                fix = fill_template(fix, facts.server, values)
            except NotRead as error:
                result, found, fix = CheckResult.UNREAD, str(error), ""
            except NotVerifiable as error:
                result, found, fix = CheckResult.UNVERIFIABLE, str(error), ""
            yield Finding(self.name, self.severity, result, subject.title, found, self.wanted, self.why, fix)


def check(
    name: str, severity: Severity, scope: Scope[S], *, wanted: str, why: str, fix: str
) -> Callable[[Callable[[S, Facts, Requirements], Broken | None]], Check[S]]:
    """Decorate a check's `look` function to make it a `Check`; see there for the parameters."""
    return lambda look: Check(name, severity, scope, wanted, why, fix, look)


def _names(subject: Any) -> dict[str, object]:
    if isinstance(subject, Topic):
        return {"topic": subject.name}
    return {"broker": subject.id} if isinstance(subject, BrokerFacts) else {}
