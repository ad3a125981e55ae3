"""The tables of the audit's checks in docs/audit.md. Why and by which command each is put right, a finding says."""

from __future__ import annotations

from airflow_stream_provider.audit.check import Severity
from airflow_stream_provider.audit.checks import CHECKS


def table() -> str:
    """Return the tables of all checks, one for each severity, in Markdown."""
    return "\n".join(_table(severity) for severity in sorted(Severity, reverse=True))


def _table(severity: Severity) -> str:
    rows = [(severity.label, "wanted"), ("---",) * 2]
    rows += [(f"`{each.name}`", each.wanted) for each in CHECKS if each.severity is severity]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |\n" for row in rows)
