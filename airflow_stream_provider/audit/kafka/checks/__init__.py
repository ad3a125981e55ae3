"""All checks of an audit, in the order of the documentation."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.audit.check import Check
from airflow_stream_provider.audit.kafka.checks import records, replicas, settings

CHECKS: tuple[Check[Any, Any, Any], ...] = (*replicas.CHECKS, *records.CHECKS, *settings.CHECKS)
