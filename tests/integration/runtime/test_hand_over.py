"""Two real drivers, one checkpoint: deploy, hand over under load and idle, roll back, stop, retire."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.state import StreamPhase
from devstack.drivers import HandRunStream, SubmittedDriver, hand_run_stream, wait_for
from devstack.hdfs import Hdfs
from tests.support.hand_run import hand_over_and_back, show
from tests.support.orders_files import Orders

APP = Path(__file__).parents[2] / "support" / "app_orders_files.py"
LATE = APP.with_name("app_orders_late.py")


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[HandRunStream]:
    with hand_run_stream(tmp_path) as found:
        yield found
    show(found)


def holder_under_load(stream: HandRunStream, orders: Orders, *arguments: str) -> tuple[SubmittedDriver, str]:
    """Let a first driver hold the stream while orders flow; return it, and its incarnation.

    :param arguments: more of the application's.
    """
    orders.flow()
    driver = stream.deploy("orders-1", APP, str(orders.root), *arguments)
    holder = stream.standby("orders-1")
    stream.hand_over(holder)
    wait_for("the first orders", lambda: len(orders.delivered()) > 100)
    return driver, holder


@pytest.mark.quick
def test_a_stream_is_handed_over_and_back_and_goes_on_after_its_holder_was_killed(
    stream: HandRunStream, orders: Orders
) -> None:
    """With two drivers in all."""
    first, one = holder_under_load(stream, orders)
    stream.deploy("orders-2", APP, str(orders.root))
    hand_over_and_back(stream, orders, one, "orders-2")
    # What a batch that is cut off has written would be counted as well.
    orders.dry()
    orders.check()

    first.signal(signal.SIGKILL)
    first.exit_code()
    stream.append("fenced", incarnation=one, reason="test", evidence={"cluster": "test"})
    orders.flow()
    stream.hand_over(stream.standby("orders-2"))
    orders.go_on("orders by the other")
    orders.dry()
    orders.check()
    assert [r["boundary"] for r in stream.records("released")] == ["completed"] * 2
    assert [r["epoch"] for r in stream.records("acquired")] == [1, 2, 3, 4]


@pytest.mark.system
def test_a_stream_is_handed_over_back_and_stopped_without_a_trace_in_its_output(
    stream: HandRunStream, orders: Orders
) -> None:
    first, one = holder_under_load(stream, orders)

    second = stream.deploy("orders-2", APP, str(orders.root))
    two = stream.standby("orders-2")
    rehearsed = stream.state.incarnations[two].rehearsal["queries"]
    assert {name: summary["batches"] >= 1 for name, summary in rehearsed.items()} == {"lines": True, "totals": True}
    stream.hand_over(two)
    orders.go_on("orders by the second", 100)

    stream.hand_over(one)
    orders.dry()
    orders.check()
    # Idle now, and nothing in the checkpoint tells another control log's driver that this one runs: the mark must.
    mark = orders.root / "checkpoints" / "lines.owner"
    mark.unlink()
    wait_for("the mark to be put back", mark.exists)
    # Nothing to read, the boundary is reached all the same.
    stream.hand_over(two)
    orders.flow()
    orders.go_on("orders after the idle hand-over")
    stream.request(None)
    wait_for("the stop", lambda: stream.state.phase is StreamPhase.STOPPED)
    orders.dry()

    assert [r["boundary"] for r in stream.records("released")] == ["completed"] * 4
    assert [r["epoch"] for r in stream.records("acquired")] == [1, 2, 3, 4]
    stream.append("retired", deployment="orders-1", reason="test")
    stream.append("retired", deployment="orders-2", reason="test")
    assert (first.exit_code(), second.exit_code()) == (0, 0)
    wait_for("no process to be left", lambda: not first.tree() and not second.tree())

    third = stream.deploy("orders-3", APP, str(orders.root))
    stream.hand_over(stream.standby("orders-3"))
    orders.check()
    assert third.tree()


@pytest.mark.system
def test_a_query_that_the_script_starts_late_runs_in_the_driver_that_holds_and_in_no_other(
    stream: HandRunStream, orders: Orders
) -> None:
    """The script is taken as ready when it has been quiet for a while, and starts its second query after that."""
    tell_one, tell_two = orders.root / "more-1", orders.root / "more-2"
    stream.deploy("orders-1", LATE, str(orders.root), str(tell_one))
    one = stream.standby("orders-1")
    stream.hand_over(one)
    orders.write()
    stream.deploy("orders-2", LATE, str(orders.root), str(tell_two))
    two = stream.standby("orders-2")
    stream.hand_over(two)

    # This one holds no more: the query is known to it from now on, and not started.
    tell_one.touch()
    wait_for("the first script to go on", (orders.root / "more-1.started").exists)
    assert last_batch(orders, "copies") is None
    # That one holds: it is started at once.
    tell_two.touch()
    wait_for("the late query", lambda: last_batch(orders, "copies") is not None)

    stream.hand_over(one)
    orders.write()
    wait_for("the late query in the first driver", lambda: (last_batch(orders, "copies") or 0) > 0)
    assert [r["boundary"] for r in stream.records("released")] == ["completed"] * 2
    assert set(stream.records("released")[-1]["ends"]) == {"lines", "copies"}


@pytest.mark.system
def test_a_holder_with_a_late_query_dies_and_is_brought_back(stream: HandRunStream, orders: Orders) -> None:
    """The rehearsal of the same release is not refused though the script has not started that query by then."""
    tell = orders.root / "more"
    first = stream.deploy("orders-1", LATE, str(orders.root), str(tell))
    one = stream.standby("orders-1")
    stream.hand_over(one)
    tell.touch()
    orders.write()
    wait_for("the late query", lambda: last_batch(orders, "copies") is not None)

    def told() -> bool:
        beat = stream.log.heartbeat(one)
        return beat is not None and {query.name for query in beat.queries} == {"lines", "copies"}

    wait_for("the late query in the heartbeat", told)
    first.signal(signal.SIGKILL)
    first.exit_code()
    stream.append("fenced", incarnation=one, reason="test", evidence={"cluster": "test"})
    tell.unlink()
    before = last_batch(orders, "copies")
    # As the watch does: the release is declared again, copied from its record.
    declared = stream.state.deployments["orders-1"].declared
    copied = {name: declared[name] for name in ("release", "policy")}
    stream.append("declared", deployment="orders-2", again="orders-1", **copied)
    stream.launch("orders-2", LATE.name, str(orders.root), str(tell))
    stream.hand_over(stream.standby("orders-2"))

    orders.write()
    tell.touch()
    wait_for("the late query where it was", lambda: (last_batch(orders, "copies") or 0) > (before or 0))
    assert stream.state.phase is StreamPhase.RUNNING


def last_batch(orders: Orders, query: str) -> int | None:
    """Return the last committed batch of a query, if any."""
    found = [int(path.name) for path in (orders.root / "checkpoints" / query / "commits").glob("[0-9]*")]
    return max(found, default=None)


@pytest.mark.system  # as the first
def test_a_stream_whose_checkpoints_are_on_hdfs_is_handed_over_and_back(
    stream: HandRunStream, orders: Orders, hdfs: Hdfs
) -> None:
    checkpoints = f"{hdfs.url}/{stream.root.name}"
    _, one = holder_under_load(stream, orders, "1", checkpoints)
    stream.deploy("orders-2", APP, str(orders.root), "1", f"{checkpoints}//")
    hand_over_and_back(stream, orders, one, "orders-2")

    def told(incarnation: str) -> bool:
        beat = stream.log.heartbeat(incarnation)
        return beat is not None and len(beat.queries) == 2 and all(q.gap_seconds is not None for q in beat.queries)

    wait_for("the gaps in the heartbeat", lambda: told(one))
    orders.dry()
    orders.check()
    stream.request(None)
    wait_for("the stop", lambda: stream.state.phase is StreamPhase.STOPPED)
    assert [r["boundary"] for r in stream.records("released")] == ["completed"] * 3
    claims = sorted((stream.root / "control" / ".owners").iterdir())
    assert len(claims) == 2
