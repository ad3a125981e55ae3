"""The ledger on a real PostgreSQL, with drivers that die, freeze and come too late. Rows are copied without Spark."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from airflow_stream_provider.sinks import AnotherWriter, BadRows, Fenced, SinkError, postgres_ledger
from airflow_stream_provider.sinks.ledger import Batch, is_to_be_written
from airflow_stream_provider.sinks.postgres import Postgres
from airflow_stream_provider.sinks.postgres_ledger import PostgresLedger, Writer
from airflow_stream_provider.sinks.postgres_table import Target
from devstack.postgres import PostgresServer
from tests.support.rows_in_hand import Rows, copied

pytestmark = pytest.mark.quick
SCHEMA = StructType([StructField("id", LongType()), StructField("name", StringType())])
MANAGED = Writer("orders", "daily", "one.a", control="log", hold=4, lease_seconds=5.0)
PLAIN = Writer("orders", "daily", "a plain job")
TARGET = Target("orders")
KEYED = Target("orders", ("id",))


@pytest.fixture
def database(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of this test's own."""
    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(f"create database {name}")
    dsn = server.dsn.replace("dbname=postgres", f"dbname={name}")
    with psycopg.connect(dsn, autocommit=True) as made:
        made.execute("create table orders (id bigint not null, name text)")
    monkeypatch.setattr(postgres_ledger, "as_lines", lambda frame, columns: frame)
    monkeypatch.setattr(Postgres, "copy", copied)
    return dsn


def ledger(dsn: str, writer: Writer = MANAGED, target: Target = TARGET) -> Any:  # its frames are `Rows`
    found = PostgresLedger(Postgres("orders_db", dsn), writer, target)
    found.claim()
    return found


def batch(number: int, begins: int, ends: int, query: str = "q1") -> Batch:
    return Batch(query, number, [{"orders": {"0": begins}}], [{"orders": {"0": ends}}])


def rows(dsn: str, what: str = "count(*), count(distinct id)", table: str = "orders") -> Any:
    with psycopg.connect(dsn) as reader:
        return reader.execute(f"select {what} from {table}").fetchone()


def numbers(begins: int, ends: int) -> Rows:
    return Rows(SCHEMA, [f"{number}\tname {number}" for number in range(begins, ends)])


def test_rows_and_offsets_are_written_together_and_the_history_says_how(database: str) -> None:
    mine = ledger(database)
    assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10
    assert mine.write(numbers(10, 15), batch(1, 10, 15)) == 5
    assert rows(database) == (15, 15)
    entry = mine.entry()
    assert (entry.query_id, entry.batch_id, entry.offsets, entry.epoch) == ("q1", 1, [{"orders": {"0": 15}}], 1)
    assert not is_to_be_written(entry, mine.id, batch(1, 10, 15))
    assert rows(database, "count(*), sum(rows), min(begins::text)", "stream_ledger_history") == (
        2,
        15,
        '[{"orders": {"0": 0}}]',
    )


def test_attempts_that_do_not_count_leave_no_row(database: str) -> None:
    mine = ledger(database)
    twice = Rows(SCHEMA, ["1\ta", "2\tb"], again=1)
    assert mine.write(twice, batch(0, 0, 2)) == 2
    assert rows(database) == (2, 2)


def test_a_driver_of_a_later_hold_fences_the_one_before_at_once(database: str) -> None:
    old = ledger(database)
    old.write(numbers(0, 10), batch(0, 0, 10))
    new = ledger(database, replace(MANAGED, holder="two.b", hold=5))
    with pytest.raises(Fenced, match=r"two\.b has claimed the ledger of orders/daily with epoch 2"):
        old.write(numbers(10, 20), batch(1, 10, 20))
    assert new.write(numbers(10, 20), batch(1, 10, 20)) == 10
    assert rows(database) == (20, 20)
    with pytest.raises(Fenced):
        ledger(database)  # a driver that held before, and comes late
    assert new.write(numbers(20, 21), batch(2, 20, 21)) == 1


