"""A standby that has waited looks again before it answers, on a real Spark: it rehearses again, or gives up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.runtime.surroundings import FRESH_SECONDS
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from tests.support.hand_run import show
from tests.support.orders_files import Orders

APP = Path(__file__).parents[2] / "support" / "app_lines_files.py"


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[HandRunStream]:
    with hand_run_stream(tmp_path) as found:
        yield found
    show(found)


def rehearsal(stream: HandRunStream, incarnation: str) -> list[str]:
    """Return the notes of a driver's last rehearsal."""
    return list((stream.log.heartbeat(incarnation) or Heartbeat()).rehearsal.get("notes", []))


@pytest.mark.system  # two minutes
def test_a_standby_that_has_waited_rehearses_again_when_something_has_changed_and_gives_up_when_it_is_broken(
    stream: HandRunStream, orders: Orders
) -> None:
    stream.deploy("orders-1", APP, str(orders.root))
    one = stream.standby("orders-1")
    stream.hand_over(one)
    stream.deploy("orders-2", APP, str(orders.root))
    stream.deploy("orders-3", APP, str(orders.root))
    two, three = stream.standby("orders-2"), stream.standby("orders-3")
    assert rehearsal(stream, two) == ["The query lines has no batch yet: nothing of it was rehearsed."]
    orders.flow()
    orders.go_on("the first orders")
    waited = time.monotonic() + FRESH_SECONDS + 5.0
    wait_for("the rehearsals to be old", lambda: time.monotonic() > waited)

    stream.hand_over(two)
    notes = rehearsal(stream, two)
    assert notes[-1].startswith("Rehearsed again, as other topics and partitions of the query lines")
    beat = stream.log.heartbeat(two)
    assert beat is not None
    assert beat.rehearsal["queries"]["lines"]["on"] == "a clone of the state"
    orders.go_on("orders by the second")

    # What is broken meanwhile, its holder does not notice: it has all in memory.
    (orders.root / "checkpoints" / "lines" / "metadata").unlink()
    stream.request(three, seconds=300.0)
    wait_for("the standby to give up", lambda: stream.state.deployments["orders-3"].ended)
    reason = stream.state.deployments["orders-3"].reason
    assert "The checkpoint is not whole, so no driver can start on it" in reason
    assert "its file metadata, which has the id of the query, is missing" in reason
    assert stream.state.holder == two
    orders.go_on("orders by the second still")
    assert [record["incarnation"] for record in stream.records("acquired")] == [one, two]
