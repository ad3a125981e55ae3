"""A default is looked up by the version of Spark."""

from __future__ import annotations

import pytest

from airflow_stream_provider.audit.spark.defaults import default


@pytest.mark.parametrize(
    ("name", "version", "wanted"),
    [
        ("spark.eventLog.rolling.enabled", "3.5.7", "false"),
        ("spark.eventLog.rolling.enabled", "4.0.0", "true"),
        ("spark.eventLog.rolling.enabled", "4.10.1-SNAPSHOT", "true"),
        ("spark.eventLog.rolling.enabled", "3.4.0", None),
        ("spark.excludeOnFailure.enabled", "4.0.0", None),
        ("spark.no.such.setting", "4.0.0", None),
    ],
)
def test_the_last_default_up_to_that_version_counts(name: str, version: str, wanted: str | None) -> None:
    assert default(name, version) == wanted
