"""The vitals of a driver, as a real Spark tells them, and what they cost: calls of py4j, and bytes of a heartbeat."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.runtime.describe import progress
from airflow_stream_provider.runtime.vitals import VITALS_SECONDS, DriverVitals


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """The calls of py4j while it lasts: the bytes of each, with those of its answer."""
    found: list[int] = []
    send = ClientServerConnection.send_command

    def count(self: Any, command: str) -> Any:
        answer = send(self, command)
        if not command.startswith("m"):  # the JVM is told then and now of objects that are not needed any more
            found.append(len(command) + len(answer))
        return answer

    ClientServerConnection.send_command = count
    try:
        yield found
    finally:
        ClientServerConnection.send_command = send


class Counting:
    """A query that counts the lines of files, and writes files: state, and a sink's log."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder
        (folder / "in").mkdir()
        self.frame = spark.readStream.schema("key string, at timestamp").json(str(folder / "in"))
        writer = (
            self.frame.withWatermark("at", "1 second")
            .dropDuplicates(["key", "at"])
            .writeStream.format("json")
            .option("path", str(folder / "out"))
            .option("checkpointLocation", str(folder / "checkpoint"))
        )
        self.real: Any = writer.start()
        spec = SimpleNamespace(
            sink="json", sink_target=str(folder / "out"), foreach_batch=None, foreach=False, format="json"
        )
        self.query: Any = SimpleNamespace(
            label="lines",
            checkpoint=str(folder / "checkpoint"),
            writer_spec=spec,
            writer=SimpleNamespace(_df=self.frame, _spark=spark),
            real=self.real,
            runId=self.real.runId,
            over=False,
        )
        self.files = 0

    def batch(self) -> None:
        """Let one more batch with data end."""
        self.files += 1
        row = f'{{"key": "k{self.files}", "at": "2026-01-01 00:{self.files:02}:00"}}\n'
        (self.folder / "in" / f"{self.files}.json").write_text(row)
        self.real.processAllAvailable()


@pytest.fixture
def counting(spark: SparkSession, tmp_path: Path) -> Iterator[Counting]:
    query = Counting(spark, tmp_path)
    try:
        yield query
    finally:
        query.real.stop()


def noted(vitals: DriverVitals, query: Any) -> Heartbeat:
    """What a heartbeat does each second."""
    found = progress(query)
    vitals.note(query.label, found.spark)
    return Heartbeat(queries=(found,), vitals=vitals.last)


def seen(vitals: DriverVitals, query: Any) -> None:
    """Note what Spark has told of the last batches. One without data comes after each: it lets the watermark pass."""
    for each in query.real._jsq.recentProgress():
        vitals.note(query.label, json.loads(each.json()))


def test_a_real_driver_tells_all_its_vitals(spark: SparkSession, counting: Counting) -> None:
    vitals = DriverVitals(os.getpid())  # in a driver the JVM's; this process has a status as well
    for _ in range(3):
        counting.batch()
    seen(vitals, counting.query)
    assert vitals.read([counting.query]) >= VITALS_SECONDS
    java: Any = spark._jvm
    java.java.lang.System.gc()
    noted(vitals, counting.query)
    vitals.read([counting.query])
    found = vitals.last
    assert found is not None
    unknown = {name for name, value in vars(found).items() if value in (None, {})}
    # A driver of its own has a file for its output; on local[2] there are no executors that can be lost.
    assert unknown <= {"log_bytes", "log_free", "executors_lost", "certificate_until", "token_until"}
    assert 0 < (found.heap_after_gc or 0) < (found.heap_max or 0)
    assert (found.executors, found.cores, found.events_dropped) == (0, 2, 0)
    assert (found.local_free or 0) > 0
    query = found.queries["lines"]
    absent = {name for name, value in vars(query).items() if value is None}
    assert absent == {"full", "behind", "best_rate", "arriving", "fit"}  # of Kafka; and each batch has one row
    assert query.durations["triggerExecution"] >= query.durations["addBatch"] > 0
    assert (query.records, query.state_partitions) == (1, 2)
    log = counting.folder / "out" / "_spark_metadata"
    assert query.sink_log_bytes == sum(path.stat().st_size for path in log.iterdir() if path.suffix != ".crc")
    assert (query.checkpoint_bytes or 0) > 0
    assert (query.tasks or 0) >= 1
    assert (query.task_max or 0) >= (query.task_p50 or 0) > 0


def test_vitals_add_no_call_for_a_batch_and_a_hundred_or_two_a_minute(counting: Counting) -> None:
    vitals = DriverVitals(os.getpid())
    counting.batch()
    with counted_calls() as without:
        progress(counting.query)
    with counted_calls() as with_note:
        noted(vitals, counting.query)
    assert len(with_note) == len(without), "what the heartbeat asks anyway is all that batches take"
    vitals.read([counting.query])
    costs = []
    for batches in (4, 12):
        for _ in range(batches):
            counting.batch()
            noted(vitals, counting.query)
        with counted_calls() as calls:
            vitals.read([counting.query])
        costs.append(calls)
    print("calls and bytes of py4j a minute:", [(len(each), sum(each)) for each in costs])
    # After 4 batches and after 12: only the last jobs may have more or fewer stages.
    assert abs(len(costs[0]) - len(costs[1])) <= 10
    assert max(map(len, costs)) < 120
    assert max(map(sum, costs)) < 60_000


def test_a_heartbeat_grows_by_some_kilobytes(counting: Counting) -> None:
    vitals = DriverVitals(os.getpid())
    counting.batch()
    noted(vitals, counting.query)
    vitals.read([counting.query])
    beat = noted(vitals, counting.query)
    with_vitals, without = len(beat.to_json()), len(Heartbeat(queries=beat.queries).to_json())
    print("bytes of a heartbeat:", without, "and with vitals:", with_vitals)
    assert with_vitals - without < 3000


def test_what_cannot_be_read_is_left_out(spark: SparkSession) -> None:
    vitals = DriverVitals(2**22 + 1)  # no process has this number
    vitals.read([])
    assert vitals.last is not None
    assert vitals.last.rss is None
    assert (vitals.last.cores, vitals.last.queries) == (2, {})
