"""Fail-fast: no batch begins before the one that failed has succeeded, or the driver has gone with exit code 50."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from airflow_stream_provider.clusters.spark_defaults import defaults
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from tests.support.hand_run import show
from tests.support.orders_files import Orders

SCRIPT = Path(__file__).with_name("scripts") / "fails.py"
pytestmark = pytest.mark.system  # it takes a minute


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[HandRunStream]:
    with hand_run_stream(tmp_path) as found:
        yield found
    show(found)


class Call(NamedTuple):
    """A call of the script's function."""

    what: str
    batch: int
    ids: list[int]


def calls(orders: Orders) -> list[Call]:
    path = orders.root / "journal.jsonl"
    return [Call(*json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def begun(orders: Orders, batch: int) -> int:
    return sum(call.what == "begins" and call.batch == batch for call in calls(orders))


def check_order(orders: Orders) -> None:
    """No batch begins before the one before it has ended, and each has the same records whenever it runs."""
    last, records = -1, dict[int, list[int]]()
    for call in calls(orders):
        assert records.setdefault(call.batch, call.ids) == call.ids
        assert call.batch == last + 1, f"batch {call.batch} after batch {last} of {calls(orders)}"
        last += call.what == "ends"
    once = sorted(number for ids in records.values() for number in ids)
    assert once == list(range(orders.written))


@pytest.mark.parametrize("how", ["sink", "task", "stage", "thread", "memory"])
def test_the_next_batch_waits_until_the_failed_one_has_succeeded(
    stream: HandRunStream, orders: Orders, how: str
) -> None:
    """Whatever fails: the sink, a task, the output of a stage, the query's own thread, or memory that is not there."""
    (orders.root / "broken").touch()
    stream.spark_conf = {"spark.local.dir": str(orders.root / "local")}  # without what drivers are given by default
    driver = stream.deploy("orders-1", SCRIPT, str(orders.root), "2", how)
    one = stream.standby("orders-1")
    stream.hand_over(one)
    for _ in range(6):
        orders.write()
    if how != "stage":
        wait_for("batch 2 to be tried three times", lambda: begun(orders, 2) >= 3)
        assert begun(orders, 3) == 0
        (orders.root / "broken").unlink()
    wait_for("all batches", lambda: begun(orders, 5) and calls(orders)[-1].what == "ends")
    check_order(orders)
    assert (orders.root / "pool").read_text() == "lines", "each query has a pool"
    assert (stream.state.holder, driver.popen.poll()) == (one, None), "it was restarted in place"
    if how == "stage":
        assert begun(orders, 2) == 1, "Spark itself has run the stage again"


@pytest.mark.parametrize(("how", "code"), [("leave", 50), ("memory", 3)])
def test_the_next_driver_runs_the_batch_in_which_the_last_one_ended(
    stream: HandRunStream, orders: Orders, how: str, code: int
) -> None:
    """The script ends its process by os._exit, or the driver has no memory, with what drivers are given by default."""
    (orders.root / "broken").touch()
    stream.spark_conf = defaults({})
    driver = stream.deploy("orders-1", SCRIPT, str(orders.root), "2", how)
    one = stream.standby("orders-1")
    stream.hand_over(one)
    for _ in range(6):
        orders.write()
    assert driver.exit_code() == code
    wait_for("its Python to be gone, too", lambda: not driver.tree())
    assert (begun(orders, 2), begun(orders, 3)) == (1, 0)
    if code == 3:
        assert "Terminating due to java.lang.OutOfMemoryError" in driver.log()
    else:
        (failed,) = stream.records("failed")
        assert "os._exit(7)" in failed["reason"]
    # It was inside a batch.
    stream.append("fenced", incarnation=one, reason="test", evidence={"cluster": "test"})
    (orders.root / "broken").unlink()

    stream.deploy("orders-2", SCRIPT, str(orders.root), "2", how)
    stream.hand_over(stream.standby("orders-2"))
    wait_for("all batches", lambda: begun(orders, 5) and calls(orders)[-1].what == "ends")
    check_order(orders)


def test_a_release_that_never_commits_goes_with_code_50_and_the_next_one_runs_that_very_batch(
    stream: HandRunStream, orders: Orders
) -> None:
    (orders.root / "broken").touch()
    stream.deploy("orders-1", SCRIPT, str(orders.root), "-1")
    stream.hand_over(stream.standby("orders-1"))
    for _ in range(2):
        orders.write()
    wait_for("two batches", lambda: begun(orders, 1) and calls(orders)[-1].what == "ends")
    bad = stream.deploy("orders-2", SCRIPT, str(orders.root), "2")
    stream.hand_over(stream.standby("orders-2"))
    for _ in range(3):
        orders.write()
    assert bad.exit_code() == 50
    assert begun(orders, 2) == 4
    assert begun(orders, 3) == 0
    assert [record["deployment"] for record in stream.records("failed")] == ["orders-2"]
    assert stream.state.holder is None

    stream.deploy("orders-3", SCRIPT, str(orders.root), "-1")
    stream.hand_over(stream.standby("orders-3"))
    wait_for("all batches", lambda: begun(orders, 4) and calls(orders)[-1].what == "ends")
    check_order(orders)
