"""Two masters and a ZooKeeper: the one that leads is killed in the middle of a submission, a hand-over, a fence."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psutil
import pytest

from airflow_stream_provider.clusters import ClusterConnection, open_cluster
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.errors import ClusterError
from devstack.drivers import wait_for
from devstack.spark_master import Master
from devstack.stack import LocalStack
from devstack.stack_stream import StackStream
from tests.support.autopilot import Autopilot
from tests.support.lost_answers import answers_lost
from tests.support.places import processes_of

LEASE: Any = {"lease_seconds": 10.0}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    with LocalStack(tmp_path_factory.mktemp("two-masters"), masters=2) as running:
        yield running


@pytest.fixture(autouse=True)
def both_masters(stack: LocalStack) -> Iterator[None]:
    """Start the master that a test has killed again: it waits behind the other."""
    yield
    for master in stack.spark.masters:
        assert master.process is not None
        if not master.process.alive:
            master.process = stack.processes.restart(master.name)
    wait_for("a master for the next test to kill", lambda: stack.spark.leader, 180)


def kill_leader(stack: LocalStack) -> Master:
    leader = stack.spark.leader
    assert leader is not None
    assert leader.process is not None
    leader.process.signal(signal.SIGKILL)
    leader.process.popen.wait()
    return leader


def the_other_leads(stack: LocalStack, killed: Master) -> None:
    wait_for("the other master to lead", lambda: stack.spark.leader not in (None, killed), 180)
    wait_for("its worker", lambda: any(w["state"] == "ALIVE" for w in stack.spark.status().get("workers", ())), 180)


def tried_again(call: Callable[[], Any]) -> Any:
    """Carry out a task as Airflow does, which tries again when its cluster does not answer."""

    def tried() -> Any:
        try:
            return call()
        except ClusterError as error:
            print(error)
            return None

    return wait_for("a try that succeeds", tried, 300)


@pytest.mark.parametrize("moment", ["before_request", "after_request"])
def test_the_master_is_killed_in_mid_submit(orders: StackStream, moment: str) -> None:
    """The request, or the answer to it, is lost with the master: one driver runs, however often it is tried."""
    stack, job = orders.stack, orders.declare("one")
    leader = stack.spark.leader
    assert leader is not None
    killed: list[Master] = []

    def strike() -> None:
        if not killed:
            killed.append(kill_leader(stack))

    rest = {each.rest_url: each.rest_url for each in stack.spark.masters}
    with answers_lost(leader.rest_port, **{moment: strike}) as port:
        rest[leader.rest_url] = f"http://127.0.0.1:{port}"
        connection = stack.spark.connection
        extra = {**connection["extra"], "rest_url": ",".join(rest.values())}
        orders.cluster = open_cluster(ClusterConnection(connection["host"], extra=extra))
        try:
            tried_again(lambda: orders.try_to_submit(job, first=not killed))
        finally:
            orders.cluster = open_cluster(ClusterConnection(connection["host"], extra=connection["extra"]))

    assert killed == [leader]
    the_other_leads(stack, leader)
    one = orders.standby("one")
    orders.hand_over(one)
    orders.settle()
    assert len(orders.records("submitted")) == 1
    beats = orders.log.heartbeats("one")
    assert list(beats) == [one]
    assert {p.pid for p in processes_of("one")} >= {beats[one].pid, beats[one].jvm_pid}
    running = [driver["id"] for driver in stack.spark.status()["activedrivers"]]
    assert running == [orders.state.deployments["one"].submission]
    found = orders.audit()
    assert (found.lost, found.duplicated) == (0, 0)


@pytest.fixture
def pair(orders: StackStream) -> tuple[StackStream, str, str]:
    """A holder that runs and a warm standby."""
    for name in ("one", "two"):
        orders.submit(name, **LEASE)
    one, two = orders.standby("one"), orders.standby("two")
    orders.hand_over(one)
    orders.settle()
    return orders, one, two


def test_the_master_is_killed_in_mid_hand_over(pair: tuple[StackStream, str, str]) -> None:
    """A hand-over asks no master; after it the other one knows both applications."""
    orders, one, two = pair
    orders.request(two)
    killed = kill_leader(orders.stack)
    wait_for("the new holder", lambda: orders.state.holder == two)
    orders.settle()
    the_other_leads(orders.stack, killed)
    applications = {orders.beat(each).application_id for each in (one, two)}
    wait_for(
        "both applications to be known",
        lambda: applications <= {app["id"] for app in orders.stack.spark.status().get("activeapps", ())},
    )

    Autopilot(orders).roll_back()

    orders.settle()
    assert orders.state.holder == one
    found = orders.audit()
    assert (found.lost, found.duplicated) == (0, 0)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_master_is_killed_in_mid_fence(
    pair: tuple[StackStream, str, str], moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen holder is to be killed, and the master dies before it is asked, or when it has said yes.

    Nobody acquires before the other master and the worker confirm that the holder is gone.
    """
    orders, one, two = pair
    pilot = Autopilot(orders)
    killed: list[Master] = []
    kill = StreamHook.kill

    def fatal(hook: StreamHook, deployment: str) -> None:
        if not killed and moment == "before":
            killed.append(kill_leader(orders.stack))
        kill(hook, deployment)
        if not killed:
            killed.append(kill_leader(orders.stack))

    monkeypatch.setattr(StreamHook, "kill", fatal)

    def frozen() -> bool:
        orders.kill(one, signal.SIGSTOP)  # again and again: its JVM may have started a child meanwhile
        with suppress(psutil.NoSuchProcess):  # one that was ending
            return all(process.status() == psutil.STATUS_STOPPED for process in orders.processes(one))
        return False

    wait_for("it to be frozen", frozen)
    in_flight = orders.in_flight()

    assert tried_again(lambda: pilot.take_over("two"))["holder"] == "two"

    assert len(killed) == 1
    # The worker kills the JVM. Its Python process can do nothing without it, and ends when it wakes up.
    orders.kill(one, signal.SIGCONT)
    wait_for("every process of it to be gone", lambda: not orders.processes(one))
    orders.settle()
    assert [record["incarnation"] for record in orders.records("fenced")] == [one]
    assert orders.state.holder == two
    fenced = orders.records("fenced")[0]
    found = orders.audit(failures=((fenced.at - 300, fenced.at + 60),))
    assert (found.lost, found.duplicated) == (0, 0)
    assert found.duplicated_by_failure <= in_flight
