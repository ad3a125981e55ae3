"""Stopping a stream against a real control log."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.operators.stream import StopStreamOperator
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import BOTH, UPGRADED
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    failed,
    fenced,
    released,
    requested,
    write,
)
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


@pytest.mark.parametrize("end", [[failed(NEW)], [requested("s", None, by=IDENTITY.by), fenced(NEW)]])
def test_a_stop_says_nothing_of_the_boundary_of_an_earlier_one(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster, end: list[Record]
) -> None:
    write(log, *UPGRADED, *end)  # OLD released to NEW at a boundary
    gone(cluster)
    result: dict[str, Any] = run(StopStreamOperator(task_id="t", stream=spec))
    assert result["stopped"]
    assert log.refresh().phase is StreamPhase.STOPPED
    assert result["request"] in log.refresh().requests
    assert not {"boundary", "ends"} & result.keys()


def test_a_stream_that_never_ran_is_stopped(spec: StreamSpec, log: ControlLog) -> None:
    result: dict[str, Any] = run(StopStreamOperator(task_id="t", stream=spec))
    assert result["stopped"]
    assert "boundary" not in result
