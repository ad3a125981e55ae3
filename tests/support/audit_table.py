"""The table of the audit's checks in docs/audit.md. Why and by which command each is put right, a finding says."""

from __future__ import annotations

from airflow_stream_provider.audit.checks import CHECKS


def table() -> str:
    """Return the table of all checks, in Markdown."""
    rows = [("check", "severity", "wanted"), ("---",) * 3]
    rows += [(f"`{each.name}`", each.severity.label, each.wanted) for each in CHECKS]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |\n" for row in rows)
