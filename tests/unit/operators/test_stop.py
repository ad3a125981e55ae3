"""The operators of a whole stream against a real control log: stop, start, restart, retire, call off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import ControlLog, open_log
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.lifecycle.wish import Goal
from airflow_stream_provider.operators.adopt import AdoptOperator, operator_of
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.operators.stream import (
    AbortOperator,
    FenceOperator,
    PromoteOperator,
    RestartStreamOperator,
    RetireOperator,
    RollBackOperator,
    StartStreamOperator,
    StopStreamOperator,
)
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import BOTH, RUNNING, UPGRADED
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
    standby,
    write,
)
from tests.support.tasks import IDENTITY, lives, run, waits


@pytest.fixture
def script(spec: StreamSpec, tmp_path: Path) -> StreamSpec:
    (tmp_path / "a.py").write_text("x = 1\n")
    spec = spec.model_copy(update={"application": "a.py"})
    spec._source = tmp_path / "streams" / "orders.yaml"
    return spec


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
    assert (request.to, request.source, request.by, request.wish) == (None, OLD, IDENTITY.by, IDENTITY.wish)
    write(log, released(OLD, request.id, None))
    assert waits(stop)["condition"] == "DriversGone"
    gone(cluster)
    result = run(StopStreamOperator(task_id="t", stream=spec))
    assert (result["stopped"], result["holder"], result["boundary"]) == (True, "", "completed")
    assert (result["ends"], result["offsets"]) == ({"a": {"batch": 7}}, {})
    assert [r["deployment"] for r in log.records() if r.kind == "retired"] == [OLD_DEPLOYMENT, NEW_DEPLOYMENT]
    assert json.loads(json.dumps(result)) == result


@pytest.mark.parametrize("end", [failed(NEW), fenced(NEW)])
def test_a_stop_says_nothing_of_the_boundary_of_an_earlier_one(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster, end: object
) -> None:
    write(log, *UPGRADED, end)  # type: ignore[arg-type]  # OLD released to NEW at a boundary
    gone(cluster)
    result = run(StopStreamOperator(task_id="t", stream=spec))
    assert (result["stopped"], result["request"]) == (True, "")
    assert log.refresh().phase is StreamPhase.STOPPED
    assert not {"boundary", "ends"} & result.keys()


def test_a_stop_for_good_says_so_in_the_log(spec: StreamSpec, log: ControlLog, cluster: NotingCluster) -> None:
    write(log, *RUNNING)
    waits(StopStreamOperator(task_id="t", stream=spec, for_good=True))
    wish = log.refresh().wish
    assert wish is not None
    assert wish.goal is Goal.LEAVE


@pytest.mark.parametrize("operator", [StartStreamOperator, RestartStreamOperator])
def test_what_needs_an_approval_is_refused_before_anything_is_wished(
    script: StreamSpec, cluster: NotingCluster, operator: type[StartStreamOperator | RestartStreamOperator]
) -> None:
    asks = script.model_copy(update={"upgrade": script.upgrade.model_copy(update={"approval": True})})
    with pytest.raises(AirflowFailException, match="a person has to approve a new one"):
        run(operator(task_id="t", stream=asks))
    assert open_log(script.control, script.name).records() == []


def test_a_release_is_wished_submitted_and_then_appointed(script: StreamSpec, cluster: NotingCluster) -> None:
    start = StartStreamOperator(task_id="t", stream=script)
    waits(start)
    log = open_log(script.control, script.name)
    wish, declared, submitted = log.records()
    assert (wish.kind, wish["wish"], wish["release"]["version"]) == ("wanted", IDENTITY.wish, "2")
    assert (wish["max_seconds"], wish["policy"]["adopts"]) == (10.0, False)
    assert (declared["family"], declared["release"], submitted.kind) == (
        IDENTITY.wish,
        wish["release"],
        "submitted",
    )
    mine = declared["deployment"]
    assert start.subject(log.refresh(), IDENTITY) == mine
    driver = f"{mine}.00000009"
    write(log, standby(driver))
    waits(start, lives(driver))
    request = log.refresh().open_request
    assert request is not None
    assert (request.source, request.to, request.by) == (None, driver, IDENTITY.by)
    write(log, ready(request.id, driver), acquired(driver, request.id, 1))
    result = run(start, lives(driver))
    assert (result["holder"], result["previous"], result["epoch"], result["gap_seconds"]) == (mine, "", 1, {})
    assert cluster.did == [("submit", "driver-1")]


def test_a_restart_stops_the_holder_and_starts_another_driver(
    script: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *RUNNING)
    with pytest.raises(AirflowFailException, match="Release 2 was asked for, and that is an upgrade"):
        run(RestartStreamOperator(task_id="t", stream=script))
    restart = RestartStreamOperator(task_id="t", stream=script, version="1")
    waits(restart)
    wish, request = log.records()[len(RUNNING) :]
    assert (wish["alone"], wish["goal"], request["to"]) == (True, "hold", None)
    write(log, released(OLD, request["request"], None))
    gone(cluster)
    waits(restart)
    assert [r.kind for r in log.records()[len(RUNNING) + 3 :]] == ["retired", "declared", "submitted"]


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


def test_what_is_called_off_is_told_to_exit_and_waited_for(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    write(log, *BOTH)
    abort = AbortOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT, reason="not this week")
    cluster.states[f"driver-{NEW_DEPLOYMENT}"] = DriverState.RUNNING
    assert waits(abort, lives(OLD))["condition"] == "DriversGone"
    wish, retired = log.records()[len(BOTH) :]
    assert (wish["family"], wish["reason"]) == ("old", "not this week")
    assert (retired.kind, retired["reason"]) == ("retired", "not this week")
    cluster.states[f"driver-{NEW_DEPLOYMENT}"] = DriverState.FINISHED
    result = run(abort, lives(OLD))
    assert (result["retired"], result["holder"]) == (NEW_DEPLOYMENT, OLD_DEPLOYMENT)
    assert len(log.records()) == len(BOTH) + 2


def test_what_holds_by_now_is_not_called_off(spec: StreamSpec, log: ControlLog) -> None:
    write(log, *UPGRADED)
    with pytest.raises(AirflowFailException, match="has taken over meanwhile"):
        run(AbortOperator(task_id="t", stream=spec, deployment=NEW_DEPLOYMENT))
    assert len(log.records()) == len(UPGRADED)


@pytest.mark.parametrize(
    ("part", "kind", "deployment"),
    [
        (Operation.STOP, StopStreamOperator, ""),
        (Operation.RETIRE, StopStreamOperator, ""),
        (Operation.START, StartStreamOperator, ""),
        (Operation.RESTART, RestartStreamOperator, ""),
        (Operation.ADOPT, AdoptOperator, ""),
        (Operation.ROLL_BACK, RollBackOperator, "d"),
        (Operation.ABORT, AbortOperator, "d"),
        (Operation.PROMOTE, PromoteOperator, "d"),
        (Operation.FENCE, FenceOperator, "d"),
    ],
)
def test_a_part_has_its_operator(
    spec: StreamSpec, part: Operation, kind: type[StreamOperator], deployment: str
) -> None:
    found = operator_of(part, task_id="t", stream=spec, deployment="d", confirmed_by="Ada", reason="why")
    assert type(found) is kind
    assert (found.stream, found.reason, found.deployment) == (spec, "why", deployment)
    by_word = part in (Operation.FENCE, Operation.ADOPT)
    assert getattr(found, "confirmed_by", "") == ("Ada" if by_word else "")
    assert getattr(found, "for_good", False) is (part is Operation.RETIRE)


@pytest.mark.parametrize("whole", [Operation.UPGRADE, Operation.REDEPLOY, Operation.REWIND])
def test_what_a_run_of_the_upgrade_does_has_none(spec: StreamSpec, whole: Operation) -> None:
    with pytest.raises(KeyError):
        operator_of(whole, task_id="t", stream=spec, reason="why")
