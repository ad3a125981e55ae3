"""The ledger on a real Cassandra, with drivers that die, freeze and come too late. Rows are written without Spark."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from airflow_stream_provider.sinks import (
    AnotherWriter,
    BadRows,
    Fenced,
    Gap,
    OtherSource,
    Overlap,
    SinkError,
    SinkRefused,
    cassandra,
    cassandra_ledger,
)
from airflow_stream_provider.sinks.cassandra import Cassandra
from airflow_stream_provider.sinks.ledger import Batch, Target, is_to_be_written
from devstack.cassandra import CassandraNode
from tests.support.cassandra_in_hand import KEYED, SCHEMA, Proxy, Rows, Shop, numbers, upserted
from tests.support.ledgers import MANAGED, PLAIN, batch, wait_until_frozen

pytestmark = pytest.mark.system


def test_rows_are_written_with_the_stamp_that_the_ledger_had_and_the_history_says_it(shop: Shop) -> None:
    mine = shop.ledger()
    assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10
    assert mine.write(numbers(8, 15), batch(1, 10, 15)) == 7
    entry = mine.entry()
    assert (entry.query_id, entry.batch_id, entry.offsets, entry.epoch) == ("q1", 1, [{"orders": {"0": 15}}], 1)
    assert not is_to_be_written(entry, mine.id, batch(1, 10, 15))
    assert mine.known() == entry
    first, second = shop.history()
    assert (first.slot, first.rows, first.begins, second.offsets) == (
        1,
        10,
        '[{"orders": {"0": 0}}]',
        '[{"orders": {"0": 15}}]',
    )
    written = {row[0]: row[1] for row in shop.session.execute("select id, writetime(name) from orders")}
    assert written == {**dict.fromkeys(range(8), first.stamp), **dict.fromkeys(range(8, 15), second.stamp)}
    assert first.stamp < second.stamp


def test_the_history_keeps_the_last_batches_only(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cassandra_ledger, "HISTORY", 3)
    mine = shop.ledger()
    for number in range(5):
        mine.write(numbers(number, number + 1), batch(number, number, number + 1))
    assert [row.batch_id for row in shop.history()] == [2, 3, 4]


def test_a_driver_of_a_later_hold_fences_the_one_before_at_once(shop: Shop) -> None:
    old = shop.ledger()
    old.write(numbers(0, 10), batch(0, 0, 10))
    new = shop.ledger(replace(MANAGED, holder="two.b", hold=5))
    with pytest.raises(Fenced, match=r"two\.b has claimed the ledger of orders/daily with epoch 2"):
        old.write(numbers(10, 20, "late"), batch(1, 10, 20))
    assert shop.names() == [f"name {number}" for number in range(10)], "it is refused before its first row"
    assert new.write(numbers(10, 20), batch(1, 10, 20)) == 10
    with pytest.raises(Fenced):
        shop.ledger()  # a driver that held before, and comes late
    assert new.write(numbers(20, 21), batch(2, 20, 21)) == 1


ZOMBIE = """
import os, signal, sys
from airflow_stream_provider.sinks.cassandra import Cassandra
from airflow_stream_provider.sinks.ledger import SinkError
from tests.support.cassandra_in_hand import KEYED, numbers, upserted
from tests.support.ledgers import MANAGED, batch

def upsert(*args):
    if sys.argv[2] == "before":
        os.kill(os.getpid(), signal.SIGSTOP)
    rows = upserted(*args)
    if sys.argv[2] == "after":
        os.kill(os.getpid(), signal.SIGSTOP)
    return rows
Cassandra.upsert = upsert
mine = Cassandra("shop", sys.argv[1]).ledger(MANAGED, KEYED)
mine.claim()
try:
    mine.write(numbers(0, 12, "zombie"), batch(0, 0, 10))
except SinkError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_rows_of_a_driver_that_was_frozen_lose_against_those_of_the_next(shop: Shop, when: str) -> None:
    zombie = subprocess.Popen([sys.executable, "-c", ZOMBIE, shop.url, when], stdout=subprocess.PIPE, text=True)
    try:
        wait_until_frozen(zombie)
        new = shop.ledger(replace(MANAGED, holder="two.b", hold=5))
        assert is_to_be_written(new.entry(), new.id, batch(0, 0, 10))
        assert new.write(numbers(0, 10), batch(0, 0, 10)) == 10
        zombie.send_signal(signal.SIGCONT)
        said, _ = zombie.communicate(timeout=120)
        assert said.strip() == "Fenced"
    finally:
        zombie.kill()
        zombie.wait()
    # Of the same keys no row is left; of keys that only the zombie's script made, they are: docs/exactly_once.md.
    assert shop.names() == [*(f"name {number}" for number in range(10)), "zombie 10", "zombie 11"]
    assert [row.holder for row in shop.history()] == ["two.b"]


