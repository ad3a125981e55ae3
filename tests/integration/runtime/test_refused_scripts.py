"""Scripts that cannot be handed over: each is refused before anything that runs is touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.state import DeploymentEnd
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from tests.support.hand_run import show
from tests.support.orders_files import Orders

SCRIPTS = Path(__file__).with_name("scripts")
pytestmark = pytest.mark.system  # they take some minutes


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
        ("same name", "The script starts two queries of the name lines in one SparkSession"),
        ("relative path", "The query path writes to the relative path output"),
        ("relative option", "The query path writes to the relative path output"),
        ("working folder", ", the driver's working folder: no other driver could continue it"),
        ("temporary folder", ", a temporary folder that this driver has made: no other driver could continue it"),
        ("own folder", ", the driver's private copy of the release: each driver would write to another folder"),
        ("connect", "The script makes a Spark Connect session (SPARK_REMOTE)"),
        ("past the gate", "The streaming query copies runs in this driver already"),
        ("table", "The query table writes to the table orders, which other drivers of the stream do not have"),
        ("memory", "The query memory writes to a memory sink in append mode"),
        ("swallows", "The query lines cannot run with AbortableStreamBasedCheckpointFileManager: when the storage"),
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
