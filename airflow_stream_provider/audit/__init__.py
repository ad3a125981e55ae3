"""Durability audit of Kafka: find what can lose a stream's records, and give the command that fixes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from airflow_stream_provider.audit.check import CheckResult, Finding, Severity
from airflow_stream_provider.audit.kafka.commands import tool_arguments
from airflow_stream_provider.audit.kafka.facts import Requirements
from airflow_stream_provider.audit.kafka.read import gather
from airflow_stream_provider.audit.report import AuditReport, Waiver, judge

if TYPE_CHECKING:
    from airflow_stream_provider.kafka.client import KafkaClient

__all__ = ["AuditReport", "CheckResult", "Finding", "Requirements", "Severity", "Waiver", "audit", "tool_arguments"]


def audit(
    client: KafkaClient,
    topics: Iterable[str],
    requirements: Requirements,
    server: Sequence[str],
    waivers: Sequence[Waiver] = (),
) -> AuditReport:
    """Read the facts about topics and their cluster from Kafka, and run every check on them. Changes nothing.

    :param topics: names of the topics to audit.
    :param requirements: what the stream needs of Kafka, and the declared settings of its clients.
    :param server: arguments with which Kafka's command line tools reach the cluster, from `tool_arguments`.
    :param waivers: findings that are accepted; default none.
    :raises StreamError: Kafka does not answer, or denies every request.
    """
    return judge(gather(client, topics, server), requirements, waivers)
