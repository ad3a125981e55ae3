"""A real stateful query whose checkpoint is on storage that is not mounted."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count
from pyspark.sql.functions import max as largest

from airflow_stream_provider.checkpoint import boundary, rehearsal_folders, remove_clones
from airflow_stream_provider.checkpoint.files import Place
from devstack.drivers import wait_for

SENTINEL = "the batches are accepted"


class RemoteQuery:
    """Counts rows of the rate source by key, into a sink that keeps nothing.

    :param checkpoint: its location.
    """

    query: Any

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark = spark
        self.checkpoint = checkpoint
        self.query = None

    def run(self) -> None:
        """Start it, and wait for its third batch."""
        writer = self._totals().writeStream.format("noop").outputMode("complete")
        self.query = writer.option("checkpointLocation", self.checkpoint).start()
        self.await_batches(3)

    def stop(self) -> None:
        """Stop it, wherever it is."""
        if self.query is not None:
            self.query.stop()

    def await_batches(self, more: int) -> None:
        """Wait for so many batches more."""
        target = (boundary(self.checkpoint).commit or 0) + more
        wait_for(f"batch {target}", lambda: self._fine() and (boundary(self.checkpoint).commit or 0) >= target)

    def await_no_clones(self, folder: Place) -> None:
        """Remove a folder with clones, and once more if a task of its last batch still wrote there, as a sweep does."""

        def gone() -> bool:
            remove_clones(folder)
            return rehearsal_folders(self.checkpoint) == {}

        wait_for("the end of the clones", gone)

    def rehearse(self, clone: str, batches: int) -> list[tuple[int, tuple[int, int]]]:
        """Run batches on a clone; return of each its number, the rows that are counted, and the largest value."""
        seen: list[tuple[int, tuple[int, int]]] = []

        def collect(batch: DataFrame, number: int) -> None:
            if not batches:
                raise RuntimeError(SENTINEL)
            found = batch.selectExpr("sum(rows) AS rows", "max(last) AS last").first()
            assert found is not None
            seen.append((number, (found.rows, found.last)))
            if len(seen) == batches:
                raise RuntimeError(SENTINEL)

        writer = self._totals().writeStream.foreachBatch(collect).outputMode("complete")
        query = writer.option("checkpointLocation", clone).start()
        wait_for("the end of the clone's query", lambda: not query.isActive)
        assert SENTINEL in str(query.exception())
        return seen

    def _totals(self) -> DataFrame:
        rows = self._spark.readStream.format("rate").option("rowsPerSecond", 100).load()
        keyed = rows.selectExpr("value", "value % 10 AS key")
        return keyed.groupBy("key").agg(count("*").alias("rows"), largest("value").alias("last"))

    def _fine(self) -> bool:
        assert self.query.exception() is None
        return bool(self.query.isActive)
