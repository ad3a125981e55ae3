"""The command that adopts a job, on a real control log and with real waits; drivers are played, the cluster notes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.cli.run_here import Exit, run_here
from airflow_stream_provider.clusters import DriverState, UnmanagedView
from airflow_stream_provider.planning import pursue, request
from airflow_stream_provider.planning.judgement import Answered
from devstack.drivers import wait_for
from tests.support.commands import Here
from tests.support.noting_cluster import NotingCluster
from tests.support.played_drivers import PlayedDrivers
from tests.support.story import OLD, OLD_DEPLOYMENT, following, retired, standby, submitted, wanted, write

JOB = "driver-20261121023732-0002"
RUNS = UnmanagedView(JOB, DriverState.RUNNING, f"driver {JOB} (PythonRunner, worker w)")


@pytest.fixture
def job(cluster: NotingCluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """A job that the cluster knows."""
    monkeypatch.setattr(pursue, "FIRST_COMMIT_SECONDS", 0.0)
    cluster.foreign[JOB] = RUNS
    return JOB


def test_a_job_is_ended_by_its_id_once_the_new_driver_stands_by(here: Here, job: str) -> None:
    with PlayedDrivers(here.control):
        assert here.call("adopt", job=job) == Exit.DONE
    kinds = [record.kind for record in here.log.records()]
    assert kinds == ["wanted", "declared", "submitted", "standby", "ending", "requested", "ready", "acquired"]
    declared, asked = here.log.records()[1], here.log.records()[5]
    assert declared["policy"]["adopts"] is True
    assert asked["evidence"] == {"job": job, "state": "killed"}
    assert here.cluster.did == [("submit", "driver-1"), ("end", job)]
    assert here.said().out.startswith("Adopted: disk of w3. orders-1-")


def test_a_command_that_was_cut_off_after_the_end_of_the_job_goes_on(here: Here, job: str) -> None:
    with PlayedDrivers(here.control, appoints=False):
        monkey = pytest.MonkeyPatch()
        monkey.setattr("airflow_stream_provider.cli.run_here.run_here", _cut_off_after_the_standby)
        assert here.call("adopt", job=job) == Exit.UNKNOWN
        monkey.undo()
    here.cluster.foreign[job] = UnmanagedView(job, DriverState.KILLED)
    with PlayedDrivers(here.control):
        assert here.call("adopt", job=job) == Exit.DONE
    assert [record.kind for record in here.log.records()].count("declared") == 1


def _cut_off_after_the_standby(operator: Any, identity: Any) -> Any:
    operator.job = ""
    run_here(operator, identity)
    raise KeyboardInterrupt


def test_a_person_is_asked_to_end_it_and_says_so_by_name(here: Here, job: str, asked: list[Callable[[], str]]) -> None:
    asked += [lambda: "y", lambda: "A" * 200, lambda: "Ada Lovelace"]
    with PlayedDrivers(here.control):
        assert here.call("adopt", yes=False) == Exit.DONE
    said = here.said().out
    assert "Then you are asked to end the old job" in said
    assert said.index("stands by and has rehearsed") < said.index("End the old job now")
    (request,) = (record for record in here.log.records() if record.kind == "requested")
    assert request["evidence"] == {"person": "Ada Lovelace"}


@pytest.mark.parametrize("answer", ["", KeyboardInterrupt, EOFError])
def test_a_person_who_gives_up_leaves_no_driver_beside_the_job(
    here: Here, answer: Any, job: str, asked: list[Any]
) -> None:
    def says() -> str:
        here.cluster.states["driver-1"] = DriverState.FINISHED  # as its driver reads that it is retired
        if answer:
            raise answer
        return ""

    asked.append(says)
    with PlayedDrivers(here.control):
        assert here.call("adopt") == Exit.REFUSED
    kinds = [record.kind for record in here.log.records()]
    assert kinds == ["wanted", "declared", "submitted", "standby", "ending", "wanted", "retired"]
    assert ("end", job) not in here.cluster.did


def test_a_person_who_is_asked_hears_that_the_driver_is_lost(
    here: Here, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Answered, "pace", 0.05)
    heard: list[str] = []

    def says() -> str:
        (name,) = here.log.refresh().deployments
        here.cluster.states["driver-1"] = DriverState.FINISHED
        write(here.log, retired(name))
        wait_for("a word", lambda: heard.append(here.said().out) or "Do NOT" in "".join(heard))
        return ""

    asked.append(says)
    with PlayedDrivers(here.control):
        assert here.call("adopt") == Exit.REFUSED
    assert " has ended: not needed." in "".join(heard), heard


def test_the_driver_of_somebody_else_is_left_to_him(here: Here, asked: list[Any], job: str) -> None:
    """He may be asked still whether the job has ended."""
    by = "airflow:orders__operate/manual__1/stand_by"
    theirs = wanted("adopt", by=by, policy={"adopts": True}, adopts=True)
    write(here.log, theirs, following(OLD_DEPLOYMENT, "adopt"), submitted(OLD_DEPLOYMENT), standby(OLD))
    asked.append(lambda: "")
    with PlayedDrivers(here.control):
        assert here.call("adopt") == Exit.REFUSED
    assert not here.log.refresh().deployments[OLD_DEPLOYMENT].ended
    assert here.log.records()[-1].kind == "ending", "it may still follow"
    said = here.said().err
    assert f"was brought up by {by} (a person wants it), and is left to that" in said


def test_a_driver_that_does_not_answer_is_ended(
    here: Here, job: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As one does whose checkpoint somebody else writes."""

    def end(found: object) -> None:
        here.cluster.foreign[job] = UnmanagedView(job, DriverState.KILLED)
        here.cluster.states["driver-1"] = DriverState.FINISHED  # as its driver reads that it is retired, later

    monkeypatch.setattr(here.cluster, "end", end)
    monkeypatch.setattr(request, "STILL_SECONDS", 0.0)
    monkeypatch.setattr(request, "ANSWER_SECONDS", 0.5)
    yaml = tmp_path / "dags" / "streams" / "orders.yaml"
    yaml.write_text(yaml.read_text() + "upgrade: {boundary_seconds: 1s}\n")
    with PlayedDrivers(here.control, appoints=False):
        assert here.call("adopt", job=job) == Exit.FAILED
    assert "As a rule somebody else writes the checkpoint" in here.said().err
    kinds = [record.kind for record in here.log.records()]
    assert kinds[-4:] == ["requested", "aborted", "wanted", "retired"]
    assert here.log.refresh().holder is None


@pytest.mark.parametrize(
    ("view", "more", "says"),
    [
        (RUNS, {"job": "driver-1,driver-2"}, "is not the id of one job"),
        (RUNS, {"job": JOB, "confirmed_by": "Ada"}, "Give one of both"),
        (RUNS, {}, "Nobody can be asked here to end the old job"),
        (replace(RUNS, managed=True), {"job": JOB}, "is run by a stream of this provider"),
    ],
)
def test_what_cannot_be_adopted_is_refused_and_touches_nothing(
    here: Here, view: UnmanagedView, more: dict[str, Any], says: str, job: str
) -> None:
    here.cluster.foreign[job] = view
    assert here.call("adopt", **more) == Exit.REFUSED
    assert says in "".join(here.said())
    assert (here.log.records(), here.cluster.did) == ([], [])
