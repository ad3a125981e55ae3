"""A machine that the cluster has lost sleeps with its driver in a transaction: the ledger of the sink refuses it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from devstack.drivers import wait_for
from devstack.ports import HOST
from devstack.postgres import USER, PostgresServer
from devstack.processes import Processes
from devstack.stack import LocalStack
from devstack.stack_stream import StackStream, stack_stream
from tests.support.autopilot import Autopilot
from tests.support.sql_places import SqlPlace

# With one executor, a driver takes a machine for itself.
RELEASE: Any = {"conf": {"spark.cores.max": "1"}, "lease_seconds": 10.0, "ledger": "orders_db"}


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[LocalStack]:
    """A cluster of two machines; the second comes later, so that one driver has the first one for itself."""
    with LocalStack(tmp_path / "stack", worker_cores=2) as running:
        yield running


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlPlace]:
    processes = Processes(tmp_path / "postgres-logs")
    try:
        server = PostgresServer(tmp_path / "postgres", processes)
        server.start()
        database = {"conn_type": "postgres", "host": HOST, "port": server.port, "login": USER, "schema": "postgres"}
        monkeypatch.setenv("AIRFLOW_CONN_ORDERS_DB", json.dumps(database))
        found = SqlPlace("postgres", server.dsn)
        found.run("create table orders (id bigint not null)")
        yield found
    finally:
        processes.close()


@pytest.fixture
def orders(
    stack: LocalStack, place: SqlPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StackStream]:
    monkeypatch.setattr(StackStream, "application", Path(__file__).parents[1] / "support" / "app_orders_ledger.py")
    with stack_stream(tmp_path, stack, "ledger") as opened:
        yield opened
        for record in opened.log.records():  # shown when the test fails
            print(record.seq, record.kind, record.by, {k: v for k, v in record.fields.items() if k != "release"})


def machine(worker: int) -> list[psutil.Process]:
    root = psutil.Process(worker)
    return [root, *root.children(recursive=True)]


def sleeps(worker: int) -> bool:
    """Freeze all processes of a machine; return whether none was started meanwhile."""
    with suppress(psutil.NoSuchProcess):
        for process in machine(worker):
            process.suspend()
        return all(process.status() == psutil.STATUS_STOPPED for process in machine(worker))
    return False


def test_a_stream_is_taken_over_at_once_and_what_wakes_up_writes_nothing(
    orders: StackStream, place: SqlPlace, stack: LocalStack
) -> None:
    orders.submit("one", place.address, **RELEASE)
    one = orders.standby("one")
    orders.hand_over(one)
    wait_for("the first orders", lambda: place.counted()[0] > 300)
    stack.spark.workers.append(stack.spark._start_worker("spark-worker-2"))
    orders.submit("two", place.address, **RELEASE)
    two = orders.standby("two")
    worker = stack.spark.workers[0].pid

    with psycopg.connect(place.address) as connection:
        connection.execute("select * from stream_ledger for update")
        waits = "wait_event_type = 'Lock' and starts_with(application_name, 'stream sink')"
        waiting = f"select 1 from pg_stat_activity where {waits}"
        wait_for("it to be in a transaction", lambda: place.run(waiting))
        wait_for("its machine to sleep", lambda: sleeps(worker))
        connection.rollback()
    # After spark.worker.timeout.
    wait_for("the cluster to lose it", lambda: {w["state"] for w in stack.spark.status()["workers"]} > {"DEAD"}, 180)
    Autopilot(orders).take_over("two")

    (fenced,) = orders.records("fenced")
    assert (fenced["incarnation"], fenced["evidence"]["ledger"]) == (one, True)
    assert fenced["evidence"]["silent_seconds"] < 600, "else it would have halted by itself, and need not be refused"
    written = place.counted()[0]
    wait_for("orders by the next", lambda: place.counted()[0] > written + 300)
    for process in machine(worker):
        process.resume()
    wait_for("what woke up to have ended", lambda: not orders.processes(one))
    produced = orders.producer.stop()
    wait_for("all orders", lambda: place.counted()[1] == produced)
    assert place.counted() == (produced, produced)
    holders = place.run("select holder, max(epoch) from stream_ledger_history group by holder order by 2")
    assert [holder for holder, _ in holders] == [one, two]
    assert place.run("select epoch from stream_ledger") == [(3,)], "one for each of them, and one for nobody in between"
