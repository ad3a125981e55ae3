"""Real kills in every phase of a hand-over: afterwards one driver holds, nothing is lost, what came twice is counted.

A batch that a killed driver was in runs again: of the Kafka sink's records at most that one batch comes twice.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.state import RequestStage
from devstack.control_folder import folder_of
from devstack.drivers import wait_for
from devstack.stack_stream import StackStream
from tests.support.autopilot import Autopilot

Pair = tuple[StackStream, str, str]
# Short, so that a frozen driver is known for dead soon; the rules are the same.
LEASE: Any = {"lease_seconds": 10.0}  # one of the keyword arguments that are the policy


@pytest.fixture
def drag(tmp_path: Path) -> Path:
    """While this file exists, every batch of the first driver's query `out` hangs."""
    return tmp_path / "drag"


@pytest.fixture
def pair(orders: StackStream, drag: Path) -> Pair:
    """A holder that runs and a warm standby.

    Only the holder hangs: where a minute has passed, the standby rehearses again before it answers.
    """
    orders.submit("one", "--drag", str(drag), boundary_seconds=60.0, **LEASE)
    orders.submit("two", boundary_seconds=60.0, **LEASE)
    one, two = orders.standby("one"), orders.standby("two")
    orders.hand_over(one)
    orders.settle()
    return orders, one, two


def hang(orders: StackStream, drag: Path) -> None:
    """Make the holder hang in the middle of a batch of `out`."""
    drag.touch()
    # Not by what is in flight: a batch may have its rows behind it, and only be slow.
    wait_for("a batch that hangs", drag.with_name(f"{drag.name}.hangs").exists)
    assert orders.in_flight() > 0
    time.sleep(2)


def gone(orders: StackStream, incarnation: str) -> None:
    """Nothing of a dead driver may stay, neither JVM nor Python."""
    wait_for(f"every process of {incarnation} to be gone", lambda: not orders.processes(incarnation))


class Death:
    """A holder is dead: how much its last batch may bring twice, seen before anybody takes over."""

    def __init__(self, orders: StackStream, incarnation: str) -> None:
        gone(orders, incarnation)
        self.at = time.time()
        self.in_flight = orders.in_flight()

    def audit(self, orders: StackStream) -> None:
        """Nothing lost; copies only of the one batch that ran when its driver died."""
        found = orders.audit(failures=((self.at - 60, time.time()),))
        print(f"{found.duplicated_by_failure} records twice; {self.in_flight} were in the batch that was cut off")
        assert (found.lost, found.duplicated) == (0, 0)
        assert found.duplicated_by_failure <= self.in_flight


@pytest.mark.demo
def test_holder_dies_in_mid_batch(pair: Pair, drag: Path) -> None:
    orders, one, two = pair
    hang(orders, drag)
    orders.kill(one)
    drag.unlink()
    death = Death(orders, one)

    assert Autopilot(orders).take_over("two")["holder"] == "two"

    orders.settle()
    assert [r["incarnation"] for r in orders.records("fenced")] == [one]
    assert orders.state.holder == two
    death.audit(orders)


def test_holder_dies_between_requested_and_released(pair: Pair, drag: Path) -> None:
    orders, one, two = pair
    hang(orders, drag)
    request = orders.request(two)
    wait_for("the holder to be asked to stop", lambda: orders.beat(one).phase == "releasing")
    orders.kill(one)
    drag.unlink()
    death = Death(orders, one)

    Autopilot(orders).take_over("two")

    # The request was open when the holder died, and the fence alone let the one it appoints go on.
    assert orders.state.requests[request].stage is RequestStage.DONE
    orders.settle()
    assert orders.state.holder == two
    death.audit(orders)


@pytest.mark.demo
def test_standby_dies_between_ready_and_acquired(pair: Pair, drag: Path) -> None:
    orders, one, two = pair
    hang(orders, drag)
    request = orders.request(two)
    wait_for("the holder to be asked to stop", lambda: orders.beat(one).phase == "releasing")
    orders.kill(two)
    drag.unlink()

    wait_for("the old holder to take back", lambda: orders.state.requests[request].stage is RequestStage.TAKEN_BACK)

    orders.settle()
    assert orders.state.holder == one
    gone(orders, two)
    found = orders.audit()
    assert (found.lost, found.duplicated) == (0, 0)


def test_new_holder_dies_before_its_first_commit(pair: Pair, drag: Path) -> None:
    orders, one, two = pair
    orders.request(two)
    wait_for("the new holder", lambda: orders.state.holder == two)
    orders.kill(two)
    death = Death(orders, two)

    assert Autopilot(orders).roll_back()["holder"] == "one"

    orders.settle()
    assert orders.state.holder == one
    death.audit(orders)


