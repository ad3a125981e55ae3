"""Airflow is not on the hot path: its processes die in a hand-over, its tasks are cleared at every step, wishes change.

Every later wish in every phase of an upgrade is in tests/unit/lifecycle/test_later_wishes.py; here is a sample of them.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from functools import partial

import psutil
import pytest
import yaml

from airflow_stream_provider.checkpoint.read import read
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind
from demo.environment import DemoEnvironment
from devstack.audit import count, deliveries, end_offsets
from devstack.drivers import wait_for
from devstack.errors import StackError
from devstack.producer import Producer
from devstack.stack import LocalStack
from tests.support.control_root import new_log
from tests.support.example_site import example_site

DAG, OPERATE = "orders__upgrade", "orders__operate"


class World:
    """The example stream on a whole stack of its own, release 1 running."""

    def __init__(self, stack: LocalStack, site: DemoEnvironment) -> None:
        self.stack = stack
        self.site = site
        self.log: ControlLog = new_log(site.spec.control, site.spec.name)
        self.producer = Producer(site.brokers, "orders", 300)

    def upgrade(self, version: str, *arguments: str) -> str:
        """Trigger an upgrade as a user would; return the run."""
        conf = {"version": version, "arguments": [*self.site.spec.arguments, *arguments]}
        return self.site.airflow.trigger(DAG, conf)

    def operate(self, operation: str) -> str:
        """Ask for an operation by its form, as a user would; return the run."""
        return self.site.airflow.trigger(OPERATE, {"operation": operation, "reason": "second thoughts", "ask": False})

    def ends(self, run: str, wanted: str, dag: str = DAG) -> None:
        """Wait for the end of a run."""
        assert self.site.airflow.wait_for_run(dag, run, 600) == wanted, self.site.airflow.task_states(dag, run)

    def comes_up(self, version: str) -> bool:
        """Whether a driver of this version was submitted."""
        return any(d.submission and d.release.version == version for d in self.log.refresh().deployments.values())

    def holding(self) -> str:
        """The version of the release that holds now."""
        deployment = self.log.refresh().holding_deployment
        return deployment.release.version if deployment else ""

    def requested(self, version: str) -> bool:
        """Whether a hand-over to this version was asked for."""
        deployments = self.log.refresh().deployments
        found = [r for r in self.log.records() if r.kind == Kind.REQUESTED and r.get("to")]
        return any(deployments[deployment_of(r["to"])].release.version == version for r in found)

    def audit(self) -> None:
        """Stop producing and count: nothing lost, nothing twice."""
        produced = self.producer.stop()
        ends = end_offsets(self.site.brokers, "orders")
        folder = self.site.checkpoints["enrich"]
        wait_for("every order to be committed", lambda: read(folder).committed.get("orders") == ends)
        found = count(produced, deliveries(self.site.brokers, "orders-enriched"))
        assert (found.lost, found.duplicated, found.duplicated_by_failure) == (0, 0, 0)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with example_site(tmp_path_factory.mktemp("airflow"), DAG, OPERATE) as (stack, site):
        world = World(stack, site)
        with world.producer:
            world.ends(world.upgrade("1"), "success")
            yield world


def test_airflow_dies_in_the_middle_of_a_hand_over(world: World) -> None:
    run = world.upgrade("2", "--vat")
    wait_for("the request", lambda: world.requested("2"), 600)

    # Scheduler with its task workers, and triggerer: whatever runs the task that asked is gone.
    for part in ("scheduler", "triggerer"):
        process = psutil.Process(world.stack.airflow.parts[part].pid)
        for victim in [*process.children(recursive=True), process]:
            victim.send_signal(signal.SIGKILL)

    wait_for("the drivers to finish it among themselves", lambda: world.holding() == "2", 60)
    epoch = world.log.refresh().epoch
    for part in ("scheduler", "triggerer"):
        world.stack.airflow.start_part(part)
    world.ends(run, "success")

    assert (world.holding(), world.log.refresh().epoch) == ("2", epoch)
    assert [r["boundary"] for r in world.log.records() if r.kind == Kind.RELEASED] == ["completed"]


@pytest.mark.parametrize("task", ["check", "submit", "hand_over", "soak", "report"])
def test_a_task_cleared_afterwards_changes_nothing(world: World, task: str) -> None:
    run = next(r.by.split("/")[1] for r in reversed(world.log.records()) if "/hand_over" in r.by)
    before = world.log.refresh()

    world.site.airflow.clear(DAG, run, [task], downstream=False)
    time.sleep(2)
    world.ends(run, "success")

    after = world.log.refresh()
    assert (after.holder, after.epoch, set(after.deployments)) == (before.holder, before.epoch, set(before.deployments))


def test_an_approval_by_nobody_is_a_no_and_the_stream_goes_on(world: World) -> None:
    """Those who may answer are named, and none of them does; somebody else tries."""
    file, before = world.site.spec.source, world.log.refresh()
    text = file.read_text()
    fields = yaml.safe_load(text)
    fields["upgrade"].update(approval=True, approvers=["night-shift"], approval_timeout="60s")
    file.write_text(yaml.safe_dump(fields, sort_keys=False))
    try:
        run = world.upgrade("3")
        tasks = f"dags/{DAG}/dagRuns/{run}/taskInstances"
        wait_for("the question", lambda: world.site.airflow.task_states(DAG, run)["approve"] == "deferred", 600)
        answer = {"chosen_options": ["Approve"], "params_input": {}}
        with pytest.raises(StackError) as refused:
            world.site.airflow.call("PATCH", f"{tasks}/approve/-1/hitlDetails", json=answer)
        assert refused.value.fields["status"] == 403
        world.ends(run, "failed")
    finally:
        file.write_text(text)
    said = world.site.airflow.task_log(DAG, run, "approve")
    assert "No answer came within 0:01:00, which counts as a no: the standby is ended. Trigger it again." in said
    after = world.log.refresh()
    assert (after.holder, after.epoch) == (before.holder, before.epoch)
    assert [d.id for d in after.deployments.values() if not d.ended] == [deployment_of(before.holder or "")]


def test_a_task_cleared_while_it_waits_ends_the_same(world: World) -> None:
    run = world.upgrade("1")

    def waits(task: str) -> bool:
        return world.site.airflow.task_states(DAG, run)[task] == "deferred"

    for task in ("submit", "soak"):
        wait_for(f"{task} to wait", partial(waits, task), 600)
        world.site.airflow.clear(DAG, run, [task])
    world.ends(run, "success")

    assert world.holding() == "1"
    taken = [r for r in world.log.records() if r.kind == Kind.ACQUIRED]
    assert len(taken) == 3


@pytest.mark.parametrize(
    ("version", "phase", "later", "holds"),
    [
        ("4", World.requested, "roll-back", "1"),  # the hand-over may be over when the form looks, or acts
        ("5", World.comes_up, "stop", ""),
        ("6", World.comes_up, "stop", ""),  # of a stream that was stopped
    ],
)
def test_the_later_wish_counts_and_the_earlier_run_says_so(
    world: World, version: str, phase: Callable[[World, str], bool], later: str, holds: str
) -> None:
    earlier = world.upgrade(version)
    wait_for(f"release {version}, as far as it is to come", lambda: phase(world, version), 600)
    run = world.operate(later)
    world.ends(run, "success", OPERATE)
    ended = world.site.airflow.wait_for_run(DAG, earlier, 600)

    assert world.holding() == holds
    if later == "roll-back" and ended == "success":
        return  # its soak was over before the roll-back came: there was nothing to say
    by = [r for r in world.log.records() if r.kind == Kind.WANTED and r.by.startswith(f"airflow:{OPERATE}/{run}/")]
    failed = [task for task, state in world.site.airflow.task_states(DAG, earlier).items() if state == "failed"]
    told = [world.site.airflow.task_log(DAG, earlier, task) for task in failed]
    assert any(f"was replaced by record {wish.seq}, by {wish.by}" in text for wish in by for text in told), told


def test_nothing_was_lost_or_written_twice(world: World) -> None:
    world.ends(world.upgrade("7"), "success")  # it was stopped
    world.audit()
