"""The verbs by hand on the real stack, without Airflow's own processes: every record that came out is counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.checkpoint import read
from airflow_stream_provider.cli.run_here import Exit, run_here
from airflow_stream_provider.hooks.about_drivers import holder_hangs
from airflow_stream_provider.hooks.look_ahead import look_ahead
from airflow_stream_provider.hooks.stream import StreamHook
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.operators.check import CheckReleaseOperator
from airflow_stream_provider.operators.stream import HandOverOperator
from airflow_stream_provider.operators.upgrade import SubmitStandbyOperator
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.steps import TaskIdentity
from airflow_stream_provider.spec.requested_release import RequestedRelease
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from devstack.audit import deliveries
from devstack.drivers import wait_for
from devstack.stack_stream import StackStream
from devstack.unmanaged import yaml_of
from tests.support.autopilot import Autopilot

ROOT = Path(__file__).parents[2]
Command = Callable[..., dict[str, Any]]


@pytest.fixture
def spec(orders: StackStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StreamSpec:
    """The YAML of the stream that a test runs by hand."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": orders.stack.bootstrap_servers}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_UNDER_TEST", json.dumps(kafka))
    (tmp_path / "yaml").mkdir()
    more = {"cluster": "spark_under_test", "kafka": "kafka_under_test", "lag": {"commit_age": "15s"}}
    return load_spec(yaml_of(orders, tmp_path / "yaml", **more))


@pytest.fixture
def autopilot(orders: StackStream) -> Iterator[Autopilot]:
    """It also says where the cluster is, as an Airflow connection."""
    yield Autopilot(orders)
    os.environ.pop("AIRFLOW_CONN_SPARK_UNDER_TEST", None)


