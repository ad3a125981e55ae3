"""No unit test of the runtime meets the real Spark session that an integration test left in this process."""

from __future__ import annotations

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide it: pytest gives a worker's process unit and integration tests in any order."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)
