"""The ledger on real databases, with drivers that die, freeze and come too late. Rows are copied without Spark."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.types import BooleanType, LongType, NullType, StringType, StructField, StructType

from airflow_stream_provider.hooks import ledger as reading
from airflow_stream_provider.sinks import AnotherWriter, BadRows, Fenced, Gap, SinkError
from airflow_stream_provider.sinks.ledger import Target, Writer, is_to_be_written
from airflow_stream_provider.sinks.sql_database import run
from airflow_stream_provider.sinks.sql_ledger import SqlLedger
from devstack.drivers import wait_for
from tests.support.ledgers import PLAIN, batch, wait_until_frozen
from tests.support.rows_in_hand import SCHEMA, Rows, copied, numbers
from tests.support.sql_places import MANAGED, TARGET, SqlPlace, StandInHook

pytestmark = pytest.mark.usefixtures("orders")
KEYED = Target("orders", ("id",))
TEXTS = Rows(StructType([StructField("id", StringType())]), ["x"])
DOUBLED = StructType([StructField("id", LongType()), StructField("twice", LongType())])


def test_rows_and_offsets_are_written_together_and_the_history_says_how(place: SqlPlace) -> None:
    mine = place.ledger()
    assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10
    assert mine.write(numbers(10, 15), batch(1, 10, 15)) == 5
    assert place.counted() == (15, 15)
    entry = mine.entry()
    assert (entry.query_id, entry.batch_id, entry.offsets, entry.epoch) == ("q1", 1, [{"orders": {"0": 15}}], 1)
    assert not is_to_be_written(entry, mine.id, batch(1, 10, 15))
    history = place.run("select h.rows, begins, ends from stream_ledger_history h order by seq")
    assert [
        (rows, *(json.loads(each) if isinstance(each, str) else each for each in both)) for rows, *both in history
    ] == [
        (10, [{"orders": {"0": 0}}], [{"orders": {"0": 10}}]),
        (5, [{"orders": {"0": 10}}], [{"orders": {"0": 15}}]),
    ]


def test_a_batch_is_written_once_whatever_was_read_of_the_ledger_before(place: SqlPlace) -> None:
    mine = place.ledger()
    mine.write(numbers(0, 10), batch(0, 0, 10))
    assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 0
    with pytest.raises(Gap):
        mine.write(numbers(20, 30), batch(1, 20, 30))
    assert place.counted() == (10, 10)
    assert mine.write(numbers(10, 20), batch(1, 10, 20)) == 10


def test_attempts_that_do_not_count_leave_no_row(place: SqlPlace) -> None:
    mine = place.ledger()
    twice = Rows(SCHEMA, ["1\ta", "2\tb"], again=1)
    assert mine.write(twice, batch(0, 0, 2)) == 2
    assert place.counted() == (2, 2)


def test_a_driver_of_a_later_hold_fences_the_one_before_at_once(place: SqlPlace) -> None:
    old = place.ledger()
    old.write(numbers(0, 10), batch(0, 0, 10))
    new = place.ledger(replace(MANAGED, holder="two.b", hold=5))
    with pytest.raises(Fenced, match=r"two\.b has claimed the ledger of orders/daily with epoch 2"):
        old.write(numbers(10, 20), batch(1, 10, 20))
    assert new.write(numbers(10, 20), batch(1, 10, 20)) == 10
    assert place.counted() == (20, 20)
    with pytest.raises(Fenced):
        place.ledger()  # a driver that held before, and comes late
    assert new.write(numbers(20, 21), batch(2, 20, 21)) == 1


ZOMBIE = """
import os, signal, sys
from airflow_stream_provider.sinks.ledger import SinkError
from airflow_stream_provider.sinks.sql_database import SqlDatabase
from airflow_stream_provider.sinks.sql_ledger import SqlLedger
from tests.support.ledgers import batch
from tests.support.rows_in_hand import copied, numbers
from tests.support.sql_places import MANAGED, TARGET, SqlPlace

database = SqlPlace(*sys.argv[1:]).database
SqlDatabase.copy = copied
merge = database.merge
def freeze(*args):
    merge(*args)
    os.kill(os.getpid(), signal.SIGSTOP)
database.merge = freeze
mine = SqlLedger(database, MANAGED, TARGET)
mine.claim()
try:
    mine.write(numbers(0, 10), batch(0, 0, 10))
except SinkError as error:
    print(type(error).__name__)
