"""The operators of a whole stream against a real control log: stop, start, retire, call off, make room."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import ControlLog, open_log
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.operators.adopt import operator_of
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.stream import (
    AbortOperator,
    FenceOperator,
    HandOverOperator,
    MakeRoomOperator,
    RetireOperator,
    RollBackOperator,
    StartStreamOperator,
    StopStreamOperator,
)
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import BOTH, UPGRADED
from tests.support.story import (
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    OLD_DEPLOYMENT,
    acquired,
    failed,
    fenced,
    ready,
    released,
    requested,
    standby,
    write,
)
from tests.support.tasks import IDENTITY, run, waits


def gone(cluster: NotingCluster) -> None:
    """Let every driver have ended."""
    for deployment in (OLD_DEPLOYMENT, NEW_DEPLOYMENT):
        cluster.states[f"driver-{deployment}"] = DriverState.FINISHED


def test_a_stop_is_done_when_every_driver_is_gone_and_says_where_it_stopped(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *BOTH)
    stop = StopStreamOperator(task_id="t", stream=spec)
    waits(stop)
    request = log.refresh().open_request
    assert request is not None
    assert (request.to, request.source, request.by) == (None, OLD, IDENTITY.by)
    write(log, released(OLD, request.id, None))
    assert waits(stop)["condition"] == "DriversGone"
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


MINE = IDENTITY.deployment("orders", "2")
NEXT = IDENTITY.deployment("orders", "2", 1)
DRIVER = f"{MINE}.00000009"


def start(spec: StreamSpec, version: str | None = None) -> StartStreamOperator:
    return StartStreamOperator(task_id="t", stream=spec, version=version)


def test_a_release_is_submitted_and_then_appointed(spec: StreamSpec, tmp_path: Path, cluster: NotingCluster) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    spec = spec.model_copy(update={"application": "a.py"})
    spec._source = tmp_path / "streams" / "orders.yaml"
    waits(start(spec))
    log = open_log(spec.control, spec.name)
    write(log, standby(DRIVER))
    waits(start(spec))
    request = log.refresh().open_request
    assert request is not None
    assert (request.source, request.to, request.by) == (None, DRIVER, IDENTITY.by)
    write(log, ready(request.id, DRIVER), acquired(DRIVER, request.id, 1))
    result = run(start(spec))
    assert (result["holder"], result["previous"], result["epoch"], result["gap_seconds"]) == (MINE, "", 1, {})
    assert cluster.did == [("submit", "driver-1")]


def test_a_retry_starts_another_driver_when_the_first_one_was_lost(
    spec: StreamSpec, tmp_path: Path, cluster: NotingCluster
) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    spec = spec.model_copy(update={"application": "a.py"})
    spec._source = tmp_path / "streams" / "orders.yaml"
    assert start(spec).subject(IDENTITY) == MINE
    waits(start(spec))
    log = open_log(spec.control, spec.name)
    write(log, failed(None, MINE))
    for _ in range(2):  # two tries at once would do the same
        waits(start(spec))
    assert list(log.refresh().deployments) == [MINE, NEXT]
    assert start(spec).subject(IDENTITY) == NEXT
    assert cluster.did == [("submit", "driver-1"), ("submit", "driver-2")]


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
    waits(retire)
    assert log.records()[-1]["reason"] == "It is old."
    cluster.states[f"driver-{OLD_DEPLOYMENT}"] = DriverState.FINISHED
    assert run(retire) == {"stream": "orders", "retired": OLD_DEPLOYMENT, "version": "1"}


def abort(spec: StreamSpec) -> AbortOperator:
    return AbortOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT, reason="not this week")


def test_its_driver_is_told_to_exit_and_waited_for(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster, caplog: pytest.LogCaptureFixture
) -> None:
    write(log, *BOTH)
    cluster.states[f"driver-{NEW_DEPLOYMENT}"] = DriverState.RUNNING
    waits(abort(spec))
    assert (log.records()[-1].kind, log.records()[-1]["reason"]) == ("retired", "not this week")
    cluster.states[f"driver-{NEW_DEPLOYMENT}"] = DriverState.FINISHED
    assert run(abort(spec))["retired"] == NEW_DEPLOYMENT
    assert len(log.records()) == len(BOTH) + 1


def test_room_is_made_of_what_is_warm_and_never_of_the_holder(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *UPGRADED)
    cluster.states[f"driver-{OLD_DEPLOYMENT}"] = DriverState.FINISHED
    assert run(MakeRoomOperator(task_id="t", stream=spec))["retired"] == [OLD_DEPLOYMENT]
    retired = log.records()[-1]
    assert (retired["deployment"], retired["reason"]) == (OLD_DEPLOYMENT, f"superseded by {IDENTITY.run}")
    assert log.refresh().holder == NEW


@pytest.mark.parametrize(
    ("part", "kind", "deployment"),
    [
        (Operation.STOP, StopStreamOperator, ""),
        (Operation.START, StartStreamOperator, ""),
        (Operation.ROLL_BACK, RollBackOperator, "d"),
        (Operation.ABORT, AbortOperator, "d"),
        (Operation.PROMOTE, HandOverOperator, "d"),
        (Operation.FENCE, FenceOperator, "d"),
    ],
)
def test_a_part_has_its_operator(
    spec: StreamSpec, part: Operation, kind: type[StreamOperator], deployment: str
) -> None:
    found = operator_of(part, task_id="t", stream=spec, deployment="d", confirmed_by="Ada", reason="why")
    assert type(found) is kind
    assert (found.stream, found.reason, found.deployment) == (spec, "why", deployment)
    assert getattr(found, "confirmed_by", "") == ("Ada" if part is Operation.FENCE else "")


@pytest.mark.parametrize("whole", [Operation.RESTART, Operation.RETIRE, Operation.UPGRADE, Operation.REDEPLOY])
def test_what_is_made_of_parts_has_none(spec: StreamSpec, whole: Operation) -> None:
    with pytest.raises(AssertionError):
        operator_of(whole, task_id="t", stream=spec, reason="why")
