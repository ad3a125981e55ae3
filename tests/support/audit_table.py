"""The table of the audit's checks in docs/audit.md."""

from __future__ import annotations

import string

from airflow_stream_provider.audit.checks import CHECKS


def template_for_docs(template: str) -> str:
    """Return a template with its names in capitals."""
    names = {name for _, name, _, _ in string.Formatter().parse(template) if name}
    known = {name: name.upper() for name in names}
    server = "--bootstrap-server HOST:PORT"
    return template.format_map({**known, "pattern": "TOPIC", "server": server, "cluster": server})


def table() -> str:
    """Return the table of all checks, in Markdown."""
    rows = [("check", "severity", "wanted", "why", "fix"), ("---",) * 5]
    for each in CHECKS:
        fix = f"`{template_for_docs(each.fix)}`"
        rows.append((f"`{each.name}`", each.severity.label, each.wanted, each.why, fix))
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |\n" for row in rows)
