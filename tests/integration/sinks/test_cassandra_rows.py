"""Rows of real Spark in a real Cassandra: each type comes back as it was; what no table takes is refused before."""

from __future__ import annotations

import datetime
import os
import sys
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_stream_provider.sinks import BadRows, SinkError
from airflow_stream_provider.sinks.cassandra import Cassandra
from airflow_stream_provider.sinks.cassandra_table import CREATED, HOLDS
from airflow_stream_provider.sinks.given import kind_of
from airflow_stream_provider.sinks.ledger import Batch, Target, Writer
from devstack.cassandra import CassandraNode
from tests.support.cassandra_in_hand import keyspace

pytestmark = pytest.mark.system
UTC = datetime.UTC
SCHEMA = """`an "id` bigint, i int, small smallint, tiny tinyint, f float, d double, n decimal(20,4), b boolean,
    t string, day date, at timestamp, local timestamp_ntz, raw binary, o struct<a:int,b:string>,
    l array<int>, m map<string,int>"""
AT = datetime.datetime(2026, 3, 29, 1, 30, 0, 123000, UTC)
ROWS = [
    (
        *(2**62, -7, 3, 1, 0.5, 0.1, Decimal("1234567890123456.7891"), True, "tab\t \\ \n quote\" ' é 🚂"),
        *(datetime.date(1969, 2, 3), AT, datetime.datetime(2026, 3, 29, 2, 30), b"\x00\xff\\", (1, 'a"\n'), [1, 2]),
        {"k": 1},
    ),
    (1, *([None] * 7), "", *([None] * 7)),
    (2, *([None] * 3), float("nan"), float("-inf"), None, False, "x", None, AT.replace(year=1), *([None] * 5)),
]
KEYED = Target("orders", ("id",))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.session.timeZone", "America/New_York").getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def place(node: CassandraNode) -> Iterator[tuple[str, Any]]:
    with keyspace(node) as (url, session):
        session.execute("create table orders (id uuid primary key, at timestamp, name text)")
        yield url, session


@pytest.fixture
def ledger(place: tuple[str, Any]) -> Iterator[Any]:
    made = []

    def claimed(target: Target = KEYED) -> Any:
        made.append(Cassandra("shop", place[0]).ledger(Writer("orders", "daily", "one.a", "log"), target))
        made[-1].claim()
        return made[-1]

    yield claimed
    for each in made:
        each.close()


def batch(number: int = 0) -> Batch:
    return Batch("q1", number, [{"orders": {"0": number}}], [{"orders": {"0": number + 1}}])


def test_every_type_comes_back_as_it_was(spark: SparkSession, place: tuple[str, Any], ledger: Any) -> None:
    frame = spark.createDataFrame(ROWS, SCHEMA)
    assert set(CREATED) == set(HOLDS) == {kind_of(field.dataType) for field in frame.schema.fields}
    mine = ledger(Target("every_type", ('an "id',), create=True))
    assert mine.write(frame, batch()) == 3
    names = ", ".join('"an ""id"' if number == 0 else field.name for number, field in enumerate(frame.schema.fields))
    found = {row[0]: tuple(row) for row in place[1].execute(f"select {names} from every_type")}
    first, empty, special = found[2**62], found[1], found[2]
    assert first[:9] == ROWS[0][:9]
    assert (first[9].date(), first[10].replace(tzinfo=UTC)) == ROWS[0][9:11]
    assert first[11:] == ("2026-03-29 02:30:00", ROWS[0][12], '{"a":1,"b":"a\\"\\n"}', "[1,2]", '{"k":1}')
    assert empty == ROWS[1]
    assert str(special[4]) == "nan"
    assert special[5:10] == ROWS[2][5:10]
    # The module that reads it back counts so long ago in floats.
    assert abs(special[10] - datetime.datetime(1, 3, 29, 1, 30, 0, 123000)) < datetime.timedelta(milliseconds=1)


def test_types_that_hold_more_and_text_take_a_value_as_it_is(
    spark: SparkSession, place: tuple[str, Any], ledger: Any
) -> None:
    place[1].execute(
        "create table wide (id timeuuid primary key, i varint, small bigint, f double, at text, n text, d text, b text)"
    )
    number = uuid.uuid1()
    schema = "id string, i bigint, small tinyint, f float, at timestamp, n decimal(5,2), d double, b boolean"
    row = (str(number).upper(), 5, 1, 0.5, AT.replace(microsecond=7), Decimal("1.50"), 0.1, True)
    ledger(Target("wide", ("id",))).write(spark.createDataFrame([row], schema), batch())
    (found,) = place[1].execute("select id, i, small, f, at, n, d, b from wide")
    assert found == (number, 5, 1, 0.5, "2026-03-29 01:30:00.000007+00:00", "1.50", "0.1", "true")


