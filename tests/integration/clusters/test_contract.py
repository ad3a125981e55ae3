"""The contract of every cluster, tested on each; on Kubernetes on a stand-in, and on a real one if there is one."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import signal
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from airflow_stream_provider.clusters import DriverState, FoundDrivers, Whose, status_of
from airflow_stream_provider.hooks.drivers import kill_drivers
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from devstack.drivers import wait_for
from tests.support.control_root import new_log
from tests.support.places import Place, clusters, processes_of
from tests.support.story import hash_of, record, write
from tests.support.submitter import let_go, submitter


# With Spark in pods `make test-integration` runs this one alone, and of YARN one of `test_yarn.py`: they take long.
@pytest.mark.parametrize("place", clusters("standin_kubernetes"), indirect=True)
def test_the_life_of_a_driver(place: Place) -> None:
    cluster, since = place.cluster, time.time()
    job = dataclasses.replace(place.job(), environment={"REGION": "eu west"})
    cluster.check(job)
    assert cluster.find(job.whose, since) == FoundDrivers()

    submission = cluster.submit(job)

    assert not status_of(cluster, submission).terminal
    assert not cluster.remains(submission, job.whose).gone
    facts = place.facts(job, submission)
    assert facts["total"] == 12
    assert facts["regions"] == ["eu west", "eu west"]  # of the driver and of an executor
    assert status_of(cluster, submission) is DriverState.RUNNING
    assert cluster.find(job.whose, since) == FoundDrivers(alive=(submission,))
    assert cluster.find(Whose(job.deployment[:-1]), since) == FoundDrivers()
    assert [*cluster.running("orders", job.log).values()] == [job.deployment]
    assert (
        cluster.running("order", job.log) == cluster.running("orders", "0b" * 16) == cluster.running("orders", "") == {}
    )
    (view,) = cluster.look([submission]).values()
    assert (view.state, view.ours) == (DriverState.RUNNING, None)
    assert view.links["driver log"]
    assert cluster.look([submission, "driver-20200101000000-0000"])[submission] == view
    # As whoever wants to adopt it sees it: it is somebody's already.
    other = cluster.unmanaged(submission)
    if other is not None:
        assert (other.state, other.managed, other.gone) == (DriverState.RUNNING, True, False)
    left = cluster.remains(submission, job.whose).alive
    assert left
    assert all(sentence.endswith(".") for sentence in left)

    processes = processes_of(job.deployment)
    assert not place.on_this_machine or place.facts(job, submission)["pid"] in {each.pid for each in processes}
    place.end(submission, job)

    assert status_of(cluster, submission) is DriverState.KILLED
    assert cluster.find(job.whose, since).alive == ()
    # The master reports only the JVM; the Python process ends right after it.
    wait_for("every process to be gone", lambda: not any(process.is_running() for process in processes))
    assert processes_of(job.deployment) == []
    assert cluster.running("orders", job.log) == {}
    cluster.kill(submission)
    assert cluster.remains(submission, job.whose).gone
    if other is not None:
        other = cluster.unmanaged(submission)
        assert other is not None
        assert other.gone
    cluster.check(job)


@pytest.mark.parametrize(("code", "state"), [("0", DriverState.FINISHED), ("password=hunter2", DriverState.FAILED)])
def test_the_exit_code_decides_between_finished_and_failed(place: Place, code: str, state: DriverState) -> None:
    """One that has failed says why in its log, of which the end is shown without secrets."""
    job = place.job(code)
    submission = place.cluster.submit(job)
    wait_for("the driver's end", lambda: status_of(place.cluster, submission).terminal)
    assert status_of(place.cluster, submission) is state
    wait_for("nothing to remain", lambda: place.cluster.remains(submission, job.whose).gone)
    shown = place.cluster.log_tail(submission)
    print(shown)
    assert ("ValueError: invalid literal for int() with base 10: 'password=***'" in shown) == (code != "0")
    assert "hunter2" not in shown


def test_an_unknown_submission_is_lost_never_a_success(place: Place) -> None:
    unknown = "driver-20200101000000-0000"
    assert status_of(place.cluster, unknown) is DriverState.LOST
    assert not place.cluster.find(Whose("orders-1-00000000"), time.time()).alive
    place.cluster.kill(unknown)


def test_a_crash_between_submit_and_record_leaves_one_driver_that_is_found(place: Place) -> None:
    job, since = place.job(), time.time()
    task = submitter(place.connection, job, place.opener)
    assert task.stdout is not None
    let_go(task)
    submission = task.stdout.readline().strip()
    # As thoroughly as a supervisor would.
    for child in psutil.Process(task.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            child.kill()
    os.killpg(task.pid, signal.SIGKILL)
    task.wait()

    # The retried task only knows the deployment and when it was declared.
    assert place.certain(job, since) == FoundDrivers(alive=(submission,))
    # YARN finds an application that it has not begun to run.
    wait_for("the driver to run", lambda: status_of(place.cluster, submission) is DriverState.RUNNING)


def test_a_driver_of_another_control_log_is_neither_found_nor_in_the_way_nor_killed(
    place: Place, tmp_path: Path
) -> None:
    """Two Airflows have streams and DAGs of the same names, and runs of the same id: their deployments have one id."""
    theirs, since = place.job(log="0b" * 16), time.time()
    submission = place.cluster.submit(theirs)
    application = place.facts(theirs, submission)["application"]
    mine = place.job(deployment=theirs.deployment)
    assert place.cluster.find(mine.whose, since) == FoundDrivers()
    assert place.cluster.find(theirs.whose, since) == FoundDrivers(alive=(submission,))
    unknown = "driver-20200101000000-0000"
    assert place.cluster.remains(unknown, mine.whose).alive == ()
    own = place.cluster.submit(mine)
    assert place.certain(mine, since) == FoundDrivers(alive=(own,))
    assert [place.cluster.look([each], theirs.whose)[each].ours for each in (submission, own)] == [True, False]
    log = new_log((tmp_path / "control").as_uri())
    release = {"version": "1", "hash": hash_of("x")}
    write(log, record("declared", deployment=mine.deployment, release=release, policy={}, reason=""))
    write(log, record("submitted", deployment=mine.deployment, submission=own, cluster="one"))
    log.beat(f"{mine.deployment}.0000000a", Heartbeat(submission=submission, application_id=application))
    kill_drivers(log, place.cluster, mine.whose)
    wait_for(f"{own} to be gone", lambda: place.cluster.remains(own, mine.whose).gone)
    assert status_of(place.cluster, submission) is DriverState.RUNNING
    assert not place.cluster.remains(submission, theirs.whose, [application]).gone
    place.end(submission, theirs)


def test_a_driver_that_says_no_log_is_found_by_the_url_of_its_control_log(place: Place) -> None:
    if place.connection.is_yarn:
        pytest.skip("on YARN every driver says its log")
    job, since = place.job(log=""), time.time()
    submission = place.cluster.submit(job)
    place.facts(job, submission)
    ours = dataclasses.replace(job.whose, log="0a" * 16)
    assert place.cluster.find(ours, since) == FoundDrivers(alive=(submission,))
    assert place.cluster.remains(submission, ours).alive
    elsewhere = dataclasses.replace(ours, reached_by=("--control", "file:///elsewhere"))
    assert place.cluster.find(elsewhere, since) == FoundDrivers(certain=False), "its URL may lead to the same log"
    place.end(submission, job)


def unread(place: Place) -> list[Any]:
    """Return the connections to the master that whoever made them has closed, and the master has not."""
    addresses = str(place.connection.extra.get("rest_url", "")).split(",")
    ports = {urlsplit(address).port for address in addresses} - {None}
    closing = (each for each in psutil.net_connections("tcp") if each.status == psutil.CONN_CLOSE_WAIT)
    return [each for each in closing if each.laddr.port in ports]


def test_a_crash_at_any_moment_of_submit_never_leads_to_two_drivers(place: Place) -> None:
    chance = random.Random(7)
    for _ in range(3):
        job, since = place.job(), time.time()
        task = submitter(place.connection, job, place.opener)
        let_go(task)
        time.sleep(chance.uniform(0, 0.12))
        task.kill()
        task.wait()
        # The request may be in the master's hands, and no search can see it there. Airflow's retry comes later than
        # this; the driver of a request that lands later still finds its twin's heartbeat, and exits.
        time.sleep(2)
        wait_for("the master to have read what the task sent", lambda: not unread(place))

        found = place.certain(job, since)
        submission = found.alive[0] if found.alive else place.cluster.submit(job)

        assert place.certain(job, since).alive == (submission,)
        place.end(submission, job)
