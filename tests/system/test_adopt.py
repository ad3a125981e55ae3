"""A job that runs without this provider is adopted under load, and left again: every record is counted."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint.logs import kafka_offsets, read_offsets
from airflow_stream_provider.cli.adopt import adopt_here
from airflow_stream_provider.cli.run_here import Exit, run_here
from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lifecycle.record import Kind
from airflow_stream_provider.operators.adopt import AdoptOperator
from airflow_stream_provider.operators.stop import StopStreamOperator
from airflow_stream_provider.planning import adopt, requests
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from devstack.commits import written_at
from devstack.stack_stream import QUERIES, StackStream
from devstack.unmanaged import end_unmanaged, leave, submit_unmanaged, yaml_of


@pytest.fixture
def spec(orders: StackStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StreamSpec:
    """The stream as its YAML says, with what the job runs now."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(orders.stack.cluster.connection))
    return load_spec(yaml_of(orders, tmp_path, upgrade={"boundary_seconds": "2s"}))


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
        hurry.setattr(adopt, "STILL_SECONDS", 0.0)
        hurry.setattr(requests, "ANSWER_SECONDS", 8.0)
        operator = AdoptOperator(task_id="adopt", stream=spec, reason="errs", confirmed_by="Ada", wait_seconds=900)
        operator.hook.create()
        erred = adopt_here(operator, identity("erred"), "")
    assert erred.code is Exit.FAILED
    assert "somebody else writes it" in erred.said
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
    stop = StopStreamOperator(task_id="stop", stream=spec, reason="Retired for good: leaves")
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
    assert orders.cluster.status(job) is DriverState.RUNNING
    orders.settle()
    end_unmanaged(orders, job)
