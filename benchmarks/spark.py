"""A Spark in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession

from devstack.jars import JarSet, fetch


@contextmanager
def session(
    name: str, jars: Sequence[JarSet], *, cores: int = 2, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Run a Spark on so many cores, with these jars.

    :param conf: of Spark, besides.
    """
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": ":".join(f"{fetch(each)}/*" for each in jars),
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        **(conf or {}),
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
