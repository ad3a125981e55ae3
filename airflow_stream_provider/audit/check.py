"""What a check is: a name, a severity, what is wanted and why, the command that fixes it, and a pure look at facts."""

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
    """How bad it is when a check does not hold; ordered."""

    INFO = 1
    LOW = 2
    MEDIUM = 3
    HIGH = 4
    CRITICAL = 5

    @property
    def label(self) -> str:
        """The name in reports."""
        return self.name.lower()

    @classmethod
    def of(cls, label: str) -> Severity:
        """Return the severity of this name; raise SpecError for another."""
        try:
            return cls[label.upper()]
        except KeyError:
            known = ", ".join(severity.label for severity in cls)
            raise SpecError(f"{label!r} is no severity.", next_step=f"Take one of {known}.", severity=label) from None


class CheckResult(StrEnum):
    """Why a check is in the report: what is wrong, or why nobody can say. A check that holds is only counted."""

    BROKEN = "broken"
    UNREAD = "could not read"
    UNVERIFIABLE = "not verifiable"


@dataclass(frozen=True)
class Broken:
    """What a look found wrong, and the values for the command that fixes it; `fix` replaces the check's command."""

    found: str
    values: Mapping[str, object] = field(default_factory=dict)
    fix: str = ""


class Subject(Protocol):
    """What a check looks at."""

    @property
    def title(self) -> str:
        """What a finding calls it."""


S = TypeVar("S", bound=Subject)


@dataclass(frozen=True)
class Scope(Generic[S]):
    """Which things a check looks at, each on its own."""

    subjects: Callable[[Facts, Requirements], Iterable[S]]


def _known(topics: Iterable[Topic]) -> Iterable[Topic]:
    # `topic-readable` reports the others, once.
    return (topic for topic in topics if not topic.problem)


TOPICS: Scope[Topic] = Scope(lambda facts, _: _known(facts.topics))
"""The audited topics."""
ALL_TOPICS: Scope[Topic] = Scope(lambda facts, _: _known((*facts.topics, *facts.internal)))
"""The audited topics, `__consumer_offsets` and `__transaction_state`, which nobody else's records are safe without."""
NAMED_TOPICS: Scope[Topic] = Scope(lambda facts, _: (*facts.topics, *(t for t in facts.internal if not t.missing)))
"""The same with those that cannot be read. Kafka makes the internal ones when they are first needed."""
BROKERS: Scope[BrokerFacts] = Scope(lambda facts, _: facts.live)
CLUSTER: Scope[Facts] = Scope(lambda facts, _: (facts,))
CLIENTS: Scope[Requirements] = Scope(lambda _, needs: (needs,))


@dataclass(frozen=True)
class Finding:
    """A check that does not hold for a subject, or cannot be decided."""

    check: str
    severity: Severity
    outcome: CheckResult
    subject: str
    found: str
    wanted: str
    why: str
    fix: str

    def to_json(self) -> dict[str, str]:
        """Return it as plain values."""
        return {**asdict(self), "severity": self.severity.label, "outcome": self.outcome.value}

    def __str__(self) -> str:
        text = f"{self.severity.label.upper()} {self.check}, {self.subject}"
        if self.outcome is not CheckResult.BROKEN:
            return f"{text}: {self.outcome}. {self.found}"
        return f"{text}: {self.found}; wanted: {self.wanted}. Fix: {self.fix}"


@dataclass(frozen=True)
class Check(Generic[S]):
    """A named check. `look` returns what is wrong, or None; it raises NotRead or NotVerifiable when it cannot say."""

    name: str
    severity: Severity
    scope: Scope[S]
    wanted: str
    why: str
    fix: str
    look: Callable[[S, Facts, Requirements], Broken | None]

    def findings(self, facts: Facts, needs: Requirements, held: Counter[str]) -> Iterator[Finding]:
        """Look at every subject, count those for which the check holds in `held`, and yield the others."""
        for subject in self.scope.subjects(facts, needs):
            fix, values = self.fix, _names(subject)
            try:
                broken = self.look(subject, facts, needs)
                if broken is None:
                    held[self.name] += 1
                    continue
                outcome, found = CheckResult.BROKEN, broken.found
                fix, values = broken.fix or fix, {**values, **broken.values}
                fix = fill_template(fix, facts.server, values)
            except NotRead as error:
                outcome, found, fix = CheckResult.UNREAD, str(error), ""
            except NotVerifiable as error:
                outcome, found, fix = CheckResult.UNVERIFIABLE, str(error), ""
            yield Finding(self.name, self.severity, outcome, subject.title, found, self.wanted, self.why, fix)


def check(
    name: str, severity: Severity, scope: Scope[S], *, wanted: str, why: str, fix: str
) -> Callable[[Callable[[S, Facts, Requirements], Broken | None]], Check[S]]:
    """Make a check of the function that looks."""
    return lambda look: Check(name, severity, scope, wanted, why, fix, look)


def _names(subject: Any) -> dict[str, object]:
    if isinstance(subject, Topic):
        return {"topic": subject.name}
    return {"broker": subject.id} if isinstance(subject, BrokerFacts) else {}
