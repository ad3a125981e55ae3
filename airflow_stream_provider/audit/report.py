"""The report of an audit, as JSON and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_stream_provider.audit.check import CheckResult, Finding, Severity
from airflow_stream_provider.audit.checks import CHECKS
from airflow_stream_provider.audit.facts import Facts, Requirements
from airflow_stream_provider.audit.fix import template_for_docs
from airflow_stream_provider.audit.waiver import Waiver, waiver_of


@dataclass(frozen=True)
class AuditReport:
    """The result of an audit.

    :param at: when the facts were read, in seconds since 1970.
    :param topics: the audited topics.
    :param findings: the findings, the worst first.
    :param held: for how many topics, brokers and so on each check holds. A check that is neither here nor in the
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
        parts = [f"{counts[name]} {name}" for name in (*CheckResult, "waived")]
        return f"{', '.join(self.topics)}: {', '.join(parts)}, {sum(self.held.values())} hold"


def judge(facts: Facts, requirements: Requirements, waivers: Sequence[Waiver] = ()) -> AuditReport:
    """Run every check on the facts and return the report. Pure: no I/O.

    :param waivers: the findings that are accepted; default none.
    """
    held: Counter[str] = Counter()
    found = (finding for check in CHECKS for finding in check.findings(facts, requirements, held))
    findings = list(_together(_waived(found, waivers, facts.at), {broker.title for broker in facts.brokers}))
    findings.sort(key=lambda finding: (-finding.severity, list(CheckResult).index(finding.result)))
    expired = tuple(waiver for waiver in waivers if waiver.expired(facts.at))
    return AuditReport(facts.at, tuple(topic.name for topic in facts.topics), tuple(findings), dict(held), expired)


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


def table() -> str:
    """Return the table of all checks, in Markdown, for `docs/audit.md`."""
    rows = [("check", "severity", "wanted", "why", "fix"), ("---",) * 5]
    for each in CHECKS:
        fix = f"`{template_for_docs(each.fix)}`"
        rows.append((f"`{each.name}`", each.severity.label, each.wanted, each.why, fix))
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |\n" for row in rows)
