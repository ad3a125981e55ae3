"""How a script calls the sink: once in a batch, whatever it has become of the run before. On real queries."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from airflow_stream_provider import runtime
from airflow_stream_provider.sinks import ExactlyOnce, SinkError, exactly_once
from tests.support.sql_places import SqlPlace


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[1]").appName("calls").config("spark.ui.enabled", "false")
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def run(spark: SparkSession, place: SqlPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a query over all that is in the folder, with a function for its batches."""
    # A plain job would end here.
    monkeypatch.setattr(sys.modules[ExactlyOnce.__module__], "_end", lambda error: None)
    place.run("create table orders (id bigint not null)")
    (tmp_path / "in").mkdir()

    def ran(function: Callable[[DataFrame, int], None]) -> None:
        writer = spark.readStream.schema("id long").json(str(tmp_path / "in")).writeStream.foreachBatch(function)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.start().awaitTermination()

    return ran


def sink_of(place: SqlPlace) -> ExactlyOnce:
    database: Any = place.database
    return exactly_once(database, "orders")


def add(folder: Path, number: int) -> None:
    (folder / "in" / f"{number}.json").write_text(f'{{"id": {number}}}\n')


def ids(place: SqlPlace, table: str = "orders") -> list[int]:
    return [number for (number,) in place.run(f"select id from {table} order by id")]


TWICE = (
    r"SINK_REFUSED: The sink of calls/orders is called twice in batch {}: rows of the second call would not be written"
)


@pytest.mark.parametrize("objects", ["one", "two"])
def test_a_second_call_in_a_batch_is_refused_and_a_batch_that_is_run_again_is_skipped(
    run: Callable[..., None], place: SqlPlace, tmp_path: Path, objects: str
) -> None:
    sinks = [sink_of(place) for _ in range(2 if objects == "two" else 1)]

    def twice(frame: DataFrame, batch_id: int) -> None:
        sinks[0](frame, batch_id)
        sinks[-1](frame.selectExpr("id + 100 as id"), batch_id)

    add(tmp_path, 1)
    # The second run finds the first call's rows in the sink, and does not take that for the second call's.
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match=TWICE.format(0)):
            run(twice)
        assert ids(place) == [1]
    run(sinks[0])
    add(tmp_path, 2)
    run(sinks[0])
    assert ids(place) == [1, 2]


def test_a_rehearsal_finds_a_second_call(
    run: Callable[..., None], place: SqlPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "rehearsing", lambda: True)
    sink = sink_of(place)
    add(tmp_path, 1)
    run(sink)
    add(tmp_path, 2)
    with pytest.raises(StreamingQueryException, match=TWICE.format(1)):
        run(lambda frame, batch_id: [sink(frame, batch_id) for _ in range(2)])
    assert ids(place) == []


def test_a_call_that_has_failed_may_be_made_again(run: Callable[..., None], place: SqlPlace, tmp_path: Path) -> None:
    sink = sink_of(place)

    def patient(frame: DataFrame, batch_id: int) -> None:
        if batch_id == 1:
            ((session, _),) = place.run(place.database.lock_holder, ("calls/orders",))
            place.run(place.database.end_session, (session,))
            with pytest.raises(SinkError):
                sink(frame, batch_id)
        sink(frame, batch_id)

    for number in (1, 2):
        add(tmp_path, number)
        run(patient)
    assert ids(place) == [1, 2]


def test_sinks_of_two_databases_are_called_in_one_batch(
    run: Callable[..., None], place: SqlPlace, tmp_path: Path
) -> None:
    ((name,),) = place.run("select current_database()" if place.kind == "postgres" else "select database()")
    place.run(f"create database {name}_b")
    places = [place, replace(place, address=place.address.replace(name, f"{name}_b"))]
    places[1].run("create table orders (id bigint not null)")
    sinks = [sink_of(each) for each in places]
    dies = [False, True]

    def both(frame: DataFrame, batch_id: int) -> None:
        for sink in sinks:
            sink(frame, batch_id)
        if dies.pop():
            raise ValueError("before Spark's commit")

    add(tmp_path, 1)
    with pytest.raises(StreamingQueryException, match="before Spark's commit"):
        run(both)
    run(both)
    assert [ids(each) for each in places] == [[1], [1]]
