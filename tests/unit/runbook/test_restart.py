"""The strategy `restart` stops the old release first; any other leaves it running."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.hooks import stream
from airflow_stream_provider.hooks.stream_releases import StreamReleases
from airflow_stream_provider.operators.upgrade import TakeOverOperator
from airflow_stream_provider.spec.stream import Strategy, StreamSpec
from tests.support.control_root import log_of
from tests.support.noting_cluster import NotingCluster
from tests.support.snapshots import BOTH, RUNNING
from tests.support.story import OLD, OLD_DEPLOYMENT, hash_of, released, write
from tests.support.tasks import IDENTITY, context, run, spec_in, waits

CHECKED = {"version": "2", "hash": hash_of("checked"), "application": "a.py"}


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    return spec_in(tmp_path)


@pytest.fixture
def log(spec: StreamSpec) -> ControlLog:
    return log_of(spec.control, *RUNNING)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> NotingCluster:
    monkeypatch.setenv("AIRFLOW_CONN_NO_SUCH_CONNECTION", "spark://master")
    monkeypatch.setenv("AIRFLOW_CONN_NO_SUCH_KAFKA", "kafka://")
    monkeypatch.setattr(StreamReleases, "verify", lambda releases, release: None)
    found = NotingCluster()
    monkeypatch.setattr(stream, "open_cluster", lambda connection: found)
    return found


def take_over(spec: StreamSpec, strategy: str = "restart", **more: Any) -> TakeOverOperator:
    return TakeOverOperator(task_id="t", stream=spec, strategy=strategy, checked=CHECKED, **more)


def test_by_a_restart_one_wish_stops_the_holder_and_brings_the_release_in(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    pushed: dict[str, Any] = {}
    with pytest.raises(TaskDeferred):
        take_over(spec, approved="anna").execute(context(pushed))
    assert pushed["family"] == IDENTITY.wish
    wish, request = log.records()[len(RUNNING) :]
    assert (wish["goal"], wish["alone"], wish["approved"], wish["release"]) == ("hold", True, "anna", ANY)
    assert (request.kind, request["to"], request["wish"]) == ("requested", None, IDENTITY.wish)
    write(log, released(OLD, request["request"], None))
    cluster.states[f"driver-{OLD_DEPLOYMENT}"] = DriverState.FINISHED
    waits(take_over(spec))
    last = log.records()[-3:]
    assert [each.kind for each in last] == ["retired", "declared", "submitted"]
    assert last[1]["family"] == IDENTITY.wish


@pytest.mark.parametrize("strategy", ["handover", "", "Restart"])
def test_any_other_strategy_leaves_it_running(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster, strategy: str
) -> None:
    write(log, *BOTH[len(RUNNING) :])
    pushed: dict[str, Any] = {}
    with pytest.raises(TaskDeferred):
        take_over(spec, strategy, family="new", approved="judged: pass").execute(context(pushed))
    assert pushed["family"] == "new"
    request = log.refresh().open_request
    assert request is not None
    assert request.to is not None


def test_with_an_approval_only_the_yaml_stops_the_old_release_without_a_rehearsal(
    spec: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    """Others than those who may edit it may be allowed to write XCom, or to mark `check` as a success."""
    for declared in ("handover", "restart"):
        upgrade = spec.upgrade.model_copy(update={"approval": True, "strategy": Strategy(declared)})
        task = take_over(spec.model_copy(update={"upgrade": upgrade}), approved="anna")
        expected: Any = AirflowFailException if declared == "handover" else TaskDeferred
        with pytest.raises(expected):
            run(task)
        assert (log.refresh().open_request is None) is (declared == "handover")
