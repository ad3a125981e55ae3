"""Adopting a job against a real control log: from a release that stands by to the stream's first holder."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_stream_provider.clusters import DriverState, Remains, UnmanagedView
from airflow_stream_provider.control import open_log
from airflow_stream_provider.operators.adopt import AdoptOperator
from airflow_stream_provider.planning.signs_of_life import SignsOfLife
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.noting_cluster import NotingCluster
from tests.support.story import acquired, ready, standby, write
from tests.support.tasks import IDENTITY, run, waits

MINE = IDENTITY.deployment("orders", "2")
DRIVER = f"{MINE}.00000009"
JOB = "driver-20261121023732-0002"


@pytest.fixture
def script(spec: StreamSpec, tmp_path: Path) -> StreamSpec:
    (tmp_path / "a.py").write_text("x = 1\n")
    spec = spec.model_copy(update={"application": "a.py"})
    spec._source = tmp_path / "streams" / "orders.yaml"
    return spec


def adopt(spec: StreamSpec, **more: str) -> AdoptOperator:
    return AdoptOperator(task_id="t", stream=spec, **more)


def test_two_tasks_with_a_person_between_them(script: StreamSpec, cluster: NotingCluster) -> None:
    waits(adopt(script))
    log = open_log(script.control, script.name)
    assert log.refresh().deployments[MINE].adopts
    write(log, standby(DRIVER))
    stands_by = run(adopt(script), WaitOutcome(Ended.REACHED, MINE))
    assert (stands_by["deployment"], stands_by["adopted"], stands_by["says"]) == (MINE, False, "")
    waits(adopt(script, deployment=MINE, confirmed_by="Ada"))
    request = log.refresh().open_request
    assert request is not None
    assert (request.source, request.to, request.by) == (None, DRIVER, IDENTITY.by)
    assert log.records()[-1]["evidence"] == {"person": "Ada"}
    write(log, ready(request.id, DRIVER), acquired(DRIVER, request.id, 1))
    result = run(adopt(script, deployment=MINE, confirmed_by="Ada"))
    assert (result["holder"], result["adopted"], result["gap_seconds"]) == (MINE, True, {})
    assert not log.refresh().deployments[MINE].adopts, "it has held: what it writes is its own"


def test_a_job_that_lingers_is_waited_for_in_the_triggerer(
    script: StreamSpec, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_stream_provider.hooks.stream.END_SECONDS", 0.1)
    lingers = UnmanagedView(JOB, DriverState.RUNNING, remains=Remains(("It runs.",)))
    monkeypatch.setattr(cluster, "end", lambda job: cluster.did.append(("end", job)))
    cluster.foreign[JOB] = lingers
    waits(adopt(script, job=JOB))
    log = open_log(script.control, script.name)
    write(log, standby(DRIVER))
    assert waits(adopt(script, job=JOB))["condition"] == "SignsOfLife"
    assert ("end", JOB) not in cluster.did
    lives = WaitOutcome(Ended.REACHED, SignsOfLife.SUBJECT, evidence={DRIVER: True})
    condition = waits(adopt(script, job=JOB), lives)
    assert condition == {"condition": "JobGone", "job": JOB}
    assert cluster.did[-1] == ("end", JOB)
    assert log.refresh().open_request is None
    cluster.foreign[JOB] = UnmanagedView(JOB, DriverState.KILLED)
    waits(adopt(script, job=JOB), WaitOutcome(Ended.REACHED, JOB))
    assert log.refresh().open_request is not None


def test_a_job_that_the_cluster_loses_is_not_followed(script: StreamSpec, cluster: NotingCluster) -> None:
    cluster.foreign[JOB] = UnmanagedView(JOB, DriverState.LOST)
    waits(adopt(script, job=JOB))
    write(open_log(script.control, script.name), standby(DRIVER))
    with pytest.raises(
        AirflowFailException, match="The cluster does not confirm that driver-20261121023732-0002 is gone"
    ):
        run(adopt(script, job=JOB))
    assert ("end", JOB) not in cluster.did
