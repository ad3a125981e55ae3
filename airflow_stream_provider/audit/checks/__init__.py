"""All checks of an audit, in the order of the documentation."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.audit.check import Check
from airflow_stream_provider.audit.checks import clients, cluster, defaults, live, records, replication, retention

CHECKS: tuple[Check[Any], ...] = (
    *replication.CHECKS,
    *live.ON_TOPICS,
    *cluster.ON_THE_CLUSTER,
    *cluster.ON_BROKERS,
    *retention.ON_TOPICS,
    *retention.ON_BROKERS,
    *records.ON_TOPICS,
    *records.ON_BROKERS,
    *defaults.CHECKS,
    *clients.CHECKS,
)
