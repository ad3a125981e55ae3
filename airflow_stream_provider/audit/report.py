"""The report of an audit, as JSON and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.audit.check import CheckResult, Finding, Severity
from airflow_stream_provider.audit.checks import CHECKS
from airflow_stream_provider.audit.facts import Facts, Requirements
from airflow_stream_provider.audit.fix import template_for_docs


@dataclass(frozen=True)
class AuditReport:
    """The result of an audit.

    :param at: when the facts were read, in seconds since 1970.
    :param topics: the audited topics.
    :param findings: the findings, the worst first.
    :param held: for how many topics, brokers and so on each check holds. A check that is neither here nor in the
        findings had nothing to examine.
    """

    at: float
    topics: tuple[str, ...]
    findings: tuple[Finding, ...]
    held: Mapping[str, int]

    def failing(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of a severity or worse, with those that could not be read.

        Findings that are not verifiable are left out, because they only mean that something was not declared.
        """
        return tuple(
            finding
            for finding in self.findings
            if finding.severity >= severity and finding.result is not CheckResult.UNVERIFIABLE
        )

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "at": self.at,
            "topics": list(self.topics),
            "findings": [finding.to_json() for finding in self.findings],
            "held": dict(self.held),
        }

    def __str__(self) -> str:
        counts = Counter(finding.result for finding in self.findings)
        parts = [f"{counts[result]} {result}" for result in CheckResult]
        return f"{', '.join(self.topics)}: {', '.join(parts)}, {sum(self.held.values())} hold"


def judge(facts: Facts, requirements: Requirements) -> AuditReport:
    """Run every check on the facts and return the report. Pure: no I/O."""
    held: Counter[str] = Counter()
    findings = [finding for check in CHECKS for finding in check.findings(facts, requirements, held)]
    findings.sort(key=lambda finding: (-finding.severity, list(CheckResult).index(finding.result)))
    return AuditReport(facts.at, tuple(topic.name for topic in facts.topics), tuple(findings), dict(held))


def table() -> str:
    """Return the table of all checks, in Markdown, for `docs/audit.md`."""
    rows = [("check", "severity", "wanted", "why", "fix"), ("---",) * 5]
    for each in CHECKS:
        fix = f"`{template_for_docs(each.fix)}`"
        rows.append((f"`{each.name}`", each.severity.label, each.wanted, each.why, fix))
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |\n" for row in rows)