def test_both_die(pair: Pair, drag: Path) -> None:
    orders, one, two = pair
    orders.kill(one)
    orders.kill(two)
    gone(orders, two)
    death = Death(orders, one)

    orders.submit("three", **LEASE)
    Autopilot(orders).take_over("three")

    orders.settle()
    assert orders.state.holding_deployment is not None
    assert orders.state.holding_deployment.id == "three"
    death.audit(orders)


def test_a_query_that_misses_its_boundary_leaves_the_holder_as_it_was(pair: Pair, drag: Path) -> None:
    orders, one, two = pair
    epoch = orders.state.epoch
    hang(orders, drag)
    request = orders.request(two)
    wait_for("the hand-over to be given up", lambda: orders.state.requests[request].stage is RequestStage.ABORTED)
    drag.unlink()

    orders.settle()
    assert (orders.state.holder, orders.state.epoch) == (one, epoch)
    # The standby is still good: the same hand-over succeeds once the batches are short again.
    orders.hand_over(two)
    orders.settle()
    found = orders.audit()
    assert (found.lost, found.duplicated) == (0, 0)


def test_standby_dies_in_rehearsal(orders: StackStream) -> None:
    orders.submit("one")
    one = orders.standby("one")
    orders.hand_over(one)
    orders.settle()
    epoch = orders.state.epoch
    orders.submit("two")

    def rehearsing() -> str | None:
        beats = orders.log.heartbeats().items()
        return next((name for name, beat in beats if name.startswith("two.") and beat.phase == "rehearsing"), None)

    two = str(wait_for("the rehearsal", rehearsing))
    orders.kill(two)

    with pytest.raises(AssertionError, match="never came up"):
        Autopilot(orders).take_over("two")

    assert (orders.state.holder, orders.state.epoch) == (one, epoch)
    gone(orders, two)
    found = orders.audit()
    assert (found.lost, found.duplicated) == (0, 0)


def test_holder_whose_python_is_frozen_halts_itself(pair: Pair) -> None:
    orders, one, two = pair
    frozen = next(p for p in orders.processes(one) if p.pid == orders.beat(one).pid)
    frozen.send_signal(signal.SIGSTOP)

    # Nobody tells it to: the JVM's own timer ends it, and the frozen Python goes when it wakes.
    wait_for("the JVM to halt", lambda: {p.pid for p in orders.processes(one)} <= {frozen.pid}, 60)
    frozen.send_signal(signal.SIGCONT)
    death = Death(orders, one)

    Autopilot(orders).take_over("two")
    orders.settle()
    assert orders.state.holder == two
    death.audit(orders)


def test_holder_that_wakes_after_its_lease_writes_nothing_more(pair: Pair) -> None:
    orders, one, two = pair
    frozen = orders.processes(one)
    for process in frozen:
        process.send_signal(signal.SIGSTOP)
    time.sleep(LEASE["lease_seconds"] + 3)
    for process in frozen:
        process.send_signal(signal.SIGCONT)

    death = Death(orders, one)
    Autopilot(orders).take_over("two")
    orders.settle()
    assert orders.state.holder == two
    death.audit(orders)


def test_control_folder_away_for_half_a_minute(orders: StackStream) -> None:
    orders.submit("one")
    one = orders.standby("one")
    orders.hand_over(one)
    orders.settle()
    epoch, seq = orders.state.epoch, orders.state.seq

    folder = folder_of(orders.log)
    away = folder.with_name("away")
    folder.rename(away)
    time.sleep(32)
    still = time.time()
    time.sleep(3)
    held_still = orders.commits_after(still) == 0
    away.rename(folder)

    orders.settle()
    assert held_still, "a holder that cannot read the log for half its lease commits nothing"
    assert (orders.state.holder, orders.state.epoch, orders.state.seq) == (one, epoch, seq)
    found = orders.audit()
    assert (found.lost, found.duplicated) == (0, 0)


def test_supervised_relaunch_beside_its_orphan(orders: StackStream) -> None:
    orders.submit("one", conf={"spark.driver.supervise": "true"}, **LEASE)
    one = orders.standby("one")
    orders.hand_over(one)
    orders.settle()
    orphan = next(p for p in orders.processes(one) if p.pid == orders.beat(one).pid)
    orphan.send_signal(signal.SIGSTOP)
    jvm = next(p for p in orders.processes(one) if p.pid == orders.beat(one).jvm_pid)
    jvm.kill()

    # The worker starts the driver again at once, beside the frozen Python of the first; it is a driver of its own.
    def relaunched() -> str | None:
        return next((i.id for i in orders.state.of_deployment("one") if i.id != one), None)

    again = str(wait_for("the relaunch to stand by", relaunched))
    assert orders.state.holder == one, "it must not take what the log gives to another"
    orphan.send_signal(signal.SIGCONT)
    death = Death(orders, one)

    # The cluster knows both by one submission: fencing the first ends the second too, and a third takes over.
    orders.submit("two", **LEASE)
    Autopilot(orders).take_over("two")
    orders.settle()
    gone(orders, again)
    death.audit(orders)
