"""The contract of the boundary stop with Spark's internals; run it against any other Spark version too."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from airflow_stream_provider.checkpoint import LogEnds, boundary
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.lifecycle.record import Boundary
from airflow_stream_provider.runtime import boundary as runtime_boundary
from airflow_stream_provider.runtime.boundary import progress_lock, stop_at_boundary
from airflow_stream_provider.runtime.ports import BoundaryMissed, QueryEnd
from devstack.drivers import wait_for

DEADLINE = 120.0
PAUSES = (0.0, 0.02, 0.1, 0.4, 0.9)


class Streams:
    """Starts queries on the rate source whose batches take about a third of a second."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.running: list[StreamingQuery] = []

    def rate(self) -> DataFrame:
        return self.spark.readStream.format("rate").option("rowsPerSecond", 100).load()

    def silent(self) -> DataFrame:
        (self.folder / "silent").mkdir(exist_ok=True)
        return self.spark.readStream.schema("value long").json(str(self.folder / "silent"))

    def checkpoint(self, name: str) -> Path:
        return self.folder / "checkpoints" / name

    def start(self, name: str, frame: DataFrame, sink: Any = "noop", **trigger: Any) -> StreamingQuery:
        writer = frame.writeStream.option("checkpointLocation", str(self.checkpoint(name)))
        if callable(sink):
            writer = writer.foreachBatch(sink)
        elif sink == "parquet":
            writer = writer.format(sink).option("path", str(self.folder / name))
        else:
            writer = writer.format(sink).outputMode("update")
        query = (writer.trigger(**trigger) if trigger else writer).start()
        self.running.append(query)
        return query


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Iterator[Streams]:
    streams = Streams(spark, tmp_path)
    yield streams
    for query in streams.running:
        query.stop()


def totals(streams: Streams) -> DataFrame:
    return streams.rate().selectExpr("value % 10 AS key").groupBy("key").count()


def first_commit(streams: Streams, name: str) -> None:
    wait_for("the first commit", lambda: boundary(streams.checkpoint(name)).commit is not None, DEADLINE)


def moved_on(checkpoint: Path, before: LogEnds) -> bool:
    return boundary(checkpoint).commit != before.commit


def assert_clean(query: StreamingQuery, stop: QueryEnd, checkpoint: Path) -> None:
    ends = boundary(checkpoint)
    assert stop == QueryEnd(completed=True, batch=ends.commit)
    assert ends.completed
    assert not query.isActive
    assert query.exception() is None
    jobs = query._jsq.sparkSession().sparkContext().statusTracker().getActiveJobIds()
    assert list(jobs) == []


FRAMES: dict[str, Callable[[Streams], DataFrame]] = {"rows": Streams.rate, "totals": totals}


@pytest.mark.parametrize("trigger", [{}, {"processingTime": "1 second"}], ids=["at once", "every second"])
@pytest.mark.parametrize("frame", ["rows", "totals"])
def test_every_stop_under_load_is_at_a_boundary(streams: Streams, frame: str, trigger: dict[str, str]) -> None:
    for round, pause in enumerate(PAUSES):
        query = streams.start("load", FRAMES[frame](streams), **trigger)
        if round == 0:
            first_commit(streams, "load")
        time.sleep(pause)
        assert_clean(query, stop_at_boundary(query, DEADLINE), streams.checkpoint("load"))


@pytest.mark.parametrize("trigger", [{}, {"processingTime": "1 second"}], ids=["at once", "every second"])
def test_no_batch_is_lost_or_run_twice_over_stops_and_restarts(streams: Streams, trigger: dict[str, str]) -> None:
    batches: list[int] = []
    values: list[int] = []

    def collect(batch: DataFrame, number: int) -> None:
        batches.append(number)
        values.extend(row.value for row in batch.collect())

    for pause in (*PAUSES, *PAUSES):
        query = streams.start("collect", streams.rate(), collect, **trigger)
        time.sleep(pause)
        assert_clean(query, stop_at_boundary(query, DEADLINE), streams.checkpoint("collect"))
    query = streams.start("collect", streams.rate(), collect)
    wait_for("a few batches more", lambda: len(values) > 500, DEADLINE)
    assert_clean(query, stop_at_boundary(query, DEADLINE), streams.checkpoint("collect"))
    assert batches == list(range(len(batches)))
    assert sorted(values) == list(range(len(values)))


