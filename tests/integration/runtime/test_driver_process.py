"""What a driver says of itself, as a real Spark tells it."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.runtime.driver_process import DriverProcess


def test_spark_names_the_hosts_of_executors_as_its_master_does(spark: SparkSession) -> None:
    process: Any = DriverProcess.__new__(DriverProcess)
    process._facts = Heartbeat()
    context = spark.sparkContext
    assert process._executor_hosts(context) == (context.getConf().get("spark.driver.host"),)
