"""Values of every type of Spark, as lines that PostgreSQL copies: each comes back as it was."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pytest
from psycopg.rows import tuple_row
from pyspark.sql import SparkSession

from airflow_stream_provider.sinks.postgres import CREATED, as_lines, kind_of
from airflow_stream_provider.sinks.postgres_table import Target, check_table
from devstack.postgres import PostgresServer

UTC = datetime.UTC
SCHEMA = """`an id` bigint, i int, small smallint, tiny tinyint, f float, d double, n decimal(20,4), b boolean,
    t string, day date, at timestamp, local timestamp_ntz, raw binary, o struct<a:int,b:string>,
    l array<int>, m map<string,int>"""
ROWS = [
    (
        *(
            2**62,
            -7,
            3,
            1,
            0.5,
            0.1,
            Decimal("1234567890123456.7891"),
            True,
            'tab\t back\\ line\n return\r quote" \\N é 🚂',
        ),
        *(datetime.date(1969, 2, 3), datetime.datetime(2026, 3, 29, 1, 30, 0, 123456, UTC)),
        *(datetime.datetime(2026, 3, 29, 2, 30), b"\x00\xff\\", (1, 'a"\\\n'), [1, 2], {"k": 1}),
    ),
    (*([None] * 8), "", *([None] * 7)),
    (*([None] * 4), float("nan"), float("-inf"), None, False, "\\N", *([None] * 7)),
]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.session.timeZone", "America/New_York").getOrCreate()
    yield session
    session.stop()


def test_every_type_comes_back_as_it_was(spark: SparkSession, server: PostgresServer) -> None:
    frame = spark.createDataFrame(ROWS, SCHEMA)
    with psycopg.connect(server.dsn, autocommit=True, row_factory=tuple_row) as connection:
        connection.execute("set time zone 'Asia/Tokyo'")
        columns = check_table(connection, Target("every_type", create=True), frame.schema)
        with connection.cursor().copy("copy every_type from stdin") as to:
            for (line,) in as_lines(frame, columns).collect():
                to.write(f"{line}\n")
        found = connection.execute("select * from every_type").fetchall()
    first, empty, special = found
    assert first[:10] == ROWS[0][:10]
    assert first[10].astimezone(UTC) == ROWS[0][10]
    assert first[11:] == (*ROWS[0][11:13], {"a": 1, "b": 'a"\\\n'}, [1, 2], {"k": 1})
    assert empty == ROWS[1]
    assert str(special[4]) == "nan"
    assert special[5:10] == ROWS[2][5:10]
    assert set(CREATED) == {kind_of(field.dataType) for field in frame.schema.fields}
