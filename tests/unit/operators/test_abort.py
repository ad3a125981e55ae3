"""Calling a release off against a real control log."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.operators.stream import AbortOperator
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import BOTH, UPGRADED
from tests.support.story import NEW_DEPLOYMENT, write
from tests.support.tasks import run


def abort(spec: StreamSpec) -> AbortOperator:
    return AbortOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT, reason="not this week")


def test_its_driver_is_told_to_exit_and_waited_for(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster, caplog: pytest.LogCaptureFixture
) -> None:
    write(log, *BOTH)
    cluster.states[f"driver-{NEW_DEPLOYMENT}"] = DriverState.RUNNING
    with pytest.raises(TaskDeferred):
        run(abort(spec))
    assert (log.records()[-1].kind, log.records()[-1]["reason"]) == ("retired", "not this week")
    cluster.states[f"driver-{NEW_DEPLOYMENT}"] = DriverState.FINISHED
    assert run(abort(spec))["retired"] == NEW_DEPLOYMENT
    assert len(log.records()) == len(BOTH) + 1


def test_one_that_holds_by_now_takes_a_roll_back(spec: StreamSpec, log: ControlLog, cluster: NotingCluster) -> None:
    write(log, *UPGRADED)
    with pytest.raises(AirflowFailException, match="has taken the stream over meanwhile"):
        run(abort(spec))
    assert len(log.records()) == len(UPGRADED)
