"""All checks of Spark, in the order of the documentation."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.audit.check import Check
from airflow_stream_provider.audit.spark.checks import application, clusters, measured, queries
from airflow_stream_provider.audit.spark.facts import SparkFacts

CHECKS: tuple[Check[Any, SparkFacts, None], ...] = (
    *queries.CHECKS,
    *application.CHECKS,
    *measured.CHECKS,
    *clusters.CHECKS,
)