def test_a_late_row_does_not_come_back_after_it_was_removed(shop: Shop) -> None:
    schema = StructType([*SCHEMA.fields, StructField("gone", BooleanType())])
    old = shop.ledger(target=replace(KEYED, delete="gone"))
    old.write(Rows(schema, [(1, "a", False), (2, "b", False), (3, "c", False)]), batch(0, 0, 3))
    before = old._stamp
    new = shop.ledger(replace(MANAGED, hold=5), replace(KEYED, delete="gone"))
    new.write(Rows(schema, [(1, "A", False), (2, None, True), (4, "d", False)]), batch(1, 3, 6))
    late = Rows(SCHEMA, [(number, "late", False) for number in (1, 2, 4)])
    upserted(old._database, late, KEYED, {"id": "bigint", "name": "text"}, before)
    assert shop.names() == ["A", "c", "d"]


def test_rows_that_others_wrote_before_are_replaced_as_a_database_does(shop: Shop) -> None:
    shop.session.execute("insert into orders (id, name) values (1, 'by hand')")
    mine = shop.ledger()
    mine.write(numbers(0, 3), batch(0, 0, 3))
    shop.session.execute("delete from orders where id = 2")
    mine.write(Rows(SCHEMA, [(2, "again", False)]), batch(1, 3, 4))
    assert shop.names() == ["name 0", "name 1", "again"]


