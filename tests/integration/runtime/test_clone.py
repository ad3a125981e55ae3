"""Clones of checkpoints whose queries run on: Spark itself says whether they are good."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, expr
from pyspark.sql.functions import max as largest
from pyspark.sql.streaming.query import StreamingQuery

from airflow_stream_provider.checkpoint import boundary, clone_logs, clone_state, read
from devstack.drivers import wait_for

DEADLINE = 240.0
SENTINEL = "the plan is accepted"
STATE = "spark.sql.streaming.stateStore."
ROCKS = {f"{STATE}providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
CHANGELOG = {**ROCKS, f"{STATE}rocksdb.changelogCheckpointing.enabled": "true"}
PROVIDERS = {
    "hdfs": {},
    "rocksdb": ROCKS,
    "changelog": CHANGELOG,
    "unique ids": {**CHANGELOG, f"{STATE}checkpointFormatVersion": "2"},
}


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    for key, value in PROVIDERS[request.param].items():
        spark.conf.set(key, value)
    yield request.param
    for key in PROVIDERS[request.param]:
        spark.conf.unset(key)


class Live:
    """A query that is running, and what to start on clones of its checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.checkpoint = folder / "live"
        self.running: list[StreamingQuery] = []

    def rows(self) -> DataFrame:
        return self.spark.readStream.format("rate").option("rowsPerSecond", 100).load()

    def totals(self) -> DataFrame:
        keyed = self.rows().selectExpr("value", "value % 10 AS key")
        return keyed.groupBy("key").agg(count("*").alias("rows"), largest("value").alias("last"))

    def joined(self) -> DataFrame:
        left = self.rows().withWatermark("timestamp", "2 seconds").alias("left")
        right = self.rows().withWatermark("timestamp", "2 seconds").alias("right")
        near = "left.timestamp BETWEEN right.timestamp - INTERVAL 1 SECOND AND right.timestamp + INTERVAL 1 SECOND"
        return left.join(right, expr(f"left.value = right.value AND {near}"))

    def run(self, frame: DataFrame, mode: str) -> None:
        writer = frame.writeStream.format("noop").outputMode(mode)
        self.running.append(writer.option("checkpointLocation", str(self.checkpoint)).start())
        self.await_batches(3)

    def await_batches(self, more: int) -> None:
        target = (boundary(self.checkpoint).commit or 0) + more
        wait_for(f"batch {target}", lambda: self.fine() and (boundary(self.checkpoint).commit or 0) >= target, DEADLINE)

    def fine(self) -> bool:
        for query in self.running:
            assert query.exception() is None
            assert query.isActive
        return True

    def target(self) -> Path:
        return self.folder / "clones" / str(uuid.uuid4())

    def start(
        self, clone: Path, frame: DataFrame, mode: str, sink: Callable[[DataFrame, int], None]
    ) -> tuple[StreamingQuery, str]:
        """Start a query on a clone until its sink ends it, and return it with the error it ended with."""
        writer = frame.writeStream.foreachBatch(sink).outputMode(mode)
        query = writer.option("checkpointLocation", str(clone)).start()
        wait_for("the end of the clone's query", lambda: not query.isActive, DEADLINE)
        return query, str(query.exception())


@pytest.fixture
def live(spark: SparkSession, tmp_path: Path) -> Iterator[Live]:
    live = Live(spark, tmp_path)
    yield live
    for query in live.running:
        query.stop()


def refuse(batch: DataFrame, number: int) -> None:
    raise RuntimeError(SENTINEL)


def test_a_plan_is_rehearsed_on_the_logs_alone_while_the_query_runs_on(live: Live, provider: str) -> None:
    live.run(live.totals(), "update")
    original = read(live.checkpoint).id
    for _ in range(2):
        clone, new_id = live.target(), str(uuid.uuid4())
        made = clone_logs(live.checkpoint, clone, new_id)
        query, error = live.start(clone, live.totals(), "update", refuse)
        assert SENTINEL in error
        assert query.id == new_id != original
        assert boundary(clone).offsets == made.next_batch  # the recorded batch, planned again
        live.await_batches(1)
    if live.spark.version.startswith("3."):
        return  # compares state schemas on the executors, when it loads state, and so only in a warm rehearsal
    clone = live.target()
    clone_logs(live.checkpoint, clone, str(uuid.uuid4()))
    _, error = live.start(clone, live.rows().groupBy("value", "timestamp").count(), "update", refuse)
    assert SENTINEL not in error
    live.await_batches(2)


def test_state_is_cloned_whole_and_once_while_the_query_runs_on(live: Live, provider: str) -> None:
    live.run(live.totals(), "complete")
    for drop in (False, True):
        clone = live.target()
        made = clone_state(live.checkpoint, clone, str(uuid.uuid4()), limit_bytes=100_000_000, drop_last_commit=drop)
        before = boundary(clone)
        assert before.completed is not drop
        seen: list[tuple[int, int, int]] = []

        def collect(batch: DataFrame, number: int, seen: list[tuple[int, int, int]] = seen) -> None:
            found = batch.selectExpr("sum(rows) AS rows", "max(last) AS last").first()
            assert found is not None
            seen.append((number, found.rows, found.last))
            if len(seen) == 2:
                raise RuntimeError(SENTINEL)

        _, error = live.start(clone, live.totals(), "complete", collect)
        assert SENTINEL in error
        assert [number for number, _, _ in seen] == [made.next_batch, made.next_batch + 1]
        for _, rows, last in seen:
            assert rows == last + 1  # the rate source counts: every row is in the state, and once
        live.await_batches(2)


def test_a_join_is_cloned_with_its_four_stores(live: Live) -> None:
    live.run(live.joined(), "append")
    logs = live.target()
    clone_logs(live.checkpoint, logs, str(uuid.uuid4()))
    assert SENTINEL in live.start(logs, live.joined(), "append", refuse)[1]
    state = live.target()
    made = clone_state(live.checkpoint, state, str(uuid.uuid4()), limit_bytes=100_000_000)
    batches: list[int] = []

    def two(batch: DataFrame, number: int) -> None:
        batch.count()
        batches.append(number)
        if len(batches) == 2:
            raise RuntimeError(SENTINEL)

    assert SENTINEL in live.start(state, live.joined(), "append", two)[1]
    assert batches == [made.next_batch, made.next_batch + 1]
    live.await_batches(2)


def test_clones_of_a_query_that_purges_as_fast_as_it_can_are_all_complete(live: Live) -> None:
    live.run(live.totals(), "update")
    deadline = time.monotonic() + 10
    made = 0
    while time.monotonic() < deadline or made <= 10:  # a busy machine takes longer for each
        clone = live.target()
        clone_state(live.checkpoint, clone, str(uuid.uuid4()), limit_bytes=100_000_000)
        assert boundary(clone).completed
        made += 1
    live.await_batches(1)
