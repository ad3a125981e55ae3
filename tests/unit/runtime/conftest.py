"""No unit test of the runtime meets the Spark session that an integration test left in this process; and fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from airflow_stream_provider.runtime import managed_query, query_group, query_starts
from tests.support.fake_queries import Query, Time, at_once


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide it: pytest gives a worker's process unit and integration tests in any order."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)


@pytest.fixture
def query(tmp_path: Path) -> Query:
    return Query(tmp_path / "orders")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    """The clock of a query group, which does at once what it would do in other threads."""
    found = Time()
    for module in (query_group, query_starts):
        monkeypatch.setattr(module, "time", found)
    for module in (managed_query, query_starts):
        monkeypatch.setattr(module, "start", at_once)
    return found