def test_old_times_and_those_in_structs_come_back_as_they_were(
    spark: SparkSession, place: tuple[str, Any], ledger: Any
) -> None:
    place[1].execute("create table old (id int primary key, at text, o text)")
    zone = spark.conf.get("spark.sql.session.timeZone")
    at = "timestamp'1900-01-01 00:00:00.123456'"
    target = Target("old", ("id",))
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
        ledger(target).write(spark.sql(f"select 1 as id, {at} as at, struct({at} as at) as o"), batch(0))
        spark.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
        ledger(target).write(spark.sql(f"select 2 as id, {at} as at, '' as o"), batch(1))
        with pytest.raises(BadRows, match="LEGACY, by which Spark cuts off microseconds of the times in o"):
            ledger(target).write(spark.sql(f"select 3 as id, {at} as at, struct({at} as at) as o"), batch(2))
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
        spark.conf.unset("spark.sql.legacy.timeParserPolicy")
    found = {row.id: (row.at, row.o) for row in place[1].execute("select id, at, o from old")}
    utc = "1899-12-31 15:54:17.123456+00:00"
    assert found == {1: (utc, '{"at":"1900-01-01T00:00:00.123456+08:05:43"}'), 2: (utc, "")}


def test_rows_replace_each_other_by_key_and_are_removed(
    spark: SparkSession, place: tuple[str, Any], ledger: Any
) -> None:
    one, two, three = (str(uuid.uuid4()) for _ in range(3))
    mine = ledger(Target("orders", ("id",), delete="gone"))
    schema = "gone boolean, id string, at timestamp, name string"
    mine.write(spark.createDataFrame([(False, each, AT, "a") for each in (one, two)], schema), batch(0))
    rows = [(None, one, None, "A"), (True, two, None, None), (False, three, AT, None)]
    mine.write(spark.createDataFrame(rows, schema), batch(1))
    found = {str(row.id): (row.at, row.name) for row in place[1].execute("select * from orders")}
    assert found == {one: (None, "A"), three: (AT.replace(tzinfo=None), None)}
    assert mine.write(spark.createDataFrame([], schema), batch(2)) == 0


ID = "0a51a0b3-9c1f-4c8e-8d7e-0123456789ab"


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([(ID, AT, "a"), (ID.upper(), AT, "b")], r"Several rows of the batch have the same key \(id\)"),
        ([(ID, AT, "a"), (None, AT, "b")], "not for the table orders: id is null, and a part of the key"),
        ([(ID, AT, "a"), ("secret", AT, "b")], "not for the table orders: id is no UUID"),
        ([(ID, AT.replace(microsecond=7), "a")], "at has microseconds, and the table holds milliseconds"),
    ],
)
def test_rows_that_no_table_takes_are_refused_before_one_is_written(
    spark: SparkSession, place: tuple[str, Any], ledger: Any, rows: list[Any], says: str
) -> None:
    frame = spark.createDataFrame(rows, "id string, at timestamp, name string")
    mine = ledger()
    with pytest.raises(BadRows, match=says):
        mine.rehearse(frame)
    with pytest.raises(BadRows, match=says) as found:
        mine.write(frame, batch())
    assert "secret" not in str(found.value)
    assert not place[1].execute("select * from orders").all()
    assert mine.entry().query_id == ""


def test_a_rehearsal_writes_nothing(spark: SparkSession, place: tuple[str, Any]) -> None:
    rehearsal = Cassandra("shop", place[0]).ledger(Writer("", "", "a rehearsal"), KEYED)
    rehearsal.rehearse(spark.createDataFrame([(ID, AT, "a")], "id string, at timestamp, name string"))
    rehearsal.close()
    rehearsal = Cassandra("shop", place[0]).ledger(Writer("", "", "a rehearsal"), Target("made", ("id",), create=True))
    rehearsal.rehearse(spark.createDataFrame([(1, AT)], "id int, at timestamp"))
    with pytest.raises(BadRows, match=r"the same key \(id\)"):
        rehearsal.rehearse(spark.createDataFrame([(1, AT), (1, AT)], "id int, at timestamp"))
    with pytest.raises(BadRows, match="Cassandra has no type for v"):
        rehearsal.rehearse(spark.sql("select 1 as id, null as v"))
    rehearsal.close()
    assert not place[1].execute("select * from orders").all()
    tables = place[1].execute(
        "select table_name from system_schema.tables where keyspace_name = %s", (place[1].keyspace,)
    )
    assert [row.table_name for row in tables] == ["orders"]


def test_a_database_that_is_away_from_the_tasks_is_said_without_its_address(
    spark: SparkSession, place: tuple[str, Any], ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, away = ledger(), Cassandra("shop", "cassandra://somebody:secret@127.0.0.1:1/shop")
    monkeypatch.setattr(mine._database, "writing", away.writing)
    frame = spark.createDataFrame([(ID, AT, "a")], "id string, at timestamp, name string")
    with pytest.raises(SinkError, match=r"failed while rows were copied \(NoHostAvailable\)") as found:
        mine.write(frame, batch())
    assert not {"somebody", "secret"} & set(str(found.value).split())
    assert mine.entry().query_id == ""


def test_what_the_table_does_not_take_is_said_without_the_row(
    spark: SparkSession, place: tuple[str, Any], ledger: Any
) -> None:
    place[1].execute("create table texts (id text primary key)")
    mine = ledger(Target("texts", ("id",)))
    with pytest.raises(BadRows, match="does not take a row: Key may not be empty") as found:
        mine.write(spark.createDataFrame([("",), ("secret",)], "id string"), batch())
    assert "secret" not in str(found.value)
    assert mine.entry().query_id == ""
