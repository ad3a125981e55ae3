"""A new release beside the holder on a real Spark: what their batches take on the same rows, and what is made of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.planning.comparison import Compared, QueryComparison, compare, rehearsed, running
from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from tests.support.hand_run import show
from tests.support.orders_files import Orders

APP = Path(__file__).parents[2] / "support" / "app_orders_slow.py"
# Ten files of 20 orders come in each second, so that a release that takes 20 ms for each order cannot keep up.
TOO_SLOW = 20


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[HandRunStream]:
    with hand_run_stream(tmp_path) as found:
        yield found
    show(found)


def compared(stream: HandRunStream, orders: Orders, name: str, milliseconds: int) -> QueryComparison:
    """Bring a release up, and compare it with who holds."""
    driver = stream.deploy(name, APP, str(orders.root), str(milliseconds), rehearse_batches=2)
    standby = stream.standby(name)
    summary = stream.state.incarnations[standby].rehearsal["queries"]
    beat = stream.log.heartbeat(stream.state.holder or "")
    stream.append("retired", deployment=name, reason="test")
    assert driver.exit_code() == 0
    found = compare(rehearsed(summary), running(beat))
    print(*found.table(), sep="\n")
    assert {"batch", "rows", "seconds", "state_rows", "state_bytes"} == set(summary["lines"]["again"])
    assert not list((orders.root / "checkpoints").glob("*.rehearsal-*")), "the clones are removed"
    return found.queries["lines"]


@pytest.mark.system  # two minutes
def test_a_release_that_is_as_fast_passes_and_one_that_cannot_keep_up_does_not(
    stream: HandRunStream, orders: Orders
) -> None:
    orders.flow(0.1)
    stream.deploy("orders-1", APP, str(orders.root), "0")
    stream.hand_over(stream.standby("orders-1"))

    def ran() -> bool:
        beat = stream.log.heartbeat(stream.state.holder or "")
        return beat is not None and any(len(query.batches) > 3 for query in beat.queries)

    wait_for("some batches of the holder", ran)
    equal = compared(stream, orders, "orders-2", 0)
    assert equal.verdict is Compared.PASS, equal.sentence
    assert equal.old.arriving is not None
    assert equal.new.same is not None
    assert equal.new.rows > 0

    slow = compared(stream, orders, "orders-3", TOO_SLOW)
    assert slow.verdict is Compared.INCONCLUSIVE, slow.sentence
    assert slow.slower is not None
    assert slow.slower > 2
    assert "times slower than the old one" in slow.sentence
