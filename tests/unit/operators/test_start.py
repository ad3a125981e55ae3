"""Starting a stream against a real control log: from nothing to its first holder."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_stream_provider.control import open_log
from airflow_stream_provider.operators.stream import StartStreamOperator
from airflow_stream_provider.planning.signs_of_life import SignsOfLife
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.noting_cluster import NotingCluster
from tests.support.story import OLD, OLD_DEPLOYMENT, RUNNING, acquired, failed, ready, standby, write
from tests.support.tasks import IDENTITY, run

MINE = IDENTITY.deployment("orders", "2")
NEXT = IDENTITY.deployment("orders", "2", 1)
DRIVER = f"{MINE}.00000009"


def start(spec: StreamSpec, version: str | None = None) -> StartStreamOperator:
    return StartStreamOperator(task_id="t", stream=spec, version=version)


def test_a_release_is_submitted_and_then_appointed(spec: StreamSpec, tmp_path: Path, cluster: NotingCluster) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    spec = spec.model_copy(update={"application": "a.py"})
    spec._source = tmp_path / "streams" / "orders.yaml"
    with pytest.raises(TaskDeferred):
        run(start(spec))
    log = open_log(spec.control, spec.name)
    write(log, standby(DRIVER))
    with pytest.raises(TaskDeferred):
        run(start(spec))
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
    with pytest.raises(TaskDeferred):
        run(start(spec))
    log = open_log(spec.control, spec.name)
    write(log, failed(None, MINE))
    for _ in range(2):  # two tries at once would do the same
        with pytest.raises(TaskDeferred):
            run(start(spec))
    assert list(log.refresh().deployments) == [MINE, NEXT]
    assert start(spec).subject(IDENTITY) == NEXT
    assert cluster.did == [("submit", "driver-1"), ("submit", "driver-2")]


def test_what_runs_already_is_found_and_another_version_not_replaced(spec: StreamSpec, cluster: NotingCluster) -> None:
    log = open_log(spec.control, spec.name, create=True)
    write(log, *RUNNING)
    alive = WaitOutcome(Ended.REACHED, SignsOfLife.SUBJECT, evidence={OLD: True})
    with pytest.raises(TaskDeferred):
        run(start(spec, "1"))
    assert run(start(spec, "1"), alive)["holder"] == OLD_DEPLOYMENT
    with pytest.raises(AirflowFailException, match="Upgrade it instead of starting it"):
        run(start(spec, "2"))
    assert (len(log.records()), cluster.did) == (len(RUNNING), [])
