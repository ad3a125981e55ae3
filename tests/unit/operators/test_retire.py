"""Retiring one deployment against a real control log."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.operators.stream import RetireOperator
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import BOTH, UPGRADED
from tests.support.story import OLD_DEPLOYMENT, write
from tests.support.tasks import run


@pytest.mark.parametrize(
    ("deployment", "says"),
    [(OLD_DEPLOYMENT, "holds the stream and is kept"), ("none", "There is no deployment 'none'"), ("", "There is not")],
)
def test_what_is_not_to_be_retired_is_skipped(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster, deployment: str, says: str
) -> None:
    write(log, *BOTH)
    with pytest.raises(AirflowSkipException, match=says):
        run(RetireOperator(task_id="t", stream=spec, deployment=deployment))
    assert cluster.did == []


def test_a_deployment_is_retired_once_its_driver_is_gone(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *UPGRADED)
    retire = RetireOperator(task_id="t", stream=spec, deployment=OLD_DEPLOYMENT, reason="It is old.")
    with pytest.raises(TaskDeferred):
        run(retire)
    assert log.records()[-1]["reason"] == "It is old."
    cluster.states[f"driver-{OLD_DEPLOYMENT}"] = DriverState.FINISHED
    assert run(retire) == {"stream": "orders", "retired": OLD_DEPLOYMENT, "version": "1"}
