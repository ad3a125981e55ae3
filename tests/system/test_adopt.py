"""A job that runs without this provider is adopted under load, and left again: every record is counted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint.logs import kafka_offsets, read_offsets
from airflow_stream_provider.cli.run_here import Exit, adopt_here, run_here
from airflow_stream_provider.clusters import DriverState, status_of
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.monitoring.folder_look import Found
from airflow_stream_provider.monitoring.incidents import IncidentKind
from airflow_stream_provider.operators.adopt import AdoptOperator
from airflow_stream_provider.operators.stream import StopStreamOperator
from airflow_stream_provider.operators.watch import ReviveStreamOperator
from airflow_stream_provider.planning import request
from airflow_stream_provider.planning.steps import TaskIdentity
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from devstack.commits import written_at
from devstack.drivers import wait_for
from devstack.stack_stream import QUERIES, StackStream
from devstack.unmanaged import end_unmanaged, leave, submit_unmanaged, yaml_of
from tests.support.watched_folder import RECEIVED, look_at


@pytest.fixture
def spec(orders: StackStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StreamSpec:
    """The stream as its YAML says, with what the job runs now."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(orders.stack.cluster.connection))
    return load_spec(
        yaml_of(
            orders,
            tmp_path,
            upgrade={"boundary_seconds": "2s"},
            notify=[{"call": "tests.support.watched_folder.receive"}],
        )
    )


def identity(run: str) -> TaskIdentity:
    return TaskIdentity("test", run, "adopt")


def cut_off(orders: StackStream, acquired_at: float) -> int:
    """Return how many orders the old job had in a batch of `out` that it planned and did not commit."""
    folder = orders.checkpoint / "out" / "offsets"
    done = max(batch for batch, at in orders.watcher.commits["out"].items() if at <= acquired_at)
    planned = written_at(folder / str(done + 1))
    if planned is None or planned > acquired_at:
        return 0
    ends = [kafka_offsets(read_offsets(folder / str(n)).sources["0"]) or {} for n in (done, done + 1)]
    before, after = (sum(each[f"{orders.stream}-in"].values()) for each in ends)
    return after - before