def test_the_file_sink_has_every_row_once(streams: Streams, spark: SparkSession) -> None:
    for pause in (1.0, *PAUSES):
        query = streams.start("files", streams.rate(), "parquet")
        time.sleep(pause)
        assert_clean(query, stop_at_boundary(query, DEADLINE), streams.checkpoint("files"))
    found = sorted(row.value for row in spark.read.parquet(str(streams.folder / "files")).collect())
    assert found == list(range(len(found)))


@pytest.mark.parametrize("trigger", [{}, {"processingTime": "1 hour"}], ids=["at once", "every hour"])
@pytest.mark.parametrize("pause", [0.0, 0.05, 2.0])
def test_a_query_without_data_stops(streams: Streams, trigger: dict[str, str], pause: float) -> None:
    query = streams.start("silent", streams.silent(), **trigger)
    time.sleep(pause)
    assert_clean(query, stop_at_boundary(query, DEADLINE), streams.checkpoint("silent"))


def test_a_query_that_sleeps_until_its_next_trigger_is_woken(streams: Streams) -> None:
    query = streams.start("minute", streams.rate(), processingTime="60 seconds")
    first_commit(streams, "minute")
    assert_clean(query, stop_at_boundary(query, 30.0), streams.checkpoint("minute"))


def test_a_batch_that_is_too_slow_is_left_alone(streams: Streams) -> None:
    go_on = threading.Event()
    started: list[int] = []

    def slow(batch: DataFrame, number: int) -> None:
        started.append(number)
        go_on.wait(DEADLINE)

    query = streams.start("slow", streams.rate(), slow)
    wait_for("a batch", lambda: started, DEADLINE)
    with pytest.raises(BoundaryMissed, match="still running a batch"):
        stop_at_boundary(query, 1.0)
    assert query.isActive
    go_on.set()
    wait_for("the batches after", lambda: len(started) >= 3, DEADLINE)
    assert started == list(range(len(started)))
    assert query.exception() is None
    assert_clean(query, stop_at_boundary(query, DEADLINE), streams.checkpoint("slow"))


def test_the_lock_holds_a_query_still(streams: Streams) -> None:
    query = streams.start("held", streams.rate())
    first_commit(streams, "held")
    for _ in range(3):
        with progress_lock(query, DEADLINE):
            before = boundary(streams.checkpoint("held"))
            time.sleep(1.0)
            assert boundary(streams.checkpoint("held")) == before
        wait_for("a commit", partial(moved_on, streams.checkpoint("held"), before), DEADLINE)
    assert query.exception() is None


def test_a_lock_that_somebody_holds_is_waited_for_no_longer_than_asked(streams: Streams) -> None:
    query = streams.start("held", streams.rate())
    first_commit(streams, "held")
    with progress_lock(query, DEADLINE), ThreadPoolExecutor() as pool:
        with pytest.raises(BoundaryMissed, match="progress lock"):
            pool.submit(stop_at_boundary, query, 0.5).result()

        def hold() -> None:
            with progress_lock(query, 0.5):
                raise AssertionError("two holders")

        with pytest.raises(BoundaryMissed, match="progress lock"):
            pool.submit(hold).result()
    assert query.isActive
    assert_clean(query, stop_at_boundary(query, DEADLINE), streams.checkpoint("held"))


