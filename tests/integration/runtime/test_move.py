"""A stream moves to another control log as docs/control.md says, from a folder into a topic and back: real drivers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.checkpoint import owner
from airflow_stream_provider.control import FilesRoot
from airflow_stream_provider.control.store import ControlRoot
from airflow_stream_provider.kafka.control_root import TopicRoot
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import StreamPhase
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from tests.support.hand_run import show
from tests.support.jvm_drivers import connector
from tests.support.one_broker import kafka, root_of
from tests.support.orders_files import Orders

__all__ = ["kafka", "root_of"]

_numbers = itertools.count(1)
ROOT = Path(__file__).parents[3]
APP = ROOT / "tests" / "support" / "app_orders_files.py"
PAGE = (ROOT / "docs" / "control.md").read_text()
(SECTION,) = re.findall(r"^## Move a stream to another control log\n(.*?)^## ", PAGE, re.M | re.S)
QUERIES = ("lines", "totals")


@pytest.fixture(params=["file-to-kafka", "kafka-to-file"])
def logs(
    request: pytest.FixtureRequest, tmp_path: Path, root_of: Callable[[str], TopicRoot]
) -> Iterator[tuple[HandRunStream, HandRunStream]]:
    """The stream under its old control log, and under its new one; each publishes its releases for itself."""
    folder = FilesRoot((tmp_path / "folder").as_uri())
    topic = root_of(f"streams-{next(_numbers)}")
    roots: tuple[ControlRoot, ControlRoot] = (folder, topic)
    old, new = roots if request.param == "file-to-kafka" else roots[::-1]
    with hand_run_stream(tmp_path / "old", old) as before, hand_run_stream(tmp_path / "new", new) as after:
        for each in (before, after):
            each.spark_conf["spark.driver.extraClassPath"] = connector()
        yield before, after
    show(before)
    show(after)


@pytest.mark.system  # four drivers, one after the other
def test_a_stream_that_moves_takes_its_checkpoints_with_it(
    logs: tuple[HandRunStream, HandRunStream], orders: Orders
) -> None:
    old, new = logs
    checkpoints = [orders.root / "checkpoints" / query for query in QUERIES]
    orders.flow(1.0)
    old.deploy("orders-1", APP, str(orders.root))
    holder = old.standby("orders-1")
    old.hand_over(holder)
    orders.go_on("orders of the old one")

    # Not stopped: the new driver touches nothing.
    is_refused(new, "orders-2", orders, of=old)
    assert (old.state.holder, new.state.epoch) == (holder, 0)
    orders.go_on("orders of the old one, which runs on")

    # 1. Stop it. What comes now is for the new one.
    old.request(None)
    wait_for("the stop", lambda: old.state.phase is StreamPhase.STOPPED)
    old.append("retired", deployment="orders-1", reason="test")
    assert old.drivers[0].exit_code() == 0
    wait_for("no process to be left", lambda: not old.drivers[0].tree())
    last = [last_batch(each) for each in checkpoints]

    # 3. Remove the owners' marks, and 4. deploy the version that ran.
    for each in checkpoints:
        found = owner(each)
        assert found is not None
        assert found.control == old.url
        each.with_name(f"{each.name}.owner").unlink()
    new.deploy("orders-3", APP, str(orders.root))
    taken = new.standby("orders-3")
    new.hand_over(taken)
    orders.go_on("orders of the new one")
    assert [getattr(owner(each), "control", "") for each in checkpoints] == [new.url] * 2
    wait_for("batches after the last ones", lambda: all(map(int.__lt__, last, map(last_batch, checkpoints))))

    # Set back: the old log's driver touches nothing.
    is_refused(old, "orders-4", orders, of=new)
    assert (new.state.holder, new.state.epoch) == (taken, 1)
    orders.go_on("orders of the new one, which runs on")
    orders.dry()
    orders.check()
    assert (old.state.phase, old.state.illegal_count, new.state.illegal_count) == (StreamPhase.STOPPED, 0, 0)


def is_refused(stream: HandRunStream, deployment: str, orders: Orders, *, of: HandRunStream) -> None:
    """Start a driver under one log while the checkpoints are another one's; insist on the refusal that the page has."""
    kept = marks(orders)
    driver = stream.deploy(deployment, APP, str(orders.root))

    def refusal() -> Record | None:
        assert all(each["deployment"] != deployment for each in stream.records("standby")), "it is not refused"
        return next((each for each in stream.records("failed") if each["deployment"] == deployment), None)

    failed: Any = wait_for("the refusal", refusal)
    said = f"belongs to the stream orders of {of.url}"
    assert said in f"{failed['reason']} {failed['error']}"
    assert driver.exit_code() != 0
    assert marks(orders) == kept
    assert re.search(rf"`{said.partition(of.url)[0]}(OLD|NEW)-URL`", SECTION)


def marks(orders: Orders) -> dict[str, bytes]:
    """Return the owners' marks, and what is in them."""
    return {path.name: path.read_bytes() for path in (orders.root / "checkpoints").glob("*.owner")}


def last_batch(checkpoint: Path) -> int:
    """Return the last batch that was committed; -1: none was."""
    numbers = (int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    return max(numbers, default=-1)
