"""All checks of an audit, in the order of the documentation."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.audit.check import Check
from airflow_stream_provider.audit.checks import clients, settings, state, topics

CHECKS: tuple[Check[Any], ...] = (
    *topics.CHECKS,
    *state.ON_TOPICS,
    *state.ON_THE_CLUSTER,
    *state.ON_BROKERS,
    *topics.ON_TOPICS,
    *topics.ON_BROKERS,
    *settings.ON_TOPICS,
    *settings.ON_BROKERS,
    *settings.CHECKS,
    *clients.CHECKS,
)
