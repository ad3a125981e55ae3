"""The defaults that the audit goes by are those of this very Spark."""

from __future__ import annotations

import json

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.support.spark_defaults import ANSWERS, CONNECTOR, NAMES, TABLE, asked, minor, table


def test_they_are_what_spark_says(spark: SparkSession) -> None:
    known = json.loads(ANSWERS.read_text())
    assert asked(spark) == known[minor(pyspark.__version__)], "run: python -m tests.support.spark_defaults"


def test_the_table_is_made_of_what_every_spark_has_said() -> None:
    assert TABLE.read_text() == table(json.loads(ANSWERS.read_text())), "run: python -m tests.support.spark_defaults"


def test_the_connector_has_the_defaults_of_its_own(spark: SparkSession) -> None:
    java = spark._jvm
    assert java is not None
    try:
        loader = spark._jsparkSession.getClass().getClassLoader()
        java.java.lang.Class.forName("org.apache.spark.sql.kafka010.package$", True, loader)
    except Exception:  # noqa: BLE001 - py4j's
        pytest.skip("this Spark has no connector for Kafka")
    entry = java.org.apache.spark.internal.config.ConfigEntry.findEntry
    assert {name: entry(name).defaultValueString() for name in CONNECTOR} == CONNECTOR


def test_each_setting_is_known_to_a_spark() -> None:
    known = json.loads(ANSWERS.read_text())
    assert {name for found in known.values() for name in found} == {*NAMES}