ZOMBIE = """
import os, signal, sys
from airflow_stream_provider.sinks import postgres_ledger
from airflow_stream_provider.sinks.ledger import SinkError
from airflow_stream_provider.sinks.postgres import Postgres
from tests.support.rows_in_hand import copied
from tests.integration.sinks.test_postgres_ledger import MANAGED, TARGET, batch, numbers

Postgres.copy = copied
postgres_ledger.as_lines = lambda frame, columns: frame
merge = postgres_ledger.merge
def freeze(*args):
    merge(*args)
    os.kill(os.getpid(), signal.SIGSTOP)
postgres_ledger.merge = freeze
mine = postgres_ledger.PostgresLedger(Postgres("orders_db", sys.argv[1]), MANAGED, TARGET)
mine.claim()
try:
    mine.write(numbers(0, 10), batch(0, 0, 10))
except SinkError as error:
    print(type(error).__name__)
"""


def test_a_driver_that_is_frozen_in_its_transaction_writes_nothing_when_it_wakes(database: str) -> None:
    zombie = subprocess.Popen([sys.executable, "-c", ZOMBIE, database], stdout=subprocess.PIPE, text=True)
    try:
        stat = Path(f"/proc/{zombie.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            assert zombie.poll() is None
        new = ledger(database, replace(MANAGED, holder="two.b", hold=5))
        assert new.write(numbers(0, 10), batch(0, 0, 10)) == 10
        zombie.send_signal(signal.SIGCONT)
        said, _ = zombie.communicate(timeout=60)
        assert said.strip() == "Fenced"
    finally:
        zombie.kill()
    assert rows(database) == (10, 10)


def test_a_task_of_the_driver_before_that_is_frozen_in_its_copy_does_not_hinder_the_next(database: str) -> None:
    old = ledger(database)
    old.write(numbers(0, 10), batch(0, 0, 10))
    with psycopg.connect(database) as task:
        task.execute(f"insert into {old._staging} values (null, null, 7, 'late')")
        new = ledger(database, replace(MANAGED, holder="two.b", hold=5))
        assert new.write(numbers(10, 20), batch(1, 10, 20)) == 10
    assert rows(database) == (20, 20)


def test_a_second_plain_job_is_refused_and_says_who_the_first_is(database: str) -> None:
    first = ledger(database, PLAIN)
    first.write(numbers(0, 10), batch(0, 0, 10))
    with pytest.raises(AnotherWriter, match=r"a plain job on 127\.0\.0\.1 writes orders/daily since"):
        ledger(database, replace(PLAIN, holder="a second one"))
    assert first.write(numbers(10, 20), batch(1, 10, 20)) == 10
    taken = ledger(database, replace(PLAIN, holder="a third one", take_over=True))
    with pytest.raises(SinkError):
        first.write(numbers(20, 30), batch(2, 20, 30))
    assert taken.write(numbers(20, 30), batch(2, 20, 30)) == 10
    taken.close()
    after = ledger(database, replace(PLAIN, holder="a fourth one"))
    assert (after.epoch, rows(database)) == (3, (30, 30))


def test_a_session_that_the_server_ended_is_made_again(database: str) -> None:
    mine = ledger(database)
    mine.write(numbers(0, 10), batch(0, 0, 10))
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'stream sink%'"
        )
    with pytest.raises(SinkError):
        mine.entry()
    assert mine.write(numbers(10, 20), batch(1, 10, 20)) == 10
    assert rows(database) == (20, 20)


