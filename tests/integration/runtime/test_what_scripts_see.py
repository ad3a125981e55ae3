"""What a script sees of its queries over restarts in place and changes of holder, and queries that it starts late."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint import boundary
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from tests.support.hand_run import show
from tests.support.orders_files import Orders

SCRIPTS = Path(__file__).with_name("scripts")
pytestmark = pytest.mark.system  # they take some minutes


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[HandRunStream]:
    with hand_run_stream(tmp_path) as found:
        yield found
    show(found)


def test_monitors_live_through_a_cured_failure_two_hand_overs_and_two_roll_backs(
    stream: HandRunStream, orders: Orders
) -> None:
    def seen_by(deployment: str) -> list[int]:
        lines = (orders.root / f"seen by {deployment}").read_text().splitlines()
        return [int(line.split()[0]) for line in lines]

    def has_seen(deployment: str, batch: int | None) -> bool:
        return batch is not None and seen_by(deployment)[-1] >= batch

    orders.flow(1.0)
    script = SCRIPTS / "monitors.py"
    drivers = [stream.deploy("orders-1", script, str(orders.root))]
    one = stream.standby("orders-1")
    stream.hand_over(one)
    orders.go_on("the first orders")
    wait_for("the monitor to index progress", lambda: (orders.root / "seen by orders-1").exists())
    (orders.root / "fail").touch()
    wait_for("the failure", lambda: not (orders.root / "fail").exists())
    orders.go_on("orders once it is cured")
    drivers.append(stream.deploy("orders-2", script, str(orders.root)))
    two = stream.standby("orders-2")
    assert not (orders.root / "seen by orders-2").exists(), "its queries have not begun"

    for to, released in ((two, "orders-1"), (one, "orders-2"), (two, "orders-1"), (one, "orders-2")):
        stream.hand_over(to)
        orders.go_on("the next orders")
        now = boundary(str(orders.root / "checkpoints" / "lines")).commit
        wait_for(f"the script of {released} to see where the holder is", partial(has_seen, released, now))
        assert "Waiting to hold the stream" in (orders.root / f"seen by {released}").read_text().splitlines()[-1]
        assert [driver.popen.poll() for driver in drivers] == [None, None]
    orders.dry()
    wait_for("all orders", lambda: len(orders.delivered()) == orders.written)
    assert set(orders.delivered().values()) == {1}
    assert stream.records("failed") == []
    for deployment in ("orders-1", "orders-2"):
        assert seen_by(deployment) == sorted(seen_by(deployment)), "no batch is seen twice, nor after a later one"


@pytest.mark.parametrize("how", ["after a while", "once the first is done"])
def test_a_script_that_starts_a_query_late_is_upgraded(how: str, stream: HandRunStream, orders: Orders) -> None:
    """Found by a review: such a release could never be followed by another one without an override."""
    copies = str(orders.root / "checkpoints" / "copies")
    script = SCRIPTS / "late.py"
    orders.flow(1.0)
    one = _standby(stream, orders, script, how, "orders-1")
    assert [query["name"] for query in stream.state.incarnations[one].queries] == ["lines"]
    stream.hand_over(one)
    wait_for("the late query", lambda: boundary(copies).commit is not None)

    two = _standby(stream, orders, script, how, "orders-2")
    found = stream.state.incarnations[two]
    if how == "after a while":
        assert [(query["name"], query["late"]) for query in found.queries] == [("lines", False), ("copies", True)]
        assert "copies" in found.rehearsal["queries"]
    else:
        assert [query["name"] for query in found.queries] == ["lines"]
        assert any("copies" in note and "started late" in note for note in found.rehearsal["notes"])
    before = boundary(copies).commit
    stream.hand_over(two)
    orders.go_on("orders by the second")
    wait_for("the late query of the second", lambda: boundary(copies).commit != before)
    stream.hand_over(one)
    orders.go_on("orders by the first again")
    orders.dry()
    wait_for("all orders", lambda: len(orders.delivered()) == orders.written)
    assert set(orders.delivered().values()) == {1}
    assert stream.records("failed") == []


def _standby(stream: HandRunStream, orders: Orders, script: Path, how: str, deployment: str) -> str:
    stream.deploy(deployment, script, str(orders.root), how)
    return stream.standby(deployment)
