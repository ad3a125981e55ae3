"""Values of every type of Spark, through real tasks into real databases: each comes back as it was."""

from __future__ import annotations

import datetime
import json
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_stream_provider.sinks import BadRows, SinkError, mariadb, postgres
from airflow_stream_provider.sinks.given import kind_of
from airflow_stream_provider.sinks.ledger import Batch, Target, Writer
from airflow_stream_provider.sinks.sql_ledger import SqlLedger
from tests.support.sql_places import SqlPlace

UTC = datetime.UTC
SCHEMA = """`an "id" %s` bigint, i int, small smallint, tiny tinyint, f float, d double, n decimal(20,4), b boolean,
    t string, day date, at timestamp, local timestamp_ntz, raw binary, o struct<a:int,b:string>,
    l array<int>, m map<string,int>"""
TEXT = "tab\t back\\ line\n return\r quotes\" ' ` \\N é 🚂 %s {} $1 and spaces  "
ROWS: list[tuple[Any, ...]] = [
    (
        *(2**62, -7, 3, 1, 0.5, 0.1, Decimal("1234567890123456.7891"), True, TEXT),
        *(datetime.date(1969, 2, 3), datetime.datetime(2026, 3, 29, 1, 30, 0, 123456, UTC)),
        *(datetime.datetime(2026, 3, 29, 2, 30), b"\x00\xff\\", (1, 'a"\\\n'), [1, 2], {"k": 1}),
    ),
    (
        *(-(2**63), 2**31 - 1, -(2**15), -128, 3.4028234663852886e38, 5e-324, Decimal("-0.0001"), False, "\\N"),
        *(datetime.date(9999, 12, 31), datetime.datetime(2038, 1, 19, 3, 14, 7, 999999, UTC)),
        *(datetime.datetime(1000, 1, 1, 0, 0, 0, 1), b"", (None, ""), [], {}),
    ),
    (*([None] * 8), "", *([None] * 7)),
]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.session.timeZone", "America/New_York").getOrCreate()
    yield session
    session.stop()


def write(place: SqlPlace, frame: Any, target: Target) -> int:
    ledger = SqlLedger(place.database, Writer("values", target.table, "a test"), target)
    ledger.claim()
    try:
        return ledger.write(frame, Batch("q", 0, [None], [{"orders": {"0": 1}}]))
    finally:
        ledger.close()


def test_every_type_comes_back_as_it_was(spark: SparkSession, place: SqlPlace) -> None:
    frame = spark.createDataFrame(ROWS, SCHEMA)
    assert write(place, frame, Target("every_type", create=True)) == len(ROWS)
    found = place.run("select * from every_type order by i desc")
    if place.kind == "postgres":
        found = [*found[1:], found[0]]  # null is its largest
    for row, given in zip(found, (ROWS[1], ROWS[0], ROWS[2]), strict=True):
        at, nested = row[10], [json.loads(each) if isinstance(each, str) else each for each in row[13:]]
        # MariaDB's are in the session's time zone, which is UTC.
        assert at is None or (at if at.tzinfo else at.replace(tzinfo=UTC)) == given[10]
        assert row[:4] == given[:4]
        assert row[4] is None or struct.unpack("f", struct.pack("f", row[4])) == (given[4],)
        assert (*row[5:10], *row[11:13]) == (*given[5:10], *given[11:13])
        expected = given[13] and {key: each for key, each in zip("ab", given[13], strict=True) if each is not None}
        assert nested == [expected, *given[14:]]
    created = mariadb if place.kind == "mariadb" else postgres
    kinds = {kind_of(field.dataType) for field in frame.schema.fields}
    assert kinds == set(type(created("orders_db", **_address(place))).created)


