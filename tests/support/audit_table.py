"""The tables of the audit's checks in docs/audit.md. Why and by which command each is put right, a finding says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_stream_provider.audit.check import Check, Severity
from airflow_stream_provider.audit.kafka.checks import CHECKS as OF_KAFKA
from airflow_stream_provider.audit.spark.checks import CHECKS as OF_SPARK


def of_kafka() -> str:
    """Return the tables of all checks of Kafka, one for each severity, in Markdown."""
    return _tables(OF_KAFKA)


def of_spark() -> str:
    """Return the tables of all checks of Spark, likewise."""
    return _tables(OF_SPARK)


def _tables(checks: Sequence[Check[Any, Any, Any]]) -> str:
    return "\n".join(_table(severity, checks) for severity in sorted(Severity, reverse=True))


def _table(severity: Severity, checks: Sequence[Check[Any, Any, Any]]) -> str:
    rows = [(severity.label, "wanted"), ("---",) * 2]
    rows += [(f"`{each.name}`", each.wanted) for each in checks if each.severity is severity]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |\n" for row in rows)
