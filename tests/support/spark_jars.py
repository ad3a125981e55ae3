"""The Kafka connector of the Spark that the tests run on; not every Spark's can be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from devstack.jars import fetch, pinned, spark_connector
from devstack.spark import bundled_spark


def kafka_connector() -> list[Path]:
    """Return its jars; skip the test on a Spark whose connector is none of devstack/jars.sha256."""
    jars = spark_connector(bundled_spark())
    _, artifact, version = jars.coordinates[0].split(":")
    if f"{artifact}-{version}.jar" not in pinned():
        pytest.skip(f"the Kafka connector of Spark {version} is not to be had: devstack/jars.sha256 has none")
    return sorted(fetch(jars).glob("*.jar"))
