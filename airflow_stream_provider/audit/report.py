"""What an audit has found, as values for programs and as text for people."""

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
    """The findings, the worst first, at one time (s since 1970).

    `held` counts by check the topics, brokers and so on for which it holds: a check that is in neither had nothing to
    look at.
    """

    at: float
    topics: tuple[str, ...]
    findings: tuple[Finding, ...]
    held: Mapping[str, int]

    def failing(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of this severity or a worse one; what could not be read may be as bad as it gets.

        What no broker can know is not among them: whoever wants it judged declares it.
        """
        return tuple(
            finding
            for finding in self.findings
            if finding.severity >= severity and finding.outcome is not CheckResult.UNVERIFIABLE
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "at": self.at,
            "topics": list(self.topics),
            "findings": [finding.to_json() for finding in self.findings],
            "held": dict(self.held),
        }

    def __str__(self) -> str:
        counts = Counter(finding.outcome for finding in self.findings)
        parts = [f"{counts[outcome]} {outcome}" for outcome in CheckResult]
        return f"{', '.join(self.topics)}: {', '.join(parts)}, {sum(self.held.values())} hold"


def judge(facts: Facts, needs: Requirements) -> AuditReport:
    """Hold every check against the facts; pure."""
    held: Counter[str] = Counter()
    findings = [finding for check in CHECKS for finding in check.findings(facts, needs, held)]
    findings.sort(key=lambda finding: (-finding.severity, list(CheckResult).index(finding.outcome)))
    return AuditReport(facts.at, tuple(topic.name for topic in facts.topics), tuple(findings), dict(held))


def table() -> str:
    """Return the checks as the table of `docs/audit.md`."""
    rows = [("check", "severity", "wanted", "why", "fix"), ("---",) * 5]
    for each in CHECKS:
        fix = f"`{template_for_docs(each.fix)}`"
        rows.append((f"`{each.name}`", each.severity.label, each.wanted, each.why, fix))
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |\n" for row in rows)
