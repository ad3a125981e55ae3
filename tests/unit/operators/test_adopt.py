"""Adopting a job against a real control log: from a release that stands by to the stream's first holder."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_stream_provider.clusters import DriverState, Remains, UnmanagedView
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.operators.adopt import AdoptOperator
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.noting_cluster import NotingCluster
from tests.support.story import acquired, ready, standby, write
from tests.support.tasks import IDENTITY, lives, run, waits

JOB = "driver-20261121023732-0002"


@pytest.fixture
def script(spec: StreamSpec, tmp_path: Path) -> StreamSpec:
    (tmp_path / "a.py").write_text("x = 1\n")
    spec = spec.model_copy(update={"application": "a.py"})
    spec._source = tmp_path / "streams" / "orders.yaml"
    return spec


def adopt(spec: StreamSpec, task: str = "t", **more: str) -> AdoptOperator:
    return AdoptOperator(task_id=task, stream=spec, **more)


def up(spec: StreamSpec, log: ControlLog, **more: str) -> tuple[str, str]:
    """Let the task bring up what is to follow the job; return deployment and driver."""
    waits(adopt(spec, **more))
    (deployment,) = log.refresh().deployments.values()
    assert deployment.adopts
    driver = f"{deployment.id}.00000009"
    write(log, standby(driver))
    return deployment.id, driver


def test_without_a_job_a_person_ends_it_and_says_so_later(
    script: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    mine, driver = up(script, log)
    found = run(adopt(script), WaitOutcome(Ended.REACHED, mine))
    assert (found["deployment"], found["adopted"], found["says"]) == (mine, False, "")
    assert (found["family"], found["incarnation"]) == (IDENTITY.wish, driver)
    said = log.records()[-1]
    assert (said.kind, said["deployment"], said["job"]) == ("ending", mine, ""), "should this die, the watch knows"
    assert run(adopt(script), WaitOutcome(Ended.REACHED, mine))["adopted"] is False, "it is cleared"
    assert len(log.records()) == 5


def test_by_the_word_of_a_person_it_takes_over(script: StreamSpec, log: ControlLog, cluster: NotingCluster) -> None:
    mine, driver = up(script, log, confirmed_by="Ada")
    waits(adopt(script, confirmed_by="Ada"), WaitOutcome(Ended.REACHED, mine))
    request = log.refresh().open_request
    assert request is not None
    assert (request.source, request.to, request.by) == (None, driver, IDENTITY.by)
    assert log.records()[-1]["evidence"] == {"person": "Ada"}
    write(log, ready(request.id, driver), acquired(driver, request.id, 1))
    result = run(adopt(script, confirmed_by="Ada"), lives(driver))
    assert (result["holder"], result["adopted"], result["gap_seconds"]) == (mine, True, {})
    assert not log.refresh().deployments[mine].adopts, "it has held: what it writes is its own"


def test_a_job_that_lingers_is_waited_for_in_the_triggerer(
    script: StreamSpec, log: ControlLog, cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_stream_provider.hooks.stream.END_SECONDS", 0.1)
    monkeypatch.setattr(cluster, "end", lambda job: cluster.did.append(("end", job)))
    cluster.foreign[JOB] = UnmanagedView(JOB, DriverState.RUNNING, remains=Remains(("It runs.",)))
    _, driver = up(script, log, job=JOB)
    assert waits(adopt(script, job=JOB))["condition"] == "SignsOfLife"
    assert ("end", JOB) not in cluster.did
    assert waits(adopt(script, job=JOB), lives(driver)) == {"condition": "JobGone", "job": JOB}
    assert cluster.did[-1] == ("end", JOB)
    assert log.refresh().open_request is None
    cluster.foreign[JOB] = UnmanagedView(JOB, DriverState.KILLED)
    waits(adopt(script, job=JOB), lives(driver))
    assert log.refresh().open_request is not None


def test_a_job_that_the_cluster_loses_is_not_followed(
    script: StreamSpec, log: ControlLog, cluster: NotingCluster
) -> None:
    cluster.foreign[JOB] = UnmanagedView(JOB, DriverState.LOST)
    up(script, log, job=JOB)
    with pytest.raises(AirflowFailException, match=f"The cluster does not confirm that {JOB} is gone"):
        run(adopt(script, job=JOB))


def test_a_release_that_needs_an_approval_adopts_nothing(script: StreamSpec, log: ControlLog) -> None:
    asks = script.model_copy(update={"upgrade": script.upgrade.model_copy(update={"approval": True})})
    with pytest.raises(AirflowFailException, match="an adoption is no upgrade"):
        run(adopt(asks))
    assert log.records() == []
