"""What only PostgreSQL has: relations that are no tables, indexes that make nothing unique, libpq's settings."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from airflow_stream_provider.sinks import BadRows
from airflow_stream_provider.sinks.ledger import Batch, Target, Writer
from airflow_stream_provider.sinks.sql_database import SqlDatabase, run
from airflow_stream_provider.sinks.sql_ledger import SqlLedger
from tests.support.rows_in_hand import Rows, copied
from tests.support.sql_places import SqlPlace

pytestmark = [pytest.mark.quick, pytest.mark.parametrize("place", ["postgres"], indirect=True)]
SCHEMA = StructType([StructField("id", LongType()), StructField("name", StringType())])


@pytest.fixture(autouse=True)
def in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqlDatabase, "copy", copied)


def write(place: SqlPlace, *key: str) -> int:
    ledger: Any = SqlLedger(place.database, Writer("orders", "daily", "a test"), Target("orders", key))
    ledger.claim()
    with closing(ledger):
        return int(ledger.write(Rows(SCHEMA, ["1\ta", "2\tb"]), Batch("q", 0, [None], [1])))


PARTS = "create table orders (id bigint, name text) partition by list (id); create table one partition of orders for "
PARTS += "values in (1);"
ELSEWHERE = "create foreign data wrapper wrapper; create server elsewhere foreign data wrapper wrapper;"


@pytest.mark.parametrize(
    ("statements", "says"),
    [
        ("create unlogged table orders (id bigint, name text)", "orders is not logged"),
        ("create table t (id bigint, name text); create view orders as select * from t", "orders is a view"),
        ("create materialized view orders as select 1::bigint id, 'a' as name", "orders is a materialized view"),
        (
            f"{ELSEWHERE} create foreign table orders (id bigint, name text) server elsewhere",
            "orders is a foreign table",
        ),
        (f"{PARTS} create unlogged table two partition of orders for values in (2)", "two is not logged"),
        (
            f"{ELSEWHERE} {PARTS} create foreign table two partition of orders for values in (2) server elsewhere",
            "two is a foreign table",
        ),
    ],
)
def test_rows_that_are_not_in_the_transaction_of_the_offsets_are_refused(
    place: SqlPlace, statements: str, says: str
) -> None:
    place.run(statements)
    with pytest.raises(BadRows, match=rf"does not fit the table orders: {says}, and its rows are not in the same tra"):
        write(place)


def test_a_partitioned_table_takes_rows(place: SqlPlace) -> None:
    place.run(f"{PARTS} create table two partition of orders for values in (2)")
    assert write(place) == 2
    assert place.counted() == (2, 2)


def test_a_column_that_an_index_only_includes_is_no_part_of_the_key(place: SqlPlace) -> None:
    place.run("create table orders (id bigint, name text); create unique index on orders (id) include (name)")
    with pytest.raises(BadRows, match=r"no unique index on \(id, name\)"):
        write(place, "id", "name")
    assert write(place, "id") == 2


@pytest.mark.parametrize(
    "makes",
    [
        "alter table orders add unique (id) deferrable",
        # As `create index concurrently` that fails leaves it.
        "create unique index by_id on orders (id); "
        "update pg_index set indisvalid = false where indexrelid = 'by_id'::regclass",
    ],
)
def test_an_index_that_makes_no_statement_unique_is_none(place: SqlPlace, makes: str) -> None:
    place.run(f"create table orders (id bigint, name text); {makes}")
    with pytest.raises(BadRows, match=r"no unique index on \(id\)"):
        write(place, "id")


def test_a_session_ends_when_its_other_end_is_lost(place: SqlPlace) -> None:
    def settings(address: str) -> tuple[str, str]:
        with closing(SqlPlace("postgres", address).database.connect("test")) as connection:
            (server,) = run(connection, "show tcp_keepalives_idle").fetchone()
            return connection.info.get_parameters()["keepalives_idle"], server

    assert settings(place.address) == ("30", "30")
    assert settings(f"{place.address} keepalives_idle=7") == ("7", "30")
