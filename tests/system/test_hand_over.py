"""The main job on the real stack, without Airflow: nobody can see the hand-over in the output."""

from __future__ import annotations

import pytest

from devstack.drivers import wait_for
from devstack.stack_stream import StackStream


@pytest.mark.demo
def test_handed_over_and_rolled_back_without_loss_or_duplicate(orders: StackStream) -> None:
    orders.submit("one")
    one = orders.standby("one")
    orders.hand_over(one)
    orders.settle()

    def used() -> set[str]:
        return {each["host"] for each in orders.stack.spark.status().get("workers", ()) if each["coresused"]}

    # A worker that the master has lost counts by this name only (`Standalone.remains`).
    hosts = wait_for("the master to tell which workers are used", used)
    wait_for("the driver to name them", lambda: hosts <= set(orders.beat(one).executor_hosts or ()))

    orders.submit("two")
    two = orders.standby("two")
    rehearsed = orders.state.incarnations[two].rehearsal["queries"]
    assert {name: found["batches"] for name, found in rehearsed.items()} == {"out": 3, "totals": 3}
    orders.hand_over(two)
    orders.settle()
    orders.hand_over(one)
    orders.settle()

    found = orders.audit()
    assert (found.lost, found.duplicated, found.delivered) == (0, 0, found.produced)
    assert [record["boundary"] for record in orders.records("released")] == ["completed", "completed"]
