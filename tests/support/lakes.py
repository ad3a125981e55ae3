"""A Spark with Delta and Iceberg, for tests of their sinks and for drivers that these start."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from airflow_stream_provider import sinks
from airflow_stream_provider.sinks.lake import LakeLedger
from airflow_stream_provider.sinks.ledger import Target, Writer
from devstack.drivers import wait_for
from devstack.jars import delta, fetch, iceberg
from tests.support.ledgers import MANAGED

ROOT = Path(__file__).parents[2]

EXTENSIONS = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)


def submit_arguments(folder: Path) -> str:
    """Return what starts a JVM with both, whose catalog `lake` of Iceberg is in a folder."""
    jars = [jar for each in (delta(), iceberg()) for jar in fetch(each).glob("*.jar")]
    conf = {
        "spark.sql.extensions": ",".join(EXTENSIONS),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(folder / "iceberg"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.driver.memory": "900m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }
    settings = (f"--conf {shlex.quote(f'{name}={value}')}" for name, value in conf.items())
    return f"--driver-class-path {':'.join(map(str, jars))} {' '.join(settings)} pyspark-shell"


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a driver with both."""
    given = {"PYSPARK_SUBMIT_ARGS": submit_arguments(folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**os.environ, **given, "PYSPARK_PYTHON": sys.executable}


@contextmanager
def lake_session(folder: Path) -> Iterator[SparkSession]:
    """A session in a JVM of its own: one that a test before has left has no such jars."""
    _end_jvm()
    before = dict(os.environ)
    os.environ.update(environment(folder))
    try:
        session = SparkSession.builder.master("local[1]").appName("lakes").getOrCreate()
        yield session
        session.stop()
    finally:
        _end_jvm()
        os.environ.clear()
        os.environ.update(before)


def _end_jvm() -> None:
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            process.wait(60)
        SparkContext._gateway = SparkContext._jvm = None


def numbers(spark: SparkSession, begins: int, ends: int, name: str = "name") -> DataFrame:
    """Rows of orders."""
    return spark.range(begins, ends).selectExpr("id", f"concat('{name} ', id) as name")


class Lake:
    """A table of orders.

    :param kind: `delta` or `iceberg`, the name of the sink's function.
    :param folder: where a table of Delta is.
    """

    def __init__(self, kind: str, spark: SparkSession, folder: Path) -> None:
        self.kind = kind
        self.spark = spark
        warehouse = Path(spark.conf.get("spark.sql.catalog.lake.warehouse") or "")
        self._database = f"d{uuid.uuid4().hex[:12]}"
        self.folder = folder if kind == "delta" else warehouse / self._database
        self.table = ""

    def create(self, name: str = "orders") -> None:
        """Create it."""
        if self.kind == "delta":
            self.table = str(self.folder / name)
            self.spark.sql(f"create table delta.`{self.table}` (id bigint not null, name string) using delta")
        else:
            self.table = f"lake.{self._database}.{name}"
            self.spark.sql(f"create table {self.table} (id bigint not null, name string) using iceberg")

    @property
    def name(self) -> str:
        """As SQL names it."""
        return f"delta.`{self.table}`" if self.kind == "delta" else self.table

    def frame(self) -> DataFrame:
        return self.spark.sql(f"select * from {self.name}")

    def rows(self, what: str = "count(*), count(distinct id)") -> tuple[Any, ...]:
        """Rows and orders, or what else is asked for."""
        if self.kind == "iceberg":
            # Other processes have written it.
            self.spark.sql(f"refresh table {self.name}")
        found = self.spark.sql(f"select {what} from {self.name}").first()
        assert found is not None
        return tuple(found)

    def append(self, rows: DataFrame) -> None:
        """Another job writes."""
        if self.kind == "delta":
            rows.write.format("delta").mode("append").save(self.table)
        else:
            rows.writeTo(self.table).append()

    def compact(self) -> None:
        """Write its files anew."""
        if self.kind == "delta":
            self.spark.sql(f"optimize {self.name}")
        else:
            self.spark.sql(
                f"call lake.system.rewrite_data_files(table => '{self.table}', options => map('rewrite-all', 'true'))"
            )

    def unclaimed(self, writer: Writer = MANAGED, **target: Any) -> LakeLedger:
        """Its ledger."""
        found: LakeLedger = getattr(sinks, self.kind)().ledger(writer, Target(self.table, **target))
        return found

    def ledger(self, writer: Writer = MANAGED, **target: Any) -> LakeLedger:
        """Its ledger, claimed."""
        found = self.unclaimed(writer, **target)
        found.claim()
        return found


class Zombie:
    """A driver that has frozen, with its JVM."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def thaw(self) -> list[str]:
        """Let it go on, and return what it says about its two batches."""
        for each in reversed(psutil.Process(self.process.pid).children(recursive=True)):
            each.send_signal(signal.SIGCONT)
        self.process.send_signal(signal.SIGCONT)
        said, _ = self.process.communicate(timeout=600)
        return said.splitlines()


@contextmanager
def frozen_driver(lake: Lake, key: Sequence[str] = ()) -> Iterator[Zombie]:
    """A driver that has written batch 0, and has frozen while it writes batch 1; see `tests.support.lake_driver`."""
    acts = lake.folder / "acts"
    acts.mkdir()
    command = [sys.executable, "-m", "tests.support.lake_driver", lake.kind, lake.table, str(acts), *key]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def stopped() -> bool:
        both = [each for each in psutil.Process(process.pid).children(recursive=True) if each.name() == "java"]
        return all(each.status() == psutil.STATUS_STOPPED for each in (psutil.Process(process.pid), *both))

    def frozen() -> bool:
        assert process.poll() is None, "the driver has ended"
        return (acts / "frozen").exists() and stopped()

    try:
        wait_for("the driver to freeze", frozen)
        yield Zombie(process)
    finally:
        if process.poll() is None:
            for each in (*psutil.Process(process.pid).children(recursive=True), process):
                each.kill()
        process.communicate()


class Job:
    """A plain job that reads three files of ten orders, one in each batch; see `tests.support.app_lake_sink`."""

    def __init__(self, lake: Lake, naive: Lake) -> None:
        self._folder = lake.folder / "job"
        files = self._folder / "files"
        files.mkdir(parents=True)
        self._arguments = [lake.kind, lake.table, naive.table, str(files)]
        for file in range(3):
            lines = (json.dumps({"id": number}) for number in range(file * 10, file * 10 + 10))
            path = files / f"{file}.json"
            path.write_text("\n".join(lines))
            os.utime(path, (file, file))

    def run(self, checkpoint: str, *how: str) -> tuple[int, str]:
        """Return its exit code, and what it says last."""
        app = ROOT / "tests/support/app_lake_sink.py"
        command = [sys.executable, str(app), *self._arguments, str(self._folder / checkpoint), *how]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=env, stderr=subprocess.PIPE, text=True, timeout=900, check=False)
        return done.returncode, done.stderr
