"""Where a driver's executors are, as a real Spark tells it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from airflow_stream_provider.runtime.driver_process import ExecutorHosts


def test_spark_names_the_hosts_of_executors_as_its_master_does(spark: SparkSession) -> None:
    found = ExecutorHosts()
    found.ask()
    assert found.known == (spark.sparkContext.getConf().get("spark.driver.host"),)
