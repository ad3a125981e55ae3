"""Which sinks Spark itself does not start again on their checkpoint, and which tables only one driver has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.runtime.refused import check_sink
from airflow_stream_provider.runtime.writer_spec import writer_spec_of


@pytest.mark.parametrize(
    ("sink", "mode", "recovers"),
    [("memory", "append", False), ("memory", "complete", True), ("console", "append", True), ("noop", "append", True)],
)
def test_a_sink_is_refused_exactly_when_spark_does_not_recover_it(
    spark: SparkSession, tmp_path: Path, sink: str, mode: str, recovers: bool
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text('{"value": 1}\n')
    frame: Any = spark.readStream.schema("value long").json(str(tmp_path / "in"))
    if mode == "complete":
        frame = frame.groupBy("value").count()

    def writer() -> Any:
        options = {"checkpointLocation": str(tmp_path / "checkpoint")}
        made = frame.writeStream.format(sink).outputMode(mode).queryName(f"{sink}_{mode}").options(**options)
        noted = writer_spec_of(made)
        noted.format, noted.output_mode, noted.name = sink, mode, f"{sink}_{mode}"
        return made

    def run() -> None:
        query = writer().start()
        query.processAllAvailable()
        query.stop()

    run()
    if recovers:
        run()
        check_sink(writer())
    else:
        with pytest.raises(PySparkException, match="does not support recovering from checkpoint location"):
            run()
        with pytest.raises(SpecError, match="does not recover"):
            check_sink(writer())


def test_a_table_of_sparks_own_catalog_is_in_the_drivers_memory(spark: SparkSession) -> None:
    writer = spark.readStream.format("rate").load().writeStream
    spec = writer_spec_of(writer)
    spec.to_table, spec.target = True, "orders"
    with pytest.raises(SpecError, match="in this driver's memory"):
        check_sink(writer)