def test_a_query_whose_logs_nobody_can_read_now_runs_on(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    """A double of the look only: a real storage that is away is in test_hadoop_files.py."""
    query = streams.start("away", streams.rate())
    first_commit(streams, "away")
    looks: list[str] = []
    fails = 0

    def away(checkpoint: str) -> LogEnds:
        looks.append(checkpoint)
        if len(looks) == fails:
            raise CheckpointError("The storage has not answered.")
        return boundary(checkpoint)

    monkeypatch.setattr(runtime_boundary, "boundary", away)
    for look in (1, 2):
        fails = look
        looks.clear()
        with pytest.raises(BoundaryMissed, match=r"nobody can say where: The storage has not answered\."):
            stop_at_boundary(query, DEADLINE)
        assert query.isActive
    looks.clear()
    fails = 1
    query.stop()
    assert stop_at_boundary(query, DEADLINE).batch == boundary(streams.checkpoint("away")).commit


def test_queries_stop_side_by_side(streams: Streams) -> None:
    names = ["one", "two", "three"]
    queries = [streams.start(name, streams.rate()) for name in names]
    for name in names:
        first_commit(streams, name)
    with ThreadPoolExecutor() as pool:
        stops = list(pool.map(lambda query: stop_at_boundary(query, DEADLINE), queries))
    for name, query, stop in zip(names, queries, stops, strict=True):
        assert_clean(query, stop, streams.checkpoint(name))


def test_a_query_that_ends_by_itself_is_judged_as_it_is(streams: Streams) -> None:
    streams.silent()
    (streams.folder / "silent" / "one.json").write_text('{"value": 1}\n')
    query = streams.start("once", streams.silent(), availableNow=True)
    assert_clean(query, stop_at_boundary(query, DEADLINE), streams.checkpoint("once"))
    query = streams.start("once", streams.silent(), availableNow=True)
    query.awaitTermination(int(DEADLINE))
    assert_clean(query, stop_at_boundary(query, DEADLINE), streams.checkpoint("once"))
    assert boundary(streams.checkpoint("once")).commit == 0


def test_a_query_that_fails_is_interrupted_and_keeps_its_error(streams: Streams) -> None:
    failing = threading.Event()

    def fail(batch: DataFrame, number: int) -> None:
        if number >= 1:
            failing.wait(DEADLINE)
            raise ValueError("broken on purpose")

    query = streams.start("fails", streams.rate(), fail)
    first_commit(streams, "fails")
    wait_for("the next batch", lambda: boundary(streams.checkpoint("fails")).offsets == 1, DEADLINE)
    threading.Timer(1.0, failing.set).start()
    assert stop_at_boundary(query, DEADLINE) == QueryEnd(completed=False, batch=0)  # failed while it was asked to stop
    assert stop_at_boundary(query, DEADLINE) == QueryEnd(completed=False, batch=0)  # had failed before
    assert "broken on purpose" in str(query.exception())


def test_a_batch_whose_checkpoint_was_moved_away_under_it_does_not_count_as_whole(streams: Streams) -> None:
    entered, going = threading.Event(), threading.Event()

    def slow(batch: DataFrame, number: int) -> None:
        if number >= 1:
            entered.set()
            going.wait(DEADLINE)

    query = streams.start("moved", streams.rate(), slow)
    assert entered.wait(DEADLINE)
    streams.checkpoint("moved").rename(streams.folder / "aside")
    threading.Timer(1.0, going.set).start()
    assert stop_at_boundary(query, DEADLINE, committed=0) == QueryEnd(completed=False, batch=None)
    assert "commits does not exist" in str(query.exception())  # it was written, and could not be committed


def test_a_batch_that_the_script_cut_off_is_interrupted_and_no_task_of_it_runs(streams: Streams) -> None:
    from pyspark.sql.functions import udf

    entered = str(streams.folder / "entered")

    @udf("long")
    def sleep(value: int) -> int:
        open(entered, "w").close()
        time.sleep(DEADLINE)
        return value

    query = streams.start("cut", streams.rate().withColumn("value", sleep("value")))
    wait_for("a task that sleeps", lambda: os.path.exists(entered), DEADLINE)
    query.stop()
    stop = stop_at_boundary(query, DEADLINE)
    assert (stop.completed, stop.boundary, stop.running_tasks) == (False, Boundary.INTERRUPTED, 0)


def test_a_script_that_stops_the_query_meanwhile_gets_its_way(streams: Streams) -> None:
    entered = threading.Event()

    def slow(batch: DataFrame, number: int) -> None:
        entered.set()
        time.sleep(2.0)
        batch.count()

    query = streams.start("both", streams.rate(), slow)
    assert entered.wait(DEADLINE)
    threading.Timer(0.5, query.stop).start()
    stop = stop_at_boundary(query, DEADLINE)
    assert stop.completed is boundary(streams.checkpoint("both")).completed
    assert not query.isActive


@pytest.mark.parametrize("how", ["continuous", "asynchronous progress"])
def test_an_engine_without_boundaries_is_refused_and_runs_on(streams: Streams, how: str) -> None:
    writer = streams.rate().writeStream.format("noop").option("checkpointLocation", str(streams.checkpoint(how)))
    if how == "continuous":
        writer = writer.trigger(continuous="1 second")
    else:
        writer = writer.option("asyncProgressTrackingEnabled", "true")
    query = writer.start()
    streams.running.append(query)
    with pytest.raises(BoundaryMissed, match="no batch boundaries"):
        stop_at_boundary(query, DEADLINE)
    with pytest.raises(BoundaryMissed, match="no batch boundaries"), progress_lock(query, DEADLINE):
        pass
    assert query.isActive
