"""Stopping, retiring and making room against a real control log."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.operators.stop import MakeRoomOperator, RetireOperator, StopStreamOperator
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import BOTH, UPGRADED
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, released, requested, write
from tests.support.tasks import IDENTITY, run


def gone(cluster: NotingCluster) -> None:
    """Let every driver have ended."""
    for deployment in (OLD_DEPLOYMENT, NEW_DEPLOYMENT):
        cluster.states[f"driver-{deployment}"] = DriverState.FINISHED


def test_a_request_that_another_made_is_followed_first(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *BOTH, requested("theirs", NEW, by="someone else"))
    with pytest.raises(TaskDeferred) as deferred:
        run(StopStreamOperator(task_id="t", stream=spec))
    assert deferred.value.trigger.serialize()[1]["condition"]["request"] == "theirs"


def test_a_stop_is_done_when_every_driver_is_gone_and_says_where_it_stopped(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *BOTH)
    stop = StopStreamOperator(task_id="t", stream=spec)
    with pytest.raises(TaskDeferred):
        run(stop)
    request = log.refresh().open_request
    assert request is not None
    assert (request.to, request.source, request.by) == (None, OLD, IDENTITY.by)
    write(log, released(OLD, request.id, None))
    with pytest.raises(TaskDeferred) as deferred:
        run(stop)
    assert deferred.value.trigger.serialize()[1]["condition"]["condition"] == "DriversGone"
    gone(cluster)
    result = run(StopStreamOperator(task_id="t", stream=spec))
    assert (result["stopped"], result["holder"], result["boundary"]) == (True, "", "completed")
    assert (result["ends"], result["offsets"]) == ({"a": {"batch": 7}}, {})
    assert [r["deployment"] for r in log.records() if r.kind == "retired"] == [OLD_DEPLOYMENT, NEW_DEPLOYMENT]
    assert json.loads(json.dumps(result)) == result


def test_a_stream_that_never_ran_is_stopped(spec: StreamSpec, log: ControlLog) -> None:
    result: dict[str, Any] = run(StopStreamOperator(task_id="t", stream=spec))
    assert result["stopped"]
    assert "boundary" not in result


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
    gone(cluster)
    assert run(retire) == {"stream": "orders", "retired": OLD_DEPLOYMENT, "version": "1"}


def test_room_is_made_of_what_is_warm_and_never_of_the_holder(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *UPGRADED)
    gone(cluster)
    assert run(MakeRoomOperator(task_id="t", stream=spec))["retired"] == [OLD_DEPLOYMENT]
    retired = log.records()[-1]
    assert (retired["deployment"], retired["reason"]) == (OLD_DEPLOYMENT, f"superseded by {IDENTITY.run}")
    assert log.refresh().holder == NEW
