"""What a driver says of its surroundings, read in a real Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_stream_provider.lifecycle.environment import Environment, QueryEnvironment
from airflow_stream_provider.runtime.environment import environment, mount_of


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No part is given up for want of time on a busy machine."""
    monkeypatch.setattr("airflow_stream_provider.runtime.environment.SECONDS", 120.0)


def a_query(frame: DataFrame, checkpoint: object, **options: str) -> Any:
    spec = SimpleNamespace(options=options, foreach=False)
    return SimpleNamespace(
        label="orders", checkpoint=str(checkpoint), writer=SimpleNamespace(_df=frame), writer_spec=spec
    )


def rates(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").option("minPartitions", "3").load()


def test_a_driver_says_what_it_runs_with_in_a_few_kilobytes(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "8")
    spark.conf.set("spark.sql.session.secretOfOurs", "hunter2")
    spark.sql("CACHE TABLE prices AS SELECT 'hunter2' AS s")
    try:
        written = environment([a_query(rates(spark), tmp_path / "checkpoint", retention="7d")])
    finally:
        spark.sql("UNCACHE TABLE prices")
    found = Environment.from_json(json.loads(json.dumps(written)))
    assert "hunter2" not in json.dumps(written)
    assert len(json.dumps(written)) < 4000
    assert (found.spark, found.cores) == (pyspark.__version__, 2)
    assert found.java
    assert found.python
    assert found.conf["spark.sql.streaming.minBatchesToRetain"] == "8"
    assert found.conf["spark.master"] == "local[2]"
    assert 600 * 2**20 < found.heap_max < 800 * 2**20
    assert found.nofile > 0
    assert found.places["checkpoint of orders"] == {
        "path": str(tmp_path / "checkpoint"),
        "mount": mount_of(str(tmp_path)),
        "replication": None,
    }
    assert Path(found.places["local folder 1"]["path"]).is_dir()
    assert {"name": "prices", "replicas": 1} in [
        {name: each[name] for name in ("name", "replicas")} for each in found.persisted
    ]
    assert found.queries["orders"] == QueryEnvironment({"minPartitions": "3", "retention": "7d"}, None, False, 0, 0)


@pytest.mark.parametrize(
    ("change", "python", "state"),
    [
        (lambda frame: frame.withColumn("y", F.udf(lambda x: x, "long")("value")), True, 0),
        (lambda frame: frame.mapInPandas(lambda frames: frames, "timestamp timestamp, value long"), True, 0),
        (lambda frame: frame.groupBy("value").count(), False, None),
    ],
)
def test_the_plan_tells_of_python_and_of_state_before_the_first_batch(
    spark: SparkSession, tmp_path: Path, change: Callable[[DataFrame], DataFrame], python: bool, state: int | None
) -> None:
    found = environment([a_query(change(rates(spark)), tmp_path)])["queries"]["orders"]
    assert (found["python_functions"], found["state_partitions"], found["stores"]) == (python, state, state)


def test_the_checkpoint_tells_of_the_state_once_there_is_one(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "in"))
    files = spark.readStream.schema("id long").parquet(str(tmp_path / "in"))
    counts = files.groupBy("id").count()
    writer = counts.writeStream.format("memory").queryName("counts").outputMode("complete")
    run = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert run.awaitTermination(120)
    found = environment([a_query(counts, tmp_path / "checkpoint")])["queries"]["orders"]
    assert (found["state_partitions"], found["stores"], found["kafka_partitions"]) == (2, 2, None)


def test_what_cannot_be_read_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("torn")
    found = environment([a_query(rates(spark), tmp_path)])
    assert "queries" not in found
    assert found["spark"] == pyspark.__version__
    assert environment([]) == {}


def test_the_mount_nearest_to_a_path_counts(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "40 22 0:40 / /data rw - nfs4 store:/data rw\n"
        "41 40 0:41 / /data/a\\040b rw shared:7 - tmpfs tmpfs rw\n"
    )
    kinds = {path: mount_of(path, str(table)) for path in ("/home", "/data/x", "/database", "/data/a b/c")}
    assert kinds == {"/home": "ext4", "/data/x": "nfs4", "/database": "ext4", "/data/a b/c": "tmpfs"}
    assert mount_of("/", str(tmp_path / "none")) == ""
