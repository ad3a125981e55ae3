"""A stream whose sink is PostgreSQL: real drivers that hand over, and die between the sink's commit and Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from devstack.postgres import PostgresServer
from tests.support.hand_run import show
from tests.support.orders_files import Orders

APP = Path(__file__).parents[2] / "support" / "app_orders_sink.py"
PAGE = Path(__file__).parents[3] / "docs" / "exactly_once.md"


@pytest.fixture
def stream(tmp_path: Path, server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[HandRunStream]:
    monkeypatch.setenv("STREAM_SINK_ORDERS_DB", server.dsn)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for table, key in (("orders", ""), ("naive", ""), ("by_key", ", primary key (id)")):
            connection.execute(f"create table {table} (id bigint not null, customer text, amount bigint{key})")
    with hand_run_stream(tmp_path) as found:
        yield found
    show(found)


def counted(server: PostgresServer, table: str) -> tuple[int, int]:
    """Rows, and orders."""
    with psycopg.connect(server.dsn) as connection:
        found = connection.execute(f"select count(*), count(distinct id) from {table}").fetchone()
    assert found is not None
    return int(found[0]), int(found[1])


def test_each_order_is_in_the_table_once_through_hand_overs_and_a_kill_before_sparks_commit(
    stream: HandRunStream, server: PostgresServer, tmp_path: Path
) -> None:
    orders = Orders(tmp_path)
    orders.flow()
    first = stream.deploy("orders-1", APP, str(tmp_path), str(PAGE))
    one = stream.standby("orders-1")
    stream.hand_over(one)
    wait_for("the first orders", lambda: counted(server, "orders")[0] > 100)
    stream.deploy("orders-2", APP, str(tmp_path), str(PAGE))
    two = stream.standby("orders-2")
    rehearsed = stream.state.incarnations[two].rehearsal["queries"]
    assert rehearsed["daily"]["batches"] >= 1

    (tmp_path / "die").touch()
    first.exit_code()
    stream.append("fenced", incarnation=one, reason="test", evidence={"cluster": "test"})
    stream.hand_over(two)
    before = counted(server, "orders")[0]
    wait_for("orders by the next", lambda: counted(server, "orders")[0] > before + 50)
    orders.dry()
    tables = ("by_key", "naive", "orders")
    wait_for("all orders", lambda: all(counted(server, table)[1] == orders.written for table in tables))
    assert counted(server, "orders") == counted(server, "by_key") == (orders.written, orders.written)
    assert counted(server, "naive")[0] > orders.written, "a sink without a ledger, in the same batches"
    with psycopg.connect(server.dsn) as connection:
        holders = connection.execute("select distinct holder from stream_ledger_history where query = 'orders'")
        assert {name for (name,) in holders.fetchall()} == {one, two}
