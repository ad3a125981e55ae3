"""What the heartbeat says of a query, from the progress of a real one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import SparkSession

from airflow_stream_provider.checkpoint import boundary
from airflow_stream_provider.runtime.describe import _AUDITED_SINK, _AUDITED_SOURCE, _options, progress
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
            label="lines", checkpoint=str(tmp_path / "checkpoint"), writer_spec=SimpleNamespace(sink="noop"), real=query
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
