"""Scripts that do what scripts do: each runs unmodified, is handed over and back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("script", ["threads", "loop", "restarts", "looks", "watchdog"])
def test_a_script_is_handed_over_and_back(script: str, stream: HandRunStream, orders: Orders) -> None:
    def more_arrives(who: str) -> None:
        orders.go_on(f"orders by the {who}", 100)

    application = SCRIPTS / f"{script}.py"
    orders.flow(1.0)
    drivers = [stream.deploy("orders-1", application, str(orders.root))]
    one = stream.standby("orders-1")
    stream.hand_over(one)
    more_arrives("first")
    left_by_a_killed_driver = orders.root / "checkpoints" / "lines.rehearsal-orders-0.0000000a"
    (left_by_a_killed_driver / "warm").mkdir(parents=True)
    drivers.append(stream.deploy("orders-2", application, str(orders.root)))
    two = stream.standby("orders-2")
    assert not left_by_a_killed_driver.exists()
    stream.hand_over(two)
    more_arrives("second")
    stream.hand_over(one)
    more_arrives("first again")
    orders.dry()
    wait_for("all orders", lambda: len(orders.delivered()) == orders.written)

    assert set(orders.delivered().values()) == {1}
    if script in ("threads", "looks"):
        assert len(list((orders.root / "checkpoints" / "copies" / "commits").glob("[0-9]*"))) > 0
        assert {len(stream.state.incarnations[name].queries) for name in (one, two)} == {2}
    assert [record["boundary"] for record in stream.records("released")] == ["completed"] * 2
    assert [driver.popen.poll() for driver in drivers] == [None, None]
    if script == "looks":
        written = (orders.root / "script.log").read_text().splitlines()
        assert "mine: True Waiting to hold the stream None" in written
        assert not [line for line in written if "record" in line]


def test_a_rehearsal_leaves_the_files_that_the_running_release_has_not_read(
    stream: HandRunStream, orders: Orders
) -> None:
    orders.write()
    stream.deploy("orders-1", SCRIPTS / "cleans.py", str(orders.root), "10000 hours")
    stream.hand_over(stream.standby("orders-1"))
    wait_for("the first file", lambda: len(orders.delivered()) == orders.written)
    for _ in range(4):
        orders.write()
    stream.deploy("orders-2", SCRIPTS / "cleans.py", str(orders.root), "200 milliseconds", rehearse_batches=4)
    two = stream.standby("orders-2")
    assert len(list((orders.root / "in").iterdir())) == 5
    assert "only its plan was rehearsed" in stream.state.incarnations[two].rehearsal["notes"][0]

    stream.hand_over(two)
    wait_for("all orders", lambda: len(orders.delivered()) == orders.written)
    assert set(orders.delivered().values()) == {1}
    # Whoever holds lets Spark clean what it has read.
    wait_for("the files to be cleaned", lambda: len(list((orders.root / "in").iterdir())) == 1)


def test_a_driver_whose_context_was_stopped_ends_as_failed(stream: HandRunStream, orders: Orders) -> None:
    orders.write()
    script = SCRIPTS / "stops_context.py"
    holder = stream.deploy("orders-1", script, str(orders.root), "stop the holder")
    stream.hand_over(stream.standby("orders-1"))
    wait_for("the first orders", orders.delivered)
    standby = stream.deploy("orders-2", script, str(orders.root), "stop the standby")
    stream.standby("orders-2")
    for name, driver in (("standby", standby), ("holder", holder)):
        (orders.root / f"stop the {name}").touch()
        assert driver.exit_code() != 0
    assert [record["deployment"] for record in stream.records("failed")] == ["orders-2", "orders-1"]
    for record in stream.records("failed"):
        assert record["reason"] == "The query lines cannot run in this driver any more"
        assert "Its SparkContext has been stopped" in record["error"]
    assert stream.state.holder is None


def test_a_script_that_commits_and_raises_says_that_it_has_committed(stream: HandRunStream, orders: Orders) -> None:
    orders.write()
    driver = stream.deploy("orders-1", SCRIPTS / "raises.py", str(orders.root))
    stream.hand_over(stream.standby("orders-1"))
    assert driver.exit_code() != 0
    assert len(orders.delivered()) == orders.written
    assert [record["committed"] for record in stream.records("failed")] == [True]


@pytest.mark.parametrize("reached", ["its Python", "both processes"])
def test_a_script_that_leaves_on_sigterm_releases_the_stream(
    reached: str, stream: HandRunStream, orders: Orders
) -> None:
    orders.write()
    driver = stream.deploy("orders-1", SCRIPTS / "leaves.py", str(orders.root))
    stream.hand_over(stream.standby("orders-1"))
    wait_for("the first orders", orders.delivered)
    send = driver.python().send_signal if reached == "its Python" else driver.signal
    send(signal.SIGTERM)
    driver.exit_code()
    released = [(record["to"], record["boundary"]) for record in stream.records("released")]
    assert released == [(None, "completed")]
    assert [*stream.records("finished"), *stream.records("failed")] == []