# By the rules of 1900 Shanghai is 8:05:43 ahead of UTC, and Berlin was 53:28 ahead in the year 1.
OLD = {
    "Asia/Shanghai": datetime.datetime(1899, 12, 31, 15, 54, 17, 123456),
    "Europe/Berlin": datetime.datetime(1, 1, 1, 0, 0, 0, 1),
}


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark, whose settings are as they were when the test ends."""
    names = ("spark.sql.session.timeZone", "spark.sql.legacy.timeParserPolicy", "spark.sql.ansi.enabled")
    before = {name: spark.conf.get(name) for name in names}
    yield spark
    for name, value in before.items():
        spark.conf.set(name, str(value))


def micros(at: datetime.datetime) -> int:
    """Microseconds since 1970, of a time in UTC."""
    return (at - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
@pytest.mark.parametrize("policy", ["CORRECTED", "LEGACY"])
@pytest.mark.parametrize("zone", OLD)
def test_old_times_come_back_as_they_were(session: SparkSession, place: SqlPlace, zone: str, policy: str) -> None:
    session.conf.set("spark.sql.session.timeZone", zone)
    session.conf.set("spark.sql.legacy.timeParserPolicy", policy)
    place.run("create table orders (at timestamptz, text text)")
    times = [OLD[zone], datetime.datetime(2026, 3, 29, 1, 30, 0, 100), datetime.datetime(9999, 12, 31, 23, 59, 59)]
    each = ", ".join(f"timestamp_micros({micros(at)})" for at in times)
    write(place, session.sql(f"select at, at as text from values {each} as t(at)"), Target("orders"))
    found = place.run("select at at time zone 'UTC', text from orders order by at")
    assert [(at, datetime.datetime.fromisoformat(text)) for at, text in found] == [
        (at, at.replace(tzinfo=UTC)) for at in times
    ]


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
@pytest.mark.parametrize("year", [-62135596800000001, -62198755200000000, 253402300800000000, 2 - 2**63, 2**63 - 1])
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_years_that_postgresql_writes_otherwise_are_refused(
    session: SparkSession, place: SqlPlace, year: int, ansi: str
) -> None:
    session.conf.set("spark.sql.ansi.enabled", ansi)
    place.run("create table orders (at timestamptz)")
    with pytest.raises(BadRows, match="does not take a row"):
        write(place, session.sql(f"select timestamp_micros({year}) as at"), Target("orders"))


@pytest.mark.parametrize("zone", OLD)
def test_times_in_structs_come_back_as_they_were(session: SparkSession, place: SqlPlace, zone: str) -> None:
    session.conf.set("spark.sql.session.timeZone", zone)
    at = f"timestamp_micros({micros(OLD[zone])})"
    nested = f"struct({at} as at, timestamp_ntz'2026-03-29 02:30:00.000001' as here)"
    frame = session.sql(f"select {nested} as o, array({nested}) as l, map('k', {nested}) as m")
    write(place, frame, Target("orders", create=True))
    ((one, several, by_key),) = (
        [json.loads(each) if isinstance(each, str) else each for each in row]
        for row in place.run("select * from orders")
    )
    expected = {
        "Asia/Shanghai": "1900-01-01T00:00:00.123456+08:05:43",
        "Europe/Berlin": "0001-01-01T00:53:28.000001+00:53:28",
    }
    assert one == {"at": expected[zone], "here": "2026-03-29T02:30:00.000001"}
    assert (several, by_key) == ([one], {"k": one})


def test_times_in_structs_are_refused_where_spark_cuts_them(session: SparkSession, place: SqlPlace) -> None:
    session.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    for number, at in enumerate(("array(map('k', struct(now() as at)))", "struct(current_date() as day)")):
        frame = session.sql(f"select {at} as o")
        if number:
            write(place, frame, Target("orders", create=True))
            continue
        with pytest.raises(BadRows, match="is LEGACY, by which Spark cuts off microseconds of the times in o"):
            write(place, frame, Target("orders", create=True))


AWAY = {
    "postgres": "host=127.0.0.1 port=1 user=somebody password=secret dbname=x",
    "mariadb": "mysql://somebody:secret@127.0.0.1:1/x",
}


@pytest.mark.parametrize("few", [True, False])
def test_a_database_that_is_away_from_the_tasks_is_said_without_its_address(
    spark: SparkSession, place: SqlPlace, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    database, away = place.database, replace(place, address=AWAY[place.kind]).database
    monkeypatch.setattr(away, "_few", few, raising=False)
    monkeypatch.setattr(database, "carried_out", away.carried_out)
    monkeypatch.setattr(database, "task", away.task)
    ledger = SqlLedger(database, Writer("values", "orders", "a test"), Target("orders", create=True))
    ledger.claim()
    with (
        closing(ledger),
        pytest.raises(SinkError, match=r"failed while rows were copied \(OperationalError\)") as found,
    ):
        ledger.write(spark.range(3), Batch("q", 0, [None], [1]))
    assert found.value.__suppress_context__
    assert not {"somebody", "secret"} & set(str(found.value).split())
    with closing(ledger), pytest.raises(Exception, match="mistake") as other:
        ledger.write(
            spark.range(3).selectExpr("if(id = 2, raise_error('mistake'), id) as id"), Batch("q", 0, [None], [1])
        )
    assert not isinstance(other.value, SinkError)


def _address(place: SqlPlace) -> dict[str, str]:
    return {"url" if place.kind == "mariadb" else "dsn": place.address}


@pytest.mark.system
@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("v varchar(3)", "'abc  '", "Data truncated for column 'v'"),  # the server would note that, and drop the spaces
        ("v varchar(3)", "'abcd'", "Data too long for column 'v'"),
        ("v varchar(3) character set latin1", "'🚂'", "Incorrect string value for column `"),
        ("v decimal(5,1)", "1.25bd", "Data truncated for column 'v'"),
        ("v double", "double('NaN')", "Incorrect double value for column `"),
        ("v timestamp(6)", "timestamp'1960-01-01 00:00:00'", "Incorrect datetime value for column `"),
        ("v timestamp(6)", "timestamp'2110-01-01 00:00:00'", "Incorrect datetime value for column `"),
        (
            "v timestamp",
            "timestamp'2026-01-01 00:00:00'",
            r"v is timestamp in the batch and timestamp\(0\) in the table",
        ),
        ("v int unsigned", "-1", "Out of range value for column 'v'"),
        ("v enum('a')", "'another'", "Data truncated for column 'v'"),
        ("v json", "'no json'", r"CONSTRAINT `orders.v` failed"),
        ("v int", "'1.5'", "v is string in the batch and int in the table"),
    ],
)
def test_mariadb_is_not_left_to_change_a_value(
    spark: SparkSession, maria: SqlPlace, column: str, value: str, says: str
) -> None:
    maria.run(f"create table orders ({column}) engine=InnoDB")
    with pytest.raises(BadRows, match=says) as found:
        write(maria, spark.sql(f"select {value} as v"), Target("orders"))
    assert value.strip("'") not in str(found.value)
    assert maria.run("select count(*) from orders") == [(0,)]
