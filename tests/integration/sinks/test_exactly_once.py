"""A stream whose sink is a SQL database: real drivers that hand over, and die between the sink's commit and Spark's."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path

import pytest

from airflow_stream_provider.sinks.sql_database import run
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from tests.support.hand_run import show
from tests.support.orders_files import Orders
from tests.support.sql_places import SqlPlace

APP = Path(__file__).parents[2] / "support" / "app_orders_sink.py"
PAGE = Path(__file__).parents[3] / "docs" / "exactly_once.md"


@pytest.fixture
def stream(tmp_path: Path, place: SqlPlace, monkeypatch: pytest.MonkeyPatch) -> Iterator[HandRunStream]:
    monkeypatch.setenv("STREAM_SINK_ORDERS_DB", place.address)
    for table, key in (("orders", ""), ("naive", ""), ("by_key", ", primary key (id)")):
        place.run(f"create table {table} (id bigint not null, customer text, amount bigint{key})")
    with hand_run_stream(tmp_path) as found:
        yield found
    show(found)


def test_each_order_is_in_the_table_once_through_hand_overs_and_a_kill_before_sparks_commit(
    stream: HandRunStream, place: SqlPlace, tmp_path: Path
) -> None:
    orders = Orders(tmp_path)
    orders.flow(1.0)
    first = stream.deploy("orders-1", APP, str(tmp_path), str(PAGE), place.kind)
    one = stream.standby("orders-1")
    stream.hand_over(one)
    wait_for("the first orders", lambda: place.counted("orders")[0] > 100)
    stream.deploy("orders-2", APP, str(tmp_path), str(PAGE), place.kind)
    two = stream.standby("orders-2")
    rehearsed = stream.state.incarnations[two].rehearsal["queries"]
    assert rehearsed["daily"]["batches"] >= 1

    (tmp_path / "die").touch()
    first.exit_code()
    stream.append("fenced", incarnation=one, reason="test", evidence={"cluster": "test"})
    stream.hand_over(two)
    before = place.counted("orders")[0]
    wait_for("orders by the next", lambda: place.counted("orders")[0] > before + 50)
    orders.dry()
    tables = ("by_key", "naive", "orders")
    wait_for("all orders", lambda: all(place.counted(table)[1] == orders.written for table in tables))
    assert place.counted("orders") == place.counted("by_key") == (orders.written, orders.written)
    assert place.counted("naive")[0] > orders.written, "a sink without a ledger, in the same batches"
    holders = place.run("select distinct holder from stream_ledger_history where query = 'orders'")
    assert {name for (name,) in holders} == {one, two}


def test_a_driver_that_a_person_calls_dead_while_it_is_frozen_in_its_transaction_writes_nothing_when_it_wakes(
    stream: HandRunStream, place: SqlPlace, tmp_path: Path
) -> None:
    orders = Orders(tmp_path)
    orders.flow(1.0)
    first = stream.deploy("orders-1", APP, str(tmp_path), str(PAGE), place.kind, "alone")
    one = stream.standby("orders-1")
    stream.hand_over(one)
    wait_for("the first orders", lambda: place.counted("orders")[0] > 100)
    stream.deploy("orders-2", APP, str(tmp_path), str(PAGE), place.kind, "alone")
    two = stream.standby("orders-2")

    with closing(place.database.connect("test")) as connection:
        run(connection, "select * from stream_ledger for update")
        written = orders.written
        wait_for("it to be in a batch", lambda: orders.written > written + 60)
        first.signal(signal.SIGSTOP)
        connection.rollback()
    stream.append("fenced", incarnation=one, reason="a person errs", evidence={"person": "on-call"})
    stream.hand_over(two)
    before = place.counted("orders")[0]
    wait_for("orders by the next", lambda: place.counted("orders")[0] > before + 50)
    first.signal(signal.SIGCONT)
    first.exit_code()
    orders.dry()
    wait_for("all orders", lambda: place.counted("orders")[1] == orders.written)
    assert place.counted("orders") == (orders.written, orders.written)
    holders = place.run("select holder from stream_ledger_history where query = 'orders' order by seq")
    assert [name for name, _ in groupby(name for (name,) in holders)] == [one, two]
