"""How a stream operator ends that is carried out in the process of a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_stream_provider.cli.progress import Progress
from airflow_stream_provider.cli.run_here import Exit, Ran, run_here
from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.fence import FenceOperator
from airflow_stream_provider.operators.handover import HandOverOperator
from airflow_stream_provider.operators.stop import StopStreamOperator
from airflow_stream_provider.spec.stream import StreamSpec, load_spec
from tests.support.noting_cluster import NotingCluster
from tests.support.story import OLD, OLD_DEPLOYMENT, released, write
from tests.support.tasks import IDENTITY


@pytest.fixture
def spec(streams: Path, running: ControlLog, cluster: NotingCluster) -> StreamSpec:
    return load_spec(streams / "orders.yaml")


def ran(operator: StreamOperator) -> Ran:
    return run_here(operator, IDENTITY, Progress())


def test_what_does_not_come_in_time_is_unknown_and_says_what_was_waited_for(spec: StreamSpec) -> None:
    found = ran(StopStreamOperator(task_id="t", stream=spec, wait_seconds=0.2))
    assert found.code is Exit.UNKNOWN
    assert found.said.endswith("It was waited for 0 s.")
    assert found.snapshot is not None


def test_what_is_done_has_the_result_of_the_task(spec: StreamSpec, running: ControlLog, cluster: NotingCluster) -> None:
    write(running, released(OLD, None, None))
    cluster.states[f"driver-{OLD_DEPLOYMENT}"] = DriverState.FINISHED
    found = ran(StopStreamOperator(task_id="t", stream=spec))
    assert (found.code, found.result["stopped"]) == (Exit.DONE, True)


def test_a_step_that_is_skipped_is_done_and_says_why(spec: StreamSpec) -> None:
    found = ran(FenceOperator(task_id="t", stream=spec, deployment="none", confirmed_by="Ada"))
    assert (found.code, dict(found.result)) == (Exit.DONE, {})
    assert "There is no deployment 'none'" in found.said


def test_what_cannot_come_true_has_failed(spec: StreamSpec) -> None:
    found = ran(HandOverOperator(task_id="t", stream=spec, deployment="none"))
    assert found.code is Exit.FAILED
    assert "none" in found.said


def test_a_driver_is_killed_and_its_end_is_waited_for(spec: StreamSpec, cluster: NotingCluster) -> None:
    found = ran(FenceOperator(task_id="t", stream=spec, deployment=OLD_DEPLOYMENT, wait_seconds=0.2))
    assert cluster.did == [("kill", f"driver-{OLD_DEPLOYMENT}")]
    assert found.code is Exit.UNKNOWN
