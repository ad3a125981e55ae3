"""What the log says of a query, from its plan, and the heartbeat, from the progress of a real one."""

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

from airflow_stream_provider.checkpoint import boundary
from airflow_stream_provider.runtime.compatibility import target_folder
from airflow_stream_provider.runtime.describe import (
    _AUDITED_SINK,
    _AUDITED_SOURCE,
    _options,
    cleans_input,
    fingerprint,
    is_file_sink,
    progress,
    sources_of,
)
from airflow_stream_provider.runtime.spark_progress import SeenProgress, as_seen, told_of
from airflow_stream_provider.runtime.writer_spec import _note_options, writer_spec_of
from devstack.drivers import wait_for


def test_a_query_without_input_is_where_its_last_batch_was(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text('{"value": 1}\n')
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "100")
    frame = spark.readStream.schema("value long").json(str(tmp_path / "in"))
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        managed: Any = SimpleNamespace(
            label="lines",
            checkpoint=str(tmp_path / "checkpoint"),
            writer_spec=SimpleNamespace(sink="noop", foreach_batch=None),
            real=query,
            over=False,
        )

        def next_batch() -> int | None:
            last: Any = query.lastProgress
            return last["batchId"] if last else None

        wait_for("Spark to tell of the batch that it would run next", lambda: next_batch() == 1)
        found = progress(managed)
        assert (found.batch, found.input_rows, found.batch_seconds) == (0, 0, None)
        assert found.batch == boundary(tmp_path / "checkpoint").commit
        (tmp_path / "in" / "two.json").write_text('{"value": 2}\n')
        wait_for("the next batch", lambda: progress(managed).batch == 1)
    finally:
        query.stop()
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")


def test_only_the_options_that_the_audit_judges_are_described(spark: SparkSession) -> None:
    """Their names are in any case, and among the others may be a password."""
    java: Any = spark._jvm
    given = java.java.util.HashMap()
    given.put("FAILONDATALOSS", "false")
    given.put("kafka.sasl.jaas.config", "hunter2")
    of_source = java.org.apache.spark.sql.util.CaseInsensitiveStringMap(given)
    assert _options(of_source.get, _AUDITED_SOURCE) == {"failOnDataLoss": "false"}
    writer = spark.readStream.format("rate").load().writeStream.format("kafka")
    _note_options(writer_spec_of(writer), {"Kafka.Acks": 1, "kafka.sasl.jaas.config": "hunter2"})
    assert _options(writer_spec_of(writer).options.get, _AUDITED_SINK) == {"kafka.acks": "1"}


@pytest.mark.parametrize(
    ("options", "cleans"),
    [
        ({}, False),
        ({"cleanSource": "off"}, False),
        ({"CLEANSOURCE": "Delete"}, True),
        ({"cleanSource": "archive", "sourceArchiveDir": "/somewhere"}, True),
    ],
)
def test_a_file_source_that_cleans_its_input_is_seen_behind_what_is_made_of_it(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], cleans: bool
) -> None:
    files = spark.readStream.schema("key string, v long").options(**options).json(str(tmp_path))
    rates = spark.readStream.format("rate").load().selectExpr("'all' AS key", "value AS v")
    frame = rates.union(files.where("v > 0")).groupBy("key").count()
    managed: Any = SimpleNamespace(writer=SimpleNamespace(_df=frame))
    assert cleans_input(managed) is cleans


def grouped(*columns: str) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: frame.groupBy("key").agg(*map(F.expr, columns))


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (grouped("sum(v)"), ["Aggregate(sum)"]),
        (grouped("sum(v) as total"), ["Aggregate(sum)"]),
        (lambda frame: grouped("sum(v)")(frame).where("`sum(v)` > 1"), ["Aggregate(sum)"]),
        (grouped("max(v) as total"), ["Aggregate(max)"]),
        (grouped("sum(v)", "count(*)"), ["Aggregate(count,sum)"]),
        (grouped("sum(abs(v))"), ["Aggregate(abs,sum)"]),
        (lambda frame: frame.withWatermark("at", "1 minute").dropDuplicates(["key"]), ["Deduplicate()"]),
        (lambda frame: frame.join(frame.selectExpr("key as k"), F.expr("key = k")), ["Join()"]),
        (lambda frame: frame.selectExpr("abs(v) as v"), []),
    ],
)
def test_the_fingerprint_has_the_functions_of_the_state_and_no_names(
    spark: SparkSession, tmp_path: Path, query: Callable[[DataFrame], DataFrame], found: list[str]
) -> None:
    frame = spark.readStream.schema("key string, v long, at timestamp").json(str(tmp_path))
    planned: Any = query(frame)
    assert fingerprint(planned._jdf.queryExecution().analyzed()) == found


