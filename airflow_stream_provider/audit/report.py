"""The report of an audit, as JSON and as text."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from airflow_stream_provider.audit.check import CheckResult, Finding, Severity, findings
from airflow_stream_provider.audit.kafka.checks import CHECKS
from airflow_stream_provider.audit.kafka.commands import fix_for
from airflow_stream_provider.audit.kafka.facts import Facts, Requirements
from airflow_stream_provider.audit.spark.checks import CHECKS as SPARK_CHECKS
from airflow_stream_provider.audit.spark.facts import SparkFacts
from airflow_stream_provider.lifecycle.errors import SpecError


@dataclass(frozen=True)
class Waiver:
    """Accept the findings of one check until a day: they stay in the report, and do not fail the task.

    :param check: name of the check.
    :param reason: why they are accepted, for the report.
    :param until: the last day on which it holds, in UTC.
    :param subject: what it is about, as findings name it, such as ``topic orders``, ``broker 3`` or ``the cluster``;
        default empty: everything that the check examines.
    :raises SpecError: there is no such check, the reason is empty, or `until` is not a day.
    """

    check: str
    reason: str
    until: date
    subject: str = ""

    def __post_init__(self) -> None:
        """Refuse what could never hold."""
        known = [each.name for each in (*CHECKS, *SPARK_CHECKS)]
        if self.check not in known:
            close = difflib.get_close_matches(self.check, known, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else "docs/audit.md lists them."
            raise SpecError(f"The audit has no check {self.check!r} to waive.", next_step=hint, check=self.check)
        if not self.reason.strip():
            raise SpecError(f"The waiver of {self.check} has no reason.", next_step="Give reason=.", check=self.check)
        # A datetime is a date to Python, but has no place in a comparison of days.
        if not isinstance(self.until, date) or isinstance(self.until, datetime):
            raise SpecError(
                f"The waiver of {self.check} has no day as its end: {self.until!r}.",
                next_step="Give until=datetime.date(YEAR, MONTH, DAY).",
                check=self.check,
            )

    def expired(self, at: float) -> bool:
        """Return whether its last day is over.

        :param at: the time of the audit, in seconds since 1970.
        """
        return datetime.fromtimestamp(at, UTC).date() > self.until

    def covers(self, finding: Finding) -> bool:
        """Return whether it is about a finding, expired or not."""
        return self.check == finding.check and self.subject in ("", finding.subject)

    def __str__(self) -> str:
        subject = f", {self.subject}" if self.subject else ""
        return f"{self.check}{subject}, until {self.until.isoformat()}: {self.reason}"


def waiver_of(finding: Finding, waivers: Sequence[Waiver], at: float) -> Waiver | None:
    """Return the waiver that holds for a finding; of several the one that holds longest. None: it is not waived."""
    holding = [waiver for waiver in waivers if waiver.covers(finding) and not waiver.expired(at)]
    return max(holding, key=lambda waiver: waiver.until, default=None)


@dataclass(frozen=True)
class AuditReport:
    """The result of an audit.

    :param at: when the facts were read, in seconds since 1970.
    :param topics: the audited topics; none of an audit of Spark.
    :param findings: the findings, the worst first.
    :param held: for how many topics, queries and so on each check holds. A check that is neither here nor in the
        findings had nothing to examine.
    :param expired: the waivers whose last day is over; they count as none.
    """

    at: float
    topics: tuple[str, ...]
    findings: tuple[Finding, ...]
    held: Mapping[str, int]
    expired: tuple[Waiver, ...] = ()

    def failing(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of a severity or worse, with those that could not be read.

        Findings that are not verifiable are left out, because they only mean that something was not declared. So are
        those that are waived.
        """
        return tuple(
            finding
            for finding in self.findings
            if finding.severity >= severity and finding.result is not CheckResult.UNVERIFIABLE and not finding.waived
        )

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "at": self.at,
            "topics": list(self.topics),
            "findings": [finding.to_json() for finding in self.findings],
            "held": dict(self.held),
            "expired_waivers": [str(waiver) for waiver in self.expired],
        }

    def __str__(self) -> str:
        counts = Counter("waived" if finding.waived else finding.result.value for finding in self.findings)
        names = [name for name in (*CheckResult, "waived") if counts[name] or name is not CheckResult.NO_EFFECT]
        parts = [f"{counts[name]} {name}" for name in names]
        return f"{', '.join(self.topics) or 'Spark'}: {', '.join(parts)}, {sum(self.held.values())} hold"


def judge(facts: Facts, requirements: Requirements, waivers: Sequence[Waiver] = ()) -> AuditReport:
    """Run every check of Kafka on the facts and return the report. Pure: no I/O.

    :param waivers: the findings that are accepted; default none.
    """
    held: Counter[str] = Counter()
    found = findings(CHECKS, facts, requirements, held, fix_for(facts))
    grouped = _together(_waived(found, waivers, facts.at), {broker.title for broker in facts.brokers})
    return _report(facts.at, tuple(topic.name for topic in facts.topics), grouped, held, waivers)


def judge_spark(facts: SparkFacts, waivers: Sequence[Waiver] = ()) -> AuditReport:
    """Run every check of Spark on the facts and return the report. Pure: no I/O.

    :param waivers: the findings that are accepted; default none.
    """
    held: Counter[str] = Counter()
    found = findings(SPARK_CHECKS, facts, None, held, facts.fix)
    return _report(facts.at, (), _waived(found, waivers, facts.at), held, waivers)


def together(reports: Sequence[AuditReport]) -> AuditReport:
    """Return several reports as one; none make one that has nothing."""
    found = [finding for report in reports for finding in report.findings]
    held = Counter[str]()
    for report in reports:
        held.update(report.held)
    topics = tuple(topic for report in reports for topic in report.topics)
    expired = [waiver for report in reports for waiver in report.expired]
    one = _report(max((each.at for each in reports), default=0.0), topics, found, held, ())
    return replace(one, expired=tuple(dict.fromkeys(expired)))


def _report(
    at: float, topics: tuple[str, ...], found: Iterable[Finding], held: Mapping[str, int], waivers: Sequence[Waiver]
) -> AuditReport:
    worst_first = sorted(found, key=lambda each: (-each.severity, list(CheckResult).index(each.result)))
    expired = tuple(waiver for waiver in waivers if waiver.expired(at))
    return AuditReport(at, topics, tuple(worst_first), dict(held), expired)


def _waived(findings: Iterable[Finding], waivers: Sequence[Waiver], at: float) -> Iterator[Finding]:
    for finding in findings:
        waiver = waiver_of(finding, waivers, at)
        yield replace(finding, waived=f"until {waiver.until.isoformat()}: {waiver.reason}") if waiver else finding


def _together(findings: Iterable[Finding], brokers: set[str]) -> Iterator[Finding]:
    """Make one finding of those that differ only in the broker: a hundred brokers have the same settings."""
    groups: dict[Finding, list[str]] = {}
    for finding in findings:
        one = replace(finding, subject="") if finding.subject in brokers else finding
        groups.setdefault(one, []).append(finding.subject)
    for one, subjects in groups.items():
        if len(subjects) == 1:
            yield replace(one, subject=subjects[0])
        else:
            yield replace(one, subject=f"brokers {', '.join(each.removeprefix('broker ') for each in subjects)}")
