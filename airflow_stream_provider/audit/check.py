"""A check is a row: name, severity, what is wanted and why, the change that fixes it, and a function of the facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Generic, Protocol, TypeVar

from airflow_stream_provider.lifecycle.errors import SpecError


class NotRead(Exception):
    """A check lacks what could not be read. The message is the reason for the report."""


class NotVerifiable(Exception):
    """A check needs what nothing tells, or was not declared. The message names it for the report."""


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

    BROKEN: the check does not hold. NO_EFFECT: a setting stands where nothing reads it. UNREAD: what the check needs
    could not be read. UNVERIFIABLE: nothing tells what the check needs, and it was not declared.
    """

    BROKEN = "broken"
    NO_EFFECT = "has no effect"
    UNREAD = "could not read"
    UNVERIFIABLE = "not verifiable"


@dataclass(frozen=True)
class Broken:
    """The fault that a check found.

    :param found: what is wrong, for the report.
    :param values: values for the names in braces in the command that fixes it.
    :param fix: what to use in place of the check's own; default empty: the check's own.
    :param result: BROKEN, or NO_EFFECT.
    """

    found: str
    values: Mapping[str, object] = field(default_factory=dict)
    fix: str = ""
    result: CheckResult = CheckResult.BROKEN


def broken_if(bad: object, found: str, fix: str = "", **values: object) -> Broken | None:
    """Return the fault, or None if the check holds; see `Broken`."""
    return Broken(found, values, fix) if bad else None


class Subject(Protocol):
    """The object of a check: a topic, a broker, the cluster or the clients."""

    @property
    def title(self) -> str:
        """Its name in a finding, such as ``topic orders``."""


S = TypeVar("S", bound=Subject)
F = TypeVar("F")
R = TypeVar("R")


@dataclass(frozen=True)
class Finding:
    """A check that does not hold for a subject, or that could not be decided.

    :param check: name of the check.
    :param severity: severity of the check.
    :param result: why it is here.
    :param subject: what was examined, such as ``topic orders``.
    :param found: what is wrong, or why the check could not be decided.
    :param wanted: what the check wants.
    :param why: why it matters.
    :param fix: the change that fixes it; empty if the check could not be decided.
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
        if self.result in (CheckResult.UNREAD, CheckResult.UNVERIFIABLE):
            return f"{text}: {self.result}. {self.found}"
        return f"{text}: {self.found}; wanted: {self.wanted}. Fix: {self.fix}"


@dataclass(frozen=True)
class Check(Generic[S, F, R]):
    """A row in the table of checks: of subjects S, by facts F, against requirements R.

    :param name: the check's name in reports.
    :param severity: how bad it is if the check does not hold.
    :param scope: returns what it examines; it looks at each.
    :param wanted: what it wants, for the report.
    :param why: why that matters.
    :param fix: template of the change that fixes it: a command, or settings of Spark.
    :param look: returns what is wrong with a subject, or None if the check holds. Raises NotRead or NotVerifiable if
        that cannot be decided.
    """

    name: str
    severity: Severity
    scope: Callable[[F, R], Iterable[S]]
    wanted: str
    why: str
    fix: str
    look: Callable[[S, F, R], Broken | None]


def findings(
    checks: Iterable[Check[Any, F, R]],
    facts: F,
    requirements: R,
    held: Counter[str],
    fix: Callable[[str, Any, Mapping[str, object]], str],
) -> Iterator[Finding]:
    """Yield a finding for each subject for which a check does not hold or cannot be decided.

    :param held: counts, by name of the check, the subjects for which it holds; updated here.
    :param fix: makes the change of a template, a subject and values for the names in the template.
    """
    for check in checks:
        for subject in check.scope(facts, requirements):
            change = ""
            try:
                broken = check.look(subject, facts, requirements)
                if broken is None:
                    held[check.name] += 1
                    continue
                result, found = broken.result, broken.found
                change = fix(broken.fix or check.fix, subject, broken.values)
            except NotRead as error:
                result, found = CheckResult.UNREAD, str(error)
            except NotVerifiable as error:
                result, found = CheckResult.UNVERIFIABLE, str(error)
            yield Finding(check.name, check.severity, result, subject.title, found, check.wanted, check.why, change)
