"""Scripts that do what scripts do: each runs unmodified, or is refused before anything that runs is touched."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.state import DeploymentEnd
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from tests.support.orders_files import Orders

SCRIPTS = Path(__file__).with_name("scripts")
pytestmark = pytest.mark.system  # they take some minutes


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Orders]:
    written = Orders(tmp_path)
    yield written
    written.dry()


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[HandRunStream]:
    with hand_run_stream(tmp_path) as found:
        yield found
    show(found)


def show(stream: HandRunStream) -> None:
    """Print what is shown when a test fails."""
    for record in stream.log.records():
        print(record)
    for driver in stream.drivers:
        print(f"----- {driver.deployment}\n{driver.log()[-4000:]}")


@pytest.mark.parametrize("script", ["threads", "loop", "restarts", "looks", "watchdog"])
def test_a_script_is_handed_over_and_back(script: str, stream: HandRunStream, orders: Orders) -> None:
    def more_arrives(who: str) -> None:
        before = len(orders.delivered())
        wait_for(f"orders by the {who}", lambda: len(orders.delivered()) > before + 100)

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


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HandRunStream, Orders]]:
    """A stream that runs well, for all releases that are refused."""
    root = tmp_path_factory.mktemp("running")
    orders = Orders(root)
    with hand_run_stream(root) as stream:
        orders.write()
        stream.deploy("orders-1", SCRIPTS / "refused.py", str(root), "nothing")
        stream.hand_over(stream.standby("orders-1"))
        wait_for("the first orders", orders.delivered)
        yield stream, orders
        show(stream)


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("thread", "The query (unnamed) has no checkpoint location. Set option"),
        ("twin", "The queries lines and twin have the same checkpoint"),
        ("relative path", "The query path writes to the relative path output"),
        ("relative option", "The query path writes to the relative path output"),
        ("working folder", ", the driver's working folder: no other driver could continue it"),
        ("temporary folder", ", a temporary folder that this driver has made: no other driver could continue it"),
        ("own folder", ", the driver's private copy of the release: each driver would write to another folder"),
        ("connect", "The script makes a Spark Connect session (SPARK_REMOTE)"),
        ("past the gate", "The streaming query copies runs in this driver already"),
        ("table", "The query table writes to the table orders, which other drivers of the stream do not have"),
        ("memory", "The query memory writes to a memory sink in append mode"),
        ("late", "The script starts the query late after it seemed to have started all"),
        ("exit code", "The script left with code 3: ValueError: no such topic"),
        ("hard exit", "The script ended its process with os._exit(9)"),
        ("stopped", "The script ended its queries while this driver did not hold the stream"),
        ("nothing started", "The script ended without starting a query"),
    ],
)
def test_what_cannot_be_handed_over_is_refused_and_the_holder_runs_on(
    case: str, says: str, running: tuple[HandRunStream, Orders]
) -> None:
    stream, orders = running
    name = f"orders-{case.replace(' ', '-')}"
    holder = stream.state.holder
    driver = stream.deploy(name, SCRIPTS / "refused.py", str(orders.root), case)
    assert driver.exit_code() != 0
    found = stream.state.deployments[name]
    recorded = [f"{r['reason']}: {r['error']}" for r in stream.records("failed") if r["deployment"] == name]
    assert found.ended is DeploymentEnd.FAILED
    assert [text for text in recorded if says in text], recorded
    assert (stream.state.holder, stream.state.epoch) == (holder, 1)
    orders.write()
    wait_for("orders by the holder", lambda: len(orders.delivered()) == orders.written)
