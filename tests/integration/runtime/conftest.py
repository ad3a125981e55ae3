from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from devstack.drivers import HandRunStream
from devstack.errors import StackError
from devstack.hdfs import Hdfs
from devstack.jars import fetch, spark_s3a
from devstack.processes import Processes
from tests.support.hand_run import reads_kafka
from tests.support.orders_files import Orders

# `make test-spark` has no Airflow, as a cluster has none.
collect_ignore = [] if find_spec("airflow") else ["test_ill_query.py", "test_mute_drivers.py"]


def pytest_report_header() -> str:
    return f"Spark {pyspark.__version__}; left out, for want of Airflow: {', '.join(collect_ignore) or 'nothing'}"


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[HandRunStream]:
    """A stream whose drivers have Spark's connector for Kafka."""
    with reads_kafka(tmp_path) as found:
        yield found


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small Spark for all tests of this process that need a JVM of their own rather than a driver."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("tests")
    conf = {
        "spark.driver.memory": "700m",
        "spark.driver.bindAddress": "127.0.0.1",
        **s3a_jars(),
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
        "spark.sql.streaming.minBatchesToRetain": "8",
        # By default Spark waits for ever, and its continuous engine, which the package refuses, once did on 4.1.3.
        "spark.sql.streaming.stopTimeout": "240s",
    }
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Orders]:
    """Orders that a test lets flow into a folder; they stop with it."""
    written = Orders(tmp_path)
    yield written
    written.dry()


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """A NameNode and a DataNode, with no files."""
    folder = tmp_path_factory.mktemp("hdfs")
    processes = Processes(folder / "logs")
    try:
        made = Hdfs(folder / "data", processes)
        made.start()
        yield made
    finally:
        processes.close()


def s3a_jars() -> dict[str, str]:
    """The class path of S3A; {} for a Spark whose Hadoop devstack does not know."""
    try:
        return {"spark.driver.extraClassPath": f"{fetch(spark_s3a(Path(str(pyspark.__file__)).parent))}/*"}
    except (StackError, ImportError):
        return {}