LIVES = """
import sys, threading
from airflow_stream_provider.sinks.cassandra import Cassandra
from tests.support.cassandra_in_hand import KEYED
from tests.support.ledgers import PLAIN

mine = Cassandra("shop", sys.argv[1]).ledger(PLAIN, KEYED)
mine.claim()
print("claimed", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def first(shop: Shop) -> Iterator[subprocess.Popen[str]]:
    """A plain job that has claimed the ledger. It ends when it is told."""
    job = subprocess.Popen(
        [sys.executable, "-c", LIVES, shop.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert job.stdout is not None
        assert job.stdout.readline().strip() == "claimed"
        yield job
    finally:
        job.kill()
        job.wait()


def test_a_second_plain_job_is_refused_while_the_first_lives_and_goes_on_when_it_was_killed(
    shop: Shop, first: subprocess.Popen[str]
) -> None:
    with pytest.raises(AnotherWriter, match=r"a plain job writes orders/daily since 2"):
        shop.ledger(replace(PLAIN, holder="a second one"))
    first.kill()
    # It sees no sign of life until the lease is over.
    second = shop.ledger(replace(PLAIN, holder="a second one"))
    assert (second.epoch, second.write(numbers(0, 10), batch(0, 0, 10))) == (2, 10)
    taken = shop.ledger(replace(PLAIN, holder="a third one", take_over=True))
    with pytest.raises(Fenced, match="a third one"):
        second.write(numbers(10, 20), batch(1, 10, 20))
    assert taken.write(numbers(10, 20), batch(1, 10, 20)) == 10
    assert [(row.slot, row.holder) for row in shop.history()] == [(1, "a second one"), (2, "a third one")]


def test_a_plain_job_that_has_ended_leaves_no_sign_of_life(shop: Shop, first: subprocess.Popen[str]) -> None:
    assert first.stdin is not None
    first.stdin.close()
    assert first.wait(timeout=120) == 0
    assert shop.session.execute("select alive from stream_ledger").one().alive is None
    assert shop.ledger(PLAIN).epoch == 2


@pytest.mark.parametrize("change", ["_FIRST", "_BEGIN", "_COMMIT"])
@pytest.mark.parametrize("lose", ["answer", "request"])
def test_what_became_of_a_change_without_an_answer_is_read(
    shop: Shop, node: CassandraNode, monkeypatch: pytest.MonkeyPatch, lose: str, change: str
) -> None:
    monkeypatch.setattr(cassandra_ledger, "RENEW_SECONDS", 1000.0)  # the only request then is the one that is lost
    proxy, real = Proxy(node.port), cassandra_ledger.CassandraLedger._run

    def run(self: Any, statement: str, values: Any) -> Any:
        if statement == getattr(cassandra_ledger, change) and not proxy.lost:
            real(self, cassandra_ledger._READ, {})
            self._prepared[statement] = self._session.prepare(statement.replace("{}", self._table))
            proxy.lose = lose
        return real(self, statement, values)

    monkeypatch.setattr(cassandra_ledger.CassandraLedger, "_run", run)
    url = shop.url.replace(f":{node.port}/", f":{proxy.port}/")
    try:
        if (lose, change) == ("request", "_FIRST"):
            with pytest.raises(SinkError, match=r"The database shop failed \("):
                shop.ledger(url=url)
        mine = shop.ledger(url=url)
        if lose == "request" and change != "_FIRST":
            with pytest.raises(SinkError, match=r"The database shop failed \("):
                mine.write(numbers(0, 10), batch(0, 0, 10))
            assert is_to_be_written(mine.entry(), mine.id, batch(0, 0, 10))
        assert mine.write(numbers(0, 10), batch(0, 0, 10)) == 10
        assert proxy.lost == [lose]
        assert (mine.epoch, mine.entry().batch_id) == (1, 0)
        assert mine.write(numbers(10, 20), batch(1, 10, 20)) == 10
    finally:
        proxy.close()
    assert [row.batch_id for row in shop.history()] == [0, 1]
    assert len(shop.names()) == 20


@pytest.mark.parametrize("comes", ["before the batch is tried again", "after it"])
@pytest.mark.parametrize("clock", ["", "behind the stamp"])
def test_a_change_that_comes_late_counts_once_or_changes_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, comes: str, clock: str
) -> None:
    held, real = list[Any](), cassandra_ledger.CassandraLedger._run
    if clock:
        monkeypatch.setattr(cassandra_ledger, "time", SimpleNamespace(**{**vars(time), "time_ns": lambda: 0}))

    def run(self: Any, statement: str, values: Any) -> Any:
        if statement == cassandra_ledger._COMMIT and not held:
            held.append(values)  # on its way still
            raise SinkError("The database shop failed (OperationTimedOut).", next_step="-")
        return real(self, statement, values)

    monkeypatch.setattr(cassandra_ledger.CassandraLedger, "_run", run)
    mine = shop.ledger()
    with pytest.raises(SinkError, match="OperationTimedOut"):
        mine.write(numbers(0, 10), batch(0, 0, 10))
    assert is_to_be_written(mine.entry(), mine.id, batch(0, 0, 10))
    if comes == "after it":
        mine.write(numbers(0, 10), batch(0, 0, 10))
        assert not real(mine, cassandra_ledger._COMMIT, held[0]).one().applied
    else:
        assert real(mine, cassandra_ledger._COMMIT, held[0]).one().applied
        with pytest.raises(SinkError, match="has moved"):
            mine.write(numbers(0, 10), batch(0, 0, 10))
    assert not is_to_be_written(mine.entry(), mine.id, batch(0, 0, 10))
    mine.write(numbers(10, 20), batch(1, 10, 20))
    assert [row.batch_id for row in shop.history()] == [0, 1]


def test_a_change_that_is_made_after_its_time_out_counts_once(
    shop: Shop, node: CassandraNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[Cassandra.__module__], "REQUEST_SECONDS", 4.0)
    mine, real = shop.ledger(), cassandra_ledger.CassandraLedger._run
    process, stopped = node.process, list[str]()
    assert process is not None

    def run(self: Any, statement: str, values: Any) -> Any:
        if statement != cassandra_ledger._COMMIT or stopped:
            return real(self, statement, values)
        self._prepared[statement] = self._session.prepare(statement.replace("{}", self._table))
        process.signal(signal.SIGSTOP)
        stopped.append(statement)
        try:
            return real(self, statement, values)
        finally:
            process.signal(signal.SIGCONT)

    monkeypatch.setattr(cassandra_ledger.CassandraLedger, "_run", run)
    # What Spark does: the batch is tried again until the sink has it.
    while is_to_be_written(mine.entry(), mine.id, batch(0, 0, 10)):
        with contextlib.suppress(SinkError):
            mine.write(numbers(0, 10), batch(0, 0, 10))
    assert stopped
    assert mine.entry().batch_id == 0
    mine.write(numbers(10, 20), batch(1, 10, 20))
    assert [row.batch_id for row in shop.history()] == [0, 1]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (batch(1, 12, 20), Gap),
        (batch(1, 8, 20), Overlap),
        (Batch("q1", 1, [{"others": {"0": 10}}], [{"others": {"0": 20}}]), OtherSource),
    ],
)
def test_a_batch_that_does_not_follow_the_ledger_is_refused(shop: Shop, given: Batch, error: type[SinkError]) -> None:
    mine = shop.ledger()
    mine.write(numbers(0, 10), batch(0, 0, 10))
    with pytest.raises(error):
        is_to_be_written(mine.entry(), mine.id, given)
    assert is_to_be_written(mine.entry(), mine.id, batch(1, 10, 20))


TABLES = {
    "counted": "id bigint primary key, name counter",
    "shared": "id bigint, part bigint, name text static, primary key (id, part)",
    "texts": "id text primary key",
}
STRING = StructType([StructField("id", StringType())])


@pytest.mark.parametrize(
    ("target", "given", "says"),
    [
        (Target("nowhere", ("id",)), numbers(0, 1), r"There is no table t\w+\.nowhere"),
        (Target("no.orders", ("id",), create=True), numbers(0, 1), "There is no keyspace no"),
        (Target("orders", ("name",)), numbers(0, 1), r"The primary key of the table orders is \(id\).*key is \(name\)"),
        (Target("orders", ("key",)), numbers(0, 1), "no column 'key'; it has id, name"),
        (Target("orders", ("id",), delete="name"), numbers(0, 1), "must be a boolean"),
        (KEYED, Rows(STRING, [("x", False)]), "id is string in the batch and bigint in the table"),
        (KEYED, Rows(StructType([*SCHEMA.fields, StructField("x", LongType())]), []), "the table has no column x"),
        (Target("counted", ("id",)), numbers(0, 1), "name is string in the batch and counter in the table"),
        (
            Target("shared", ("id", "part")),
            Rows(StructType([*SCHEMA.fields, StructField("part", LongType())]), []),
            "name is static in the table",
        ),
        (Target("texts", ("id",)), Rows(STRING, [("", False)]), "does not take a row: Key may not be empty"),
        (Target("a-b", ("id",), create=True), numbers(0, 1), "refuses what the sink asks: .*a-b"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_a_sentence_and_nothing_is_written(
    shop: Shop, target: Target, given: Rows, says: str
) -> None:
    if target.table in TABLES:
        shop.session.execute(f"create table {target.table} ({TABLES[target.table]})")
    mine = shop.ledger(target=target)
    with pytest.raises(SinkRefused, match=says):
        mine.write(given, batch(0, 0, 1))
    for table in ("orders", *(TABLES.keys() & {target.table})):
        assert not shop.session.execute(f"select * from {table}").all()
    assert mine.entry().query_id == ""


def test_a_missing_table_is_made_where_that_is_wanted(shop: Shop) -> None:
    mine = shop.ledger(target=Target("Made", ("id", "name"), create=True))
    assert mine.write(numbers(0, 3), batch(0, 0, 3)) == 3
    assert len(shop.session.execute('select * from "Made" where id = 2').all()) == 1


def test_a_user_without_rights_is_told_which(shop: Shop, node: CassandraNode) -> None:
    shop.ledger().close()
    shop.session.execute("create role if not exists poor with password = 'secret' and login = true")
    name = shop.url.rpartition("/")[2]
    shop.session.execute(f"grant select on keyspace {name} to poor")
    poor = Cassandra("shop", shop.url.replace("cassandra:cassandra@", "poor:secret@")).ledger(PLAIN, KEYED)
    with pytest.raises(SinkRefused, match=rf"MODIFY permission on <table {name}\.stream_ledger>") as found:
        poor.claim()
    poor.close()
    assert "poor" not in str(found.value)


@pytest.mark.parametrize("url", ["cassandra://somebody:secret@127.0.0.1:1/shop", "{wrong}"])
def test_a_database_that_is_away_is_said_without_its_address(node: CassandraNode, url: str) -> None:
    away = url.format(wrong=node.url.replace(":cassandra@", ":secret@"))
    with pytest.raises(SinkError, match=r"The database shop cannot be reached, or refuses the conn") as found:
        Cassandra("shop", away).ledger(PLAIN, KEYED).claim()
    assert not {"secret", "somebody", "127.0.0.1"} & set(str(found.value).replace("'", " ").split())


def test_its_address_is_found_by_its_name(node: CassandraNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"The database shop has no address.*STREAM_SINK_"):
        cassandra("shop")
    (tmp_path / "url").write_text(f"{node.url}\n")
    monkeypatch.setenv("STREAM_SINK_SHOP_FILE", str(tmp_path / "url"))
    session = cassandra("shop").connect()
    session.cluster.shutdown()
    for wrong in ("postgres://a:secret@h/shop", "cassandra://a:secret@h", "cassandra://a:secret@h:port/shop", "x"):
        monkeypatch.setenv("STREAM_SINK_SHOP", wrong)
        with pytest.raises(SinkError, match="has no address of a keyspace") as found:
            cassandra("shop")
        assert "secret" not in str(found.value)
    assert repr(Cassandra("shop", node.url)) == "cassandra('shop')"


def test_rows_without_a_key_are_refused(node: CassandraNode) -> None:
    with pytest.raises(BadRows, match="would append its rows twice"):
        Cassandra("shop", node.url).ledger(PLAIN, Target("orders"))