def test_a_job_under_load_is_adopted_and_left_again(
    orders: StackStream, spec: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit_unmanaged(orders)
    orders.settle()

    # A person errs: the job runs on. Its logs do too, so nobody takes over, and no driver is left beside it.
    with monkeypatch.context() as hurry:
        hurry.setattr(request, "STILL_SECONDS", 0.0)
        hurry.setattr(request, "ANSWER_SECONDS", 8.0)
        operator = AdoptOperator(task_id="adopt", stream=spec, reason="errs", confirmed_by="Ada", wait_seconds=900)
        operator.hook.create()
        erred = adopt_here(operator, identity("erred"), "")
    assert erred.code is Exit.FAILED
    assert "somebody else writes the checkpoint" in erred.said
    assert orders.records(Kind.ACQUIRED) == []
    assert all(deployment.ended for deployment in orders.state.deployments.values())
    (asked,) = orders.records(Kind.REQUESTED)
    assert asked["evidence"] == {"person": "Ada"}
    orders.settle()

    # By its id the cluster ends it. The new driver has stood by before that.
    operator = AdoptOperator(task_id="adopt", stream=spec, reason="our first step", job=job, wait_seconds=900)
    ran = adopt_here(operator, identity("adopts"), "")
    assert (ran.code, ran.said) == (Exit.DONE, "")
    assert ran.result["adopted"]
    print("gaps", ran.result["gap_seconds"])
    assert set(ran.result["gap_seconds"]) == set(QUERIES)
    asked = orders.records(Kind.REQUESTED)[-1]
    assert asked["evidence"] == {"job": job, "state": DriverState.KILLED.value}
    orders.settle()
    acquired = orders.records(Kind.ACQUIRED)[-1].at
    doubled = cut_off(orders, acquired)
    failed = (acquired, time.time())

    # Leaving: stopped at a batch boundary, the marks removed, the script submitted as before.
    stop = StopStreamOperator(task_id="stop", stream=spec, reason="leaves", for_good=True)
    assert run_here(stop, TaskIdentity("test", "leaves", "stop")).code is Exit.DONE
    assert orders.records(Kind.RELEASED)[-1]["boundary"] == "completed"
    leave(orders)
    again = submit_unmanaged(orders)
    try:
        orders.settle()
        found = orders.audit(failures=(failed,))
    finally:
        end_unmanaged(orders, again)
    print(found, "cut off", doubled)
    assert (found.lost, found.duplicated) == (0, 0)
    assert found.duplicated_by_failure <= doubled


# Adopts in a process of its own, which is killed like a worker whose machine is lost.
CUT_OFF = """
import os, signal, sys
from pathlib import Path
from airflow_stream_provider.cli.run_here import adopt_here
from airflow_stream_provider.monitoring.incidents import IncidentKind
from airflow_stream_provider.operators.adopt import AdoptOperator
from airflow_stream_provider.operators.watch import ReviveStreamOperator
from airflow_stream_provider.planning.steps import TaskIdentity
from airflow_stream_provider.spec.stream import load_spec

spec, job, ends = load_spec(Path(sys.argv[1])), sys.argv[2], sys.argv[3] == "after"
operator = AdoptOperator(task_id="adopt", stream=spec, reason="our first step", job=job, wait_seconds=900)
hook = operator.hook
hook.create()
end = hook.end_job

def dies(id):
    if ends:
        end(id)
    os.kill(os.getpid(), signal.SIGKILL)

hook.end_job = dies
adopt_here(operator, TaskIdentity("test", "cut-off", "adopt"), "")
"""


def adopt_and_die(spec: StreamSpec, job: str, step: str) -> None:
    """Adopt by its id, in a process that is killed before or after it has had the job ended."""
    command = [sys.executable, "-c", CUT_OFF, str(spec.source), job, step]
    assert subprocess.run(command, check=False, timeout=600).returncode == -signal.SIGKILL


def look_until(spec: StreamSpec, looks: int) -> Found:
    """Look as the watch does, a minute apart; return the last look."""
    found = look_at(spec)
    for _ in range(looks - 1):
        time.sleep(61.0)
        found = look_at(spec)
    return found


@pytest.mark.parametrize("dead", ["the process", "the process and the follower"])
def test_an_adoption_that_is_cut_off_after_the_job_was_ended_is_told_and_brought_back(
    orders: StackStream, spec: StreamSpec, dead: str
) -> None:
    job = submit_unmanaged(orders)
    orders.settle()
    adopt_and_die(spec, job, "after")
    assert orders.records(Kind.REQUESTED) == []
    (ending,) = orders.records(Kind.ENDING)
    assert (ending["job"], ending["reason"]) == (job, "our first step")
    (follower,) = orders.state.incarnations
    if dead != "the process":
        orders.kill(follower)
    RECEIVED.clear()
    found = look_until(spec, 2)
    (alert,) = RECEIVED[""]
    assert (alert.kind, alert.open) == (IncidentKind.DOWN, True)
    assert f"{job} was to be ended" in str(alert.reasons)
    assert [*found.revive] == [orders.stream], "and the watch has a run bring it back"
    failed = (ending.at, time.time())

    revive = ReviveStreamOperator(task_id="revive", stream=spec, wait_seconds=900)
    assert run_here(revive, TaskIdentity("streams__revive", "run", "revive")).code is Exit.DONE
    asked = orders.records(Kind.REQUESTED)[-1]
    assert asked["evidence"] == {"job": job, "state": DriverState.KILLED.value}
    assert (asked["to"] == follower) is (dead == "the process")
    orders.settle()
    recovered = (failed[0], time.time())
    found_records = orders.audit(failures=(recovered,))
    assert (found_records.lost, found_records.duplicated) == (0, 0)


def test_an_adoption_that_is_cut_off_before_the_job_was_ended_is_told_and_gone_on_with(
    orders: StackStream, spec: StreamSpec
) -> None:
    job = submit_unmanaged(orders)
    orders.settle()
    adopt_and_die(spec, job, "before")
    RECEIVED.clear()
    look_until(spec, 2)
    (alert,) = RECEIVED[""]
    assert f"{job} was to be ended" in str(alert.reasons)
    revive = ReviveStreamOperator(task_id="revive", stream=spec, wait_seconds=900)
    assert status_of(orders.cluster, job) is DriverState.RUNNING
    assert run_here(revive, TaskIdentity("streams__revive", "run", "revive")).code is Exit.DONE
    assert status_of(orders.cluster, job) is DriverState.KILLED
    orders.settle()


def test_a_checkpoint_that_the_job_does_not_use_is_refused_before_the_job_is_touched(
    orders: StackStream, spec: StreamSpec, tmp_path: Path
) -> None:
    job = submit_unmanaged(orders)
    orders.settle()
    file = spec.source
    file.write_text(file.read_text().replace(orders.arguments()[2], str(tmp_path / "typo")))
    operator = AdoptOperator(task_id="adopt", stream=load_spec(file), reason="a typo", job=job, wait_seconds=900)
    operator.hook.create()
    ran = adopt_here(operator, identity("typo"), "")
    assert ran.code is Exit.FAILED
    assert "the job that is to be adopted does not use it" in ran.said
    assert status_of(orders.cluster, job) is DriverState.RUNNING
    orders.settle()
    end_unmanaged(orders, job)


def test_a_follower_that_dies_alone_after_the_job_was_ended_is_followed_by_another_one(
    orders: StackStream, spec: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit_unmanaged(orders)
    orders.settle()
    operator = AdoptOperator(task_id="adopt", stream=spec, reason="our first step", job=job, wait_seconds=900)
    hook, end = operator.hook, operator.hook.end_job
    hook.create()

    def dies(id: str) -> bool:
        ended = end(id)
        orders.kill(next(iter(orders.state.incarnations)))
        return ended

    monkeypatch.setattr(hook, "end_job", dies)
    ran = adopt_here(operator, identity("adopts"), "")
    assert ran.code is Exit.DONE, ran.said
    assert orders.records(Kind.ABORTED)[-1]["reason"] == "No driver is left that could take over."
    ending_at = orders.records(Kind.ENDING)[-1].at
    orders.settle()
    found_records = orders.audit(failures=((ending_at, time.time()),))
    assert (found_records.lost, found_records.duplicated) == (0, 0)


def test_a_cluster_that_is_lost_after_the_job_was_ended_is_told_and_a_person_says_that_the_job_is_gone(
    orders: StackStream, spec: StreamSpec
) -> None:
    job = submit_unmanaged(orders)
    orders.settle()
    adopt_and_die(spec, job, "after")
    (follower,) = orders.state.incarnations
    stack, spark = orders.stack, orders.stack.spark
    for name in (*spark.worker_names, spark.masters[0].name):
        stack.processes.named(name).signal(signal.SIGKILL)
    orders.kill(follower)
    RECEIVED.clear()
    try:
        look_until(spec, 2)
        (alert,) = RECEIVED[""]
        assert (alert.kind, alert.open) == (IncidentKind.CLUSTER, True)
        assert f"Down: 1 stream ({orders.stream})" in str(alert.reasons)
    finally:
        spark.masters[0].process = stack.processes.restart(spark.masters[0].name)
        spark.workers = [stack.processes.restart(name) for name in spark.worker_names]
    wait_for("the worker to register", lambda: spark.status().get("aliveworkers") == len(spark.workers))
    RECEIVED.clear()
    look_until(spec, 2)
    # Nothing is on its way back, so people are told at once, and not some minutes after the outage.
    told = {IncidentKind(each.kind): each for each in RECEIVED[""]}
    assert {kind: each.open for kind, each in told.items()} == {IncidentKind.CLUSTER: False, IncidentKind.DOWN: True}
    alert = told[IncidentKind.DOWN]
    # A master that was started again does not know drivers that have ended: nothing says that the job is gone.
    assert f"{job} was to be ended" in str(alert.reasons)
    revive = ReviveStreamOperator(task_id="revive", stream=spec, wait_seconds=900)
    assert f"does not confirm that {job} is gone" in run_here(revive, TaskIdentity("revive", "run", "revive")).said
    assert orders.records(Kind.ACQUIRED) == []
    operator = AdoptOperator(task_id="adopt", stream=spec, reason="go on", confirmed_by="Ada", wait_seconds=900)
    assert adopt_here(operator, identity("again"), "").code is Exit.DONE
    orders.settle()
    ending_at = orders.records(Kind.ENDING)[0].at
    found = orders.audit(failures=((ending_at, time.time()),))
    assert (found.lost, found.duplicated) == (0, 0)
