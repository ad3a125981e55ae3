"""Durability audit: would the topics, the cluster and its clients lose records of a stream, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from airflow_stream_provider.audit.check import CheckResult, Finding, Severity
from airflow_stream_provider.audit.facts import Requirements
from airflow_stream_provider.audit.fix import tool_arguments
from airflow_stream_provider.audit.read import gather
from airflow_stream_provider.audit.report import AuditReport, judge

if TYPE_CHECKING:
    from airflow_stream_provider.kafka.client import KafkaClient

__all__ = ["AuditReport", "CheckResult", "Finding", "Requirements", "Severity", "audit", "tool_arguments"]


def audit(client: KafkaClient, topics: Iterable[str], needs: Requirements, server: Sequence[str]) -> AuditReport:
    """Gather the facts about topics and their cluster, and hold every check against them.

    :param server: what Kafka's tools need to reach the cluster, as `tools` makes it from a connection.
    :raises StreamError: Kafka does not answer, or refuses us altogether.
    """
    return judge(gather(client, topics, server), needs)