@pytest.fixture
def command(orders: StackStream, spec: StreamSpec, autopilot: Autopilot, tmp_path: Path) -> Command:
    """Give a command as a person does, and return what it has printed; it must have been done."""

    def command(verb: str, *words: str) -> dict[str, Any]:
        call = [sys.executable, "-m", "airflow", "streams", verb, orders.stream, "--folder", str(spec.source.parent)]
        environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [*call, *(words or ("--yes",)), "--reason", f"to {verb}", "--json"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    return command


def redeploy(spec: StreamSpec, digits: str, rewind: str = "") -> str:
    """Do what a run of the upgrade's DAG does, without Airflow; return the incarnation that holds then."""
    ti = SimpleNamespace(dag_id="d", run_id="redeploy", task_id="check", map_index=-1, xcom_push=lambda **_: None)
    context: Any = {"ti": ti}
    left = CheckReleaseOperator(task_id="check", stream=spec, stored=digits, rewind=rewind).execute(context)
    submit = SubmitStandbyOperator(
        task_id="submit", stream=spec, checked=left["release"], redeployed=left["redeployed"], rewind=left["rewind"]
    )
    up = run_here(submit, TaskIdentity("d", "redeploy", "submit"))
    assert up.code is Exit.DONE, up.said
    family = str(up.result["family"])
    take = HandOverOperator(task_id="hand_over", stream=spec, family=family, approved="the test")
    over = run_here(take, TaskIdentity("d", "redeploy", "hand_over"))
    assert over.code is Exit.DONE, over.said
    return str(up.result["incarnation"])


def test_promoted_rolled_back_warm_redeployed_and_rolled_back_cold_without_loss_or_duplicate(
    orders: StackStream, spec: StreamSpec, autopilot: Autopilot, command: Command
) -> None:
    orders.submit("one")
    orders.submit("two")
    one, two = orders.standby("one"), orders.standby("two")
    orders.hand_over(one)
    orders.settle()

    assert command("promote", "--dry-run")["foreseen"]["deployment"] == "two"
    assert command("promote")["outcome"] == "done"
    assert orders.state.holder == two
    assert command("promote")["outcome"] == "done_already"
    orders.settle()

    assert command("roll-back")["outcome"] == "done"
    assert orders.state.holder == one
    orders.settle()

    # No driver of it is left, and of its files only what is stored.
    autopilot.retire("two")
    third = redeploy(spec, orders.state.deployments["two"].release.hash[:8])
    assert orders.state.holder == third
    assert orders.state.deployments[deployment_of(third)].release == orders.state.deployments["two"].release
    orders.settle()

    autopilot.retire("one")
    foreseen = command("roll-back", "--dry-run")["foreseen"]
    assert foreseen["release"] == orders.state.deployments["one"].release.hash
    assert command("roll-back")["outcome"] == "done"
    back = orders.state.incarnations[orders.state.holder or ""]
    assert orders.state.deployments[back.deployment].release == orders.state.deployments["one"].release
    assert {name: found["batches"] for name, found in back.rehearsal["queries"].items()} == {"out": 3, "totals": 3}
    orders.settle()

    found = orders.audit()
    assert (found.lost, found.duplicated, found.delivered) == (0, 0, found.produced)
    assert [record["boundary"] for record in orders.records("released")] == ["completed"] * 4
    assert [r["reason"] for r in orders.records("requested")][1:3] == ["to promote", "to roll-back"]


def test_rewound_to_a_time_each_record_since_then_comes_out_once_more(
    orders: StackStream, spec: StreamSpec, autopilot: Autopilot
) -> None:
    orders.submit("one")
    one = orders.standby("one")
    orders.hand_over(one)
    orders.settle()
    since = time.time()
    orders.settle()

    hook, wanted = StreamHook.of(spec), RequestedRelease.of(spec)
    refused = look_ahead(hook, Operation.REWIND, wanted, to=since).refused
    assert "The query totals cannot be rewound: it keeps state" in refused
    foreseen = look_ahead(hook, Operation.REWIND, wanted, to=since, query="out")
    assert foreseen.refused == ""
    print(foreseen)
    committed = read(orders.checkpoint / "out").committed
    back = WantedRewind.from_json(foreseen.rewind)
    second = redeploy(spec, foreseen.release, rewind=json.dumps(foreseen.rewind))
    assert orders.state.holder == second
    assert orders.state.deployments[deployment_of(second)].rewind == back
    orders.settle()
    assert look_ahead(hook, Operation.REWIND, wanted, to=since, query="out").done, "the same time, once more"

    found = orders.audit()
    again = sum(
        committed[topic][partition] - offset
        for topic, partitions in back.queries["out"].items()
        for partition, offset in partitions.items()
    )
    print(f"at least {again} records read again of {found.produced}; twice there: {found.duplicated}")
    # What was committed between the look and the hand-over comes on top.
    assert found.lost == 0
    assert 0 < again <= found.duplicated < found.produced
    out = deliveries(orders.stack.bootstrap_servers, f"{orders.stream}-out")
    assert max(Counter(number for number, _ in out).values()) == 2
    assert [record["boundary"] for record in orders.records("released")] == ["completed"]


def test_started_restarted_called_off_fenced_stopped_and_retired_with_every_record_counted(
    orders: StackStream, autopilot: Autopilot, command: Command
) -> None:
    assert command("start")["outcome"] == "done"
    first = orders.state.holder
    orders.settle()
    assert command("start")["outcome"] == "done_already"

    assert command("restart")["outcome"] == "done"
    second = orders.state.holder
    assert second not in (None, first)
    orders.settle()

    orders.submit("two")
    two = orders.standby("two")
    assert command("abort")["outcome"] == "done"
    called_off = orders.state
    assert called_off.holder == second
    assert called_off.deployments[deployment_of(two)].ended

    began = time.time()
    assert command("fence")["outcome"] == "done"
    # It is the batch that was cut off, as nobody holds.
    assert orders.state.holder is None
    cut_off = orders.in_flight()
    assert command("start")["outcome"] == "done"
    orders.settle()
    fenced = (began, time.time())

    assert command("stop")["outcome"] == "done"
    assert (orders.state.holder, command("stop")["outcome"]) == (None, "done_already")
    assert command("start")["outcome"] == "done"
    orders.settle()
    found = orders.audit(failures=(fenced,))
    print(f"{found.duplicated_by_failure} records twice; {cut_off} were in the batch that was cut off")
    assert (found.lost, found.duplicated) == (0, 0)
    assert found.duplicated_by_failure <= cut_off

    assert command("retire")["outcome"] == "done"
    assert not orders.state.holder
    # The fenced one, too, unless its time after SIGTERM was over before its batch was.
    assert {record["boundary"] for record in orders.records("released")} == {"completed"}
    assert [record["reason"] for record in orders.records("requested")][-1] == "to retire"


def test_a_holder_that_hangs_is_upgraded_at_once(
    orders: StackStream, spec: StreamSpec, autopilot: Autopilot, tmp_path: Path
) -> None:
    drag = tmp_path / "drag"
    # Only the holder hangs: where a minute has passed, the standby rehearses again before it answers.
    orders.submit("one", "--drag", str(drag), boundary_seconds=600.0, lease_seconds=10.0)
    orders.submit("two", boundary_seconds=600.0, lease_seconds=10.0)
    one, two = orders.standby("one"), orders.standby("two")
    orders.hand_over(one)
    orders.settle()
    hook = StreamHook.of(spec)
    assert holder_hangs(hook, spec, hook.observe()) == ""

    drag.touch()
    wait_for("the holder to hang", lambda: holder_hangs(hook, spec, hook.observe()))
    began, in_flight = time.time(), orders.in_flight()
    assert in_flight > 0
    counter = orders.beat(one).counter
    wait_for("it to beat all the same", lambda: orders.beat(one).counter > counter)

    def let_go() -> None:
        wait_for("it to be fenced", lambda: orders.records("fenced"))
        drag.unlink()

    thread = threading.Thread(target=let_go)
    thread.start()
    take = HandOverOperator(task_id="hand_over", stream=spec, family="two")
    ran = run_here(take, TaskIdentity("d", "upgrade", "hand_over"))
    thread.join()
    assert ran.code is Exit.DONE, ran.said
    assert orders.state.holder == two
    # It was not asked for a boundary, which it has ten minutes for.
    assert [record["incarnation"] for record in orders.records("fenced")] == [one]
    assert one in orders.records("fencing")[0]["reason"]
    kinds = [r.kind for r in orders.log.records() if r.kind in ("requested", "fenced")]
    assert kinds == ["requested", "fenced", "requested"]
    orders.settle()

    found = orders.audit(failures=((began - 120, time.time()),))
    print(f"{found.duplicated_by_failure} records twice; {in_flight} were in the batch that was cut off")
    assert (found.lost, found.duplicated) == (0, 0)
    assert found.duplicated_by_failure <= in_flight