def test_a_commit_whose_answer_is_lost_is_found(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = ledger(database)

    def lost(*args: Any) -> Any:
        written = merged(*args)
        mine._connection.execute("commit")
        mine._connection.close()
        return written

    merged = mine._merge
    monkeypatch.setattr(mine, "_merge", lost)
    assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10
    assert rows(database) == (10, 10)


def test_rows_replace_each_other_by_key_and_are_removed(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("alter table orders add primary key (id)")
    schema = StructType([StructField("gone", BooleanType()), *SCHEMA.fields])
    mine = ledger(database, target=replace(KEYED, delete="gone"))
    mine.write(Rows(schema, ["1\ta\tf", "2\tb\tf", "3\tc\tf"]), batch(0, 0, 3))
    mine.write(Rows(schema, ["1\tA\tf", "2\t\\N\tt", "4\td\t\\N"]), batch(1, 3, 6))
    assert rows(database, "string_agg(id || name, ',' order by id)") == ("1A,3c,4d",)


@pytest.mark.parametrize(
    ("target", "given", "says"),
    [
        (Target("nowhere"), numbers(0, 1), "There is no table nowhere"),
        (KEYED, numbers(0, 1), r"no unique index on \(id\)"),
        (Target("orders", ("key",)), numbers(0, 1), "no column 'key'; it has id, name"),
        (Target("orders", delete="name"), numbers(0, 1), "must be a boolean"),
        (
            TARGET,
            Rows(StructType([StructField("id", StringType())]), ["x"]),
            "does not take a row: invalid input syntax",
        ),
        (TARGET, Rows(StructType([StructField("id", BooleanType())]), ["t"]), "id is boolean in the batch and int8 in"),
        (TARGET, Rows(StructType([StructField("name", StringType())]), ["x"]), "id may not be null"),
        (TARGET, Rows(SCHEMA, ["\\N\tx"]), "null value in column"),
        (TARGET, Rows(StructType([*SCHEMA.fields, StructField("x", LongType())]), ["1\ta\t1"]), "has no column x"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_a_sentence_and_nothing_is_written(
    database: str, target: Target, given: Rows, says: str
) -> None:
    mine = ledger(database, target=target)
    with pytest.raises(BadRows, match=says):
        mine.write(given, batch(0, 0, 1))
    assert rows(database) == (0, 0)
    assert mine.entry().query_id == ""


def test_a_key_that_is_twice_in_a_batch_is_refused(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("create unique index on orders (id)")
    mine = ledger(database, target=KEYED)
    with pytest.raises(BadRows, match=r"Several rows of the batch have the same key \(id\)"):
        mine.write(Rows(SCHEMA, ["1\ta", "1\tb"]), batch(0, 0, 2))
    assert rows(database) == (0, 0)


def test_a_missing_table_is_made_where_that_is_wanted(database: str) -> None:
    mine = ledger(database, target=Target("public.made", ("id",), create=True))
    assert mine.write(numbers(0, 3), batch(0, 0, 3)) == 3
    assert rows(database, table="made") == (3, 3)


def test_a_rehearsal_writes_nothing_and_finds_what_does_not_fit(database: str) -> None:
    mine = ledger(database)
    rehearsal: Any = PostgresLedger(Postgres("orders_db", database), Writer("", "", "a rehearsal"), TARGET)
    rehearsal.rehearse(numbers(0, 3))
    with pytest.raises(BadRows):
        rehearsal.rehearse(Rows(StructType([StructField("id", StringType())]), ["x"]))
    assert rows(database) == (0, 0)
    assert rows(database, "count(*)", "pg_class where relname like 'stream_rehearsal%'") == (0,)
    assert mine.write(numbers(0, 1), batch(0, 0, 1)) == 1


def test_a_database_that_is_away_is_said_without_its_address(database: str) -> None:
    away = Postgres("orders_db", "host=127.0.0.1 port=1 user=somebody password=secret dbname=x")
    with pytest.raises(SinkError) as found:
        PostgresLedger(away, PLAIN, TARGET).claim()
    assert "orders_db cannot be reached" in str(found.value)
    assert not {"secret", "somebody"} & set(str(found.value).replace("'", " ").split())