def test_functions_that_spark_does_not_print_are_in_the_fingerprint(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.readStream.schema("key string, v long, at timestamp").json(str(tmp_path))
    # spark.sql.debug.maxToStringFields is 25.
    sums = [f"sum(v) as s{n}" for n in range(40)]
    made: list[Any] = [grouped(*sums, last)(frame) for last in ("min(v)", "max(v)")]
    low, high = (fingerprint(plan._jdf.queryExecution().analyzed()) for plan in made)
    assert low == [f"Aggregate(min,{','.join(['sum'] * 40)})"]
    assert low != high


def test_a_script_gets_the_same_of_the_json_in_a_heartbeat_as_of_sparks_own_object(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text('{"value": 1}\n')
    frame = spark.readStream.schema("value long").json(str(tmp_path / "in"))
    frame = frame.observe("seen", F.count(F.lit(1)).alias("rows")).groupBy("value").count()
    writer = frame.writeStream.format("noop").outputMode("complete").queryName("counts")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        wait_for("a batch", lambda: query.lastProgress)
    finally:
        query.stop()
    real: Any = query.lastProgress
    body = json.loads(query._jsq.lastProgress().json())
    assert type(as_seen(body)) is type(real)
    assert as_seen(body) == real
    seen = SeenProgress()
    seen.keep(query)
    assert (seen.last(None), seen.recent(None), seen.recent(query)) == (
        real,
        query.recentProgress,
        query.recentProgress,
    )
    seen.follow({**told_of(body), "batchId": body["batchId"] + 1})
    assert seen.last(None) == {**real, "batchId": real["batchId"] + 1}


def test_a_file_source_is_described_with_its_folder_and_a_table_with_its_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    def sources(frame: Any) -> list[str]:
        return sources_of(SimpleNamespace(writer=SimpleNamespace(_df=frame)))  # type: ignore[arg-type]

    for name in "ab":
        (tmp_path / name).mkdir()
    one, two = (spark.readStream.schema("v long").json(f"{tmp_path}/{name}") for name in "ab")
    assert sources(one.union(two)) == [f"json:path={tmp_path}/a", f"json:path={tmp_path}/b"]
    spark.sql(f"CREATE TABLE described (v long) USING json LOCATION '{tmp_path}/a'")
    try:
        (found,) = sources(spark.readStream.table("described"))
    finally:
        spark.sql("DROP TABLE described")
    assert f"{tmp_path}/a" in found or "described" in found


@pytest.mark.parametrize(
    ("sink", "found"),
    [
        ("parquet", True),
        ("JSON", True),
        ("csv", True),
        ("text", True),
        pytest.param(
            "xml", True, marks=pytest.mark.skipif(pyspark.__version__ < "4", reason="it is none of Spark 3.5")
        ),
        ("org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat", True),
        ("", True),
        ("console", False),
        ("rate", False),
        ("no.such.Sink", None),
        ("avro", None),  # its jar is not there
    ],
)
def test_spark_says_which_formats_it_writes_with_its_file_sink(
    spark: SparkSession, sink: str, found: bool | None
) -> None:
    writer = spark.readStream.format("rate").load().writeStream
    writer_spec_of(writer).format = sink
    managed: Any = SimpleNamespace(writer=writer, writer_spec=writer_spec_of(writer))
    assert is_file_sink(managed) is found


def test_the_folder_of_a_table_is_the_one_that_the_catalog_says(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    spark.sql(f"CREATE TABLE targeted (v long) USING json LOCATION '{tmp_path}/a'")
    try:
        for table, found in (
            ("targeted", f"{tmp_path}/a"),
            ("default.targeted", f"{tmp_path}/a"),
            ("none", ""),
            ("no.such.catalog", ""),
            ("no table", ""),
        ):
            writer = spark.readStream.format("rate").load().writeStream
            spec = writer_spec_of(writer)
            spec.to_table, spec.target = True, table
            managed: Any = SimpleNamespace(writer=writer, writer_spec=spec)
            assert target_folder(managed).removeprefix("file:").replace("///", "/") == found
    finally:
        spark.sql("DROP TABLE targeted")
