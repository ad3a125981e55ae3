"""Values of every type of Spark, through real tasks into real databases: each comes back as it was."""

from __future__ import annotations

import datetime
import json
import os
import struct
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_stream_provider.sinks import BadRows, mariadb, postgres
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