"""


def test_a_driver_that_is_frozen_in_its_transaction_writes_nothing_when_it_wakes(place: SqlPlace) -> None:
    zombie = subprocess.Popen(
        [sys.executable, "-c", ZOMBIE, place.kind, place.address], stdout=subprocess.PIPE, text=True
    )
    try:
        wait_until_frozen(zombie)
        new = place.ledger(replace(MANAGED, holder="two.b", hold=5))
        assert new.write(numbers(0, 10), batch(0, 0, 10)) == 10
        zombie.send_signal(signal.SIGCONT)
        said, _ = zombie.communicate(timeout=60)
        assert said.strip() == "Fenced"
    finally:
        zombie.kill()
    assert place.counted() == (10, 10)


def test_a_task_of_the_driver_before_that_is_frozen_in_its_copy_does_not_hinder_the_next(place: SqlPlace) -> None:
    old = place.ledger()
    old.write(numbers(0, 10), batch(0, 0, 10))
    with place.late_task(old._staging):
        new = place.ledger(replace(MANAGED, holder="two.b", hold=5))
        assert new.write(numbers(10, 20), batch(1, 10, 20)) == 10
    assert place.counted() == (20, 20)


def test_the_staging_table_keeps_no_more_than_one_batch_and_what_a_late_task_has_hindered(place: SqlPlace) -> None:
    def left() -> int:
        ((found,),) = place.run(f"select count(*) from {mine._staging}")
        return int(found)

    # PostgreSQL empties it before the next batch, MariaDB in the batch's own transaction.
    kept = {"postgres": 10, "mariadb": 0}[place.kind]
    mine = place.ledger()
    for number in range(3):
        mine.write(numbers(10 * number, 10 * number + 10), batch(number, 10 * number, 10 * number + 10))
    assert left() == kept
    with place.late_task(mine._staging) as task:
        mine.write(numbers(30, 40), batch(3, 30, 40))
        run(task, "rollback")
    assert left() == 2 * kept
    mine.write(numbers(40, 50), batch(4, 40, 50))
    assert left() == kept
    assert place.counted() == (50, 50)


def test_airflow_reads_the_ledger_by_the_same_statements(place: SqlPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = place.ledger()
    mine.write(numbers(0, 10), batch(0, 0, 10))
    mine.write(numbers(10, 15), batch(1, 10, 15))
    monkeypatch.setattr(reading, "database_hook", lambda conn_id: StandInHook(place))
    (row,) = reading.read_ledger("orders_db", "orders")
    assert (row.query, row.holder, row.batch_id, row.kafka) == ("daily", "one.a", 1, {"orders": {0: 15}})
    assert [(each.batch_id, each.rows, each.begins) for each in row.history] == [
        (1, 5, [{"orders": {"0": 10}}]),
        (0, 10, [{"orders": {"0": 0}}]),
    ]
    assert row.written_at is not None
    assert abs(row.written_at - time.time()) < 3600, "in UTC"
    (found,) = reading.committed_by_ledger([row])
    assert (found.offsets, [each for _, each in found.window]) == (
        {"orders": {0: 15}},
        [{"orders": {0: 10}}, {"orders": {0: 15}}],
    )
    assert reading.difference(row, found) == ""
    behind = replace(found, offsets={"orders": {0: 10}}, batch=0)
    assert "The sink has batch 1 already" in reading.difference(row, behind)
    other = replace(found, offsets={"orders": {0: 20}}, batch=2)
    assert "until offset 15 (batch 1), and the checkpoint has committed it until 20" in reading.difference(row, other)


def test_a_second_plain_job_is_refused_and_says_who_the_first_is(place: SqlPlace) -> None:
    first = place.ledger(PLAIN)
    first.write(numbers(0, 10), batch(0, 0, 10))
    with pytest.raises(AnotherWriter, match=r"a plain job on 127\.0\.0\.1 writes orders/daily since"):
        place.ledger(replace(PLAIN, holder="a second one"))
    assert first.write(numbers(10, 20), batch(1, 10, 20)) == 10
    taken = place.ledger(replace(PLAIN, holder="a third one", take_over=True))
    with pytest.raises(SinkError):
        first.write(numbers(20, 30), batch(2, 20, 30))
    assert taken.write(numbers(20, 30), batch(2, 20, 30)) == 10
    taken.close()
    after = place.ledger(replace(PLAIN, holder="a fourth one"))
    assert (after.epoch, place.counted()) == (3, (30, 30))


def session_of(place: SqlPlace) -> int:
    """The session that has the lock."""
    ((session, _),) = place.run(place.database.lock_holder, ("orders/daily",))
    return int(session)


def test_a_session_that_the_server_ended_is_made_again(place: SqlPlace) -> None:
    mine = place.ledger()
    mine.write(numbers(0, 10), batch(0, 0, 10))
    place.run(place.database.end_session, (session_of(place),))
    with pytest.raises(SinkError):
        mine.entry()
    assert mine.write(numbers(10, 20), batch(1, 10, 20)) == 10
    place.run(place.database.end_session, (session_of(place),))
    with pytest.raises(SinkError):
        mine.write(numbers(20, 30), batch(2, 20, 30))
    assert mine.write(numbers(20, 30), batch(2, 20, 30)) == 10
    assert place.counted() == (30, 30)


@pytest.mark.parametrize("writer", [MANAGED, PLAIN])
def test_an_own_session_whose_connection_was_lost_is_ended(place: SqlPlace, writer: Writer) -> None:
    mine = place.ledger(writer)
    lost, mine._connection = mine._connection, None
    assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10
    with pytest.raises(place.database.driver().Error):
        run(lost, "select 1")
    lost.close()


def test_the_session_of_a_driver_that_is_about_to_claim_the_ledger_is_not_ended(place: SqlPlace) -> None:
    mine = place.ledger()
    mine.close()
    with closing(place.database.connect("the next")) as other:
        assert run(other, place.database.try_lock, ("orders/daily",)).fetchone()[0]
        for _ in range(2):
            with pytest.raises(SinkError, match="Another session writes orders/daily"):
                mine.write(numbers(0, 10), batch(0, 0, 10))
        run(other, "select 1")
    assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10


def test_a_driver_that_comes_late_ends_no_session_and_keeps_none(
    place: SqlPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: Any = SqlLedger(place.database, MANAGED, TARGET)
    try_lock, new = late._try_lock, list[Any]()

    def overtaken() -> bool:
        if not new:
            new.append(place.ledger(replace(MANAGED, holder="two.b", hold=5)))
        return bool(try_lock())

    monkeypatch.setattr(late, "_try_lock", overtaken)
    with pytest.raises(Fenced):
        late.claim()
    assert late._connection is None
    assert new[0].write(numbers(0, 10), batch(0, 0, 10)) == 10


def test_a_commit_whose_answer_is_lost_is_found(place: SqlPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = place.ledger()

    def lost(*args: Any) -> Any:
        written = merged(*args)
        run(mine._connection, "commit")
        mine._connection.close()
        return written

    merged = mine._merge
    monkeypatch.setattr(mine, "_merge", lost)
    assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10
    assert place.counted() == (10, 10)


def test_rows_replace_each_other_by_key_and_are_removed(place: SqlPlace) -> None:
    place.run("alter table orders add primary key (id)")
    schema = StructType([StructField("gone", BooleanType()), *SCHEMA.fields])
    mine = place.ledger(target=replace(KEYED, delete="gone"))
    mine.write(Rows(schema, ["1\ta\t0", "2\tb\t0", "3\tc\t0"]), batch(0, 0, 3))
    mine.write(Rows(schema, ["1\tA\t0", "2\t\\N\t1", "4\td\t\\N"]), batch(1, 3, 6))
    assert place.run("select id, name from orders order by id") == [(1, "A"), (3, "c"), (4, "d")]


@pytest.mark.parametrize(
    ("target", "given", "says"),
    [
        (Target("nowhere"), numbers(0, 1), "There is no table nowhere"),
        (KEYED, numbers(0, 1), r"no unique index on \(id\)"),
        (Target("orders", ("key",)), numbers(0, 1), "no column 'key'; it has id, name"),
        (Target("orders", delete="name"), numbers(0, 1), "must be a boolean"),
        (TARGET, TEXTS, "does not take a row: invalid input syntax|id is string in the batch and bigint in the table"),
        (
            TARGET,
            Rows(StructType([StructField("id", BooleanType())]), ["t"]),
            "id is boolean in the batch and (int8|bigint) in",
        ),
        (TARGET, Rows(StructType([StructField("name", StringType())]), ["x"]), "id may not be null"),
        (TARGET, Rows(SCHEMA, ["\\N\tx"]), "null value in column|'id' cannot be null"),
        (TARGET, Rows(StructType([*SCHEMA.fields, StructField("x", LongType())]), ["1\ta\t1"]), "has no column x"),
        (Target("made", (), "", True), Rows(StructType([StructField("x", NullType())]), ["\\N"]), "has no type for x"),
        (Target("doubled"), Rows(DOUBLED, ["1\t2"]), r"cannot insert a non-DEFAULT.*428C9|has been ignored \(1906\)"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_a_sentence_and_nothing_is_written(
    place: SqlPlace, target: Target, given: Rows, says: str
) -> None:
    place.run("create table doubled (id bigint, twice bigint generated always as (id * 2) stored)")
    mine = place.ledger(target=target)
    with pytest.raises(BadRows, match=says):
        mine.write(given, batch(0, 0, 1))
    assert place.counted() == (0, 0)
    assert mine.entry().query_id == ""


def test_a_key_that_is_twice_in_a_batch_is_refused(place: SqlPlace) -> None:
    place.run("create unique index by_id on orders (id)")
    mine = place.ledger(target=KEYED)
    with pytest.raises(BadRows, match=r"Several rows of the batch have the same key \(id\)"):
        mine.write(Rows(SCHEMA, ["1\ta", "1\tb"]), batch(0, 0, 2))
    assert place.counted() == (0, 0)


def test_a_row_without_a_key_is_refused(place: SqlPlace) -> None:
    place.run("create table loose (id bigint, part bigint, unique (id, part))")
    parts = StructType([StructField("id", LongType()), StructField("part", LongType())])
    mine = place.ledger(target=Target("loose", ("id", "part")))
    with pytest.raises(BadRows, match=r"A row of the batch has no value in key \(id, part\)"):
        mine.write(Rows(parts, ["1\t1", "1\t\\N"]), batch(0, 0, 2))
    assert place.counted("loose") == (0, 0)
    assert mine.write(Rows(parts, ["1\t1", "1\t2"]), batch(0, 0, 2)) == 2


def test_a_missing_table_is_made_where_that_is_wanted(place: SqlPlace) -> None:
    mine = place.ledger(target=Target("made", ("id",), create=True))
    assert mine.write(numbers(0, 3), batch(0, 0, 3)) == 3
    assert place.counted("made") == (3, 3)


def test_a_rehearsal_writes_nothing_and_finds_what_does_not_fit(place: SqlPlace) -> None:
    mine = place.ledger()
    rehearsal: Any = SqlLedger(place.database, Writer("", "", "a rehearsal"), TARGET)
    rehearsal.rehearse(numbers(0, 3))
    with pytest.raises(BadRows):
        rehearsal.rehearse(TEXTS)
    assert place.counted() == (0, 0)
    assert place.run(place.database.tables, ("stream_rehearsal",)) == []
    assert mine.write(numbers(0, 1), batch(0, 0, 1)) == 1


def test_a_rehearsal_makes_no_table(place: SqlPlace) -> None:
    target = Target("made", ("id",), create=True)
    rehearsal: Any = SqlLedger(place.database, Writer("", "", "a rehearsal"), target)
    rehearsal.rehearse(numbers(0, 3))
    with pytest.raises(BadRows, match="the same key"):
        rehearsal.rehearse(Rows(SCHEMA, ["1\ta", "1\tb"]))
    assert place.run(place.database.tables, ("made",)) == place.run(place.database.tables, ("stream_",)) == []


def test_what_a_killed_rehearsal_has_left_is_dropped_a_day_later(place: SqlPlace) -> None:
    now = int(time.time())
    for since in (now, now - 80_000, now - 90_000):
        place.run(f"create table stream_rehearsal_{since}_0123456789abcdef (id bigint)")
    place.ledger().write(numbers(0, 1), batch(0, 0, 1))
    left = [name for (name,) in place.run(place.database.tables, ("stream_rehearsal_",))]
    assert sorted(int(name.split("_")[2]) for name in left) == [now - 80_000, now]


def test_a_task_whose_database_is_away_says_so_without_its_address(place: SqlPlace) -> None:
    database = replace(place, address=AWAY[place.kind]).database
    rows = Rows(SCHEMA, ["1\ta"])
    with pytest.raises(RuntimeError, match=r"^The sink's database does not take rows \(OperationalError\)\.$"):
        copied(database, rows, ["id", "name"], "staging")


AWAY = {
    "postgres": "host=127.0.0.1 port=1 user=somebody password=secret dbname=x",
    "mariadb": "mysql://somebody:secret@127.0.0.1:1/x",
}


def test_a_database_that_is_away_is_said_without_its_address(place: SqlPlace) -> None:
    away = replace(place, address=AWAY[place.kind])
    with pytest.raises(SinkError) as found:
        away.ledger(PLAIN)
    assert "orders_db cannot be reached" in str(found.value)
    assert not {"secret", "somebody"} & set(str(found.value).replace("'", " ").split())


def test_a_password_in_the_place_of_an_address_is_not_shown(place: SqlPlace) -> None:
    with pytest.raises(SinkError) as found:
        replace(place, address="secret").ledger(PLAIN)
    assert "secret" not in str(found.value)


def test_a_session_that_idles_in_a_transaction_is_ended(place: SqlPlace) -> None:
    mine = place.ledger(replace(MANAGED, lease_seconds=1.0))
    run(mine._connection, "begin")
    assert mine._find() is not None
    wait_for("the lock to be free", lambda: not place.run(place.database.lock_holder, ("orders/daily",)))
    with pytest.raises(SinkError, match="orders_db failed"):
        mine.entry()
    assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10
