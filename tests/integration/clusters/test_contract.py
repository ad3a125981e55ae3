"""The contract of every cluster, tested on a standalone cluster and on this machine."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest

from airflow_stream_provider.clusters import DriverState, FoundDrivers, Job
from devstack.drivers import wait_for
from tests.support.places import Place, processes_of

# Acts as the Airflow task: submits a driver, prints its id, and is killed before it can store the id.
SUBMITTER = """
import json, os, signal, sys, time
from airflow_stream_provider.clusters import ClusterConnection, Job, open_cluster
connection, job = json.loads(sys.argv[1])
cluster = open_cluster(ClusterConnection(**connection))
job = Job(**{**job, "arguments": tuple(job["arguments"])})
print("ready", flush=True)
sys.stdin.readline()
print(cluster.submit(job), flush=True)
time.sleep(600)
"""


def submitter(place: Place, job: Job) -> subprocess.Popen[str]:
    what = json.dumps([dataclasses.asdict(place.connection), dataclasses.asdict(job)])
    process = subprocess.Popen(
        [sys.executable, "-c", SUBMITTER, what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_the_life_of_a_driver(place: Place) -> None:
    cluster, since = place.cluster, time.time()
    job = dataclasses.replace(place.job(), environment={"REGION": "eu west"})
    cluster.check(job)
    assert cluster.find(job.deployment, since) == FoundDrivers()

    submission = cluster.submit(job)

    assert not cluster.status(submission).terminal
    assert not cluster.gone(submission, job.deployment)
    facts = place.facts(job, submission)
    assert facts["total"] == 12
    assert facts["regions"] == ["eu west", "eu west"]  # of the driver and of an executor
    assert cluster.status(submission) is DriverState.RUNNING
    assert cluster.find(job.deployment, since) == FoundDrivers(alive=(submission,))
    assert cluster.find(job.deployment[:-1], since) == FoundDrivers()
    assert cluster.links(submission)["driver log"]
    (view,) = cluster.overview([submission]).values()
    assert (view.state, view.links) == (DriverState.RUNNING, cluster.links(submission))
    left = cluster.remains(submission, job.deployment).alive
    assert left
    assert all(sentence.endswith(".") for sentence in left)

    processes = processes_of(job.deployment)
    assert place.facts(job, submission)["pid"] in {process.pid for process in processes}
    place.end(submission, job.deployment)

    assert cluster.status(submission) is DriverState.KILLED
    assert cluster.find(job.deployment, since).alive == ()
    # The master reports only the JVM; the Python process ends right after it.
    wait_for("every process to be gone", lambda: not any(process.is_running() for process in processes))
    assert processes_of(job.deployment) == []
    cluster.kill(submission)
    assert cluster.gone(submission, job.deployment)
    cluster.check(job)


@pytest.mark.parametrize(("code", "state"), [("0", DriverState.FINISHED), ("3", DriverState.FAILED)])
def test_the_exit_code_decides_between_finished_and_failed(place: Place, code: str, state: DriverState) -> None:
    job = place.job(code)
    submission = place.cluster.submit(job)
    wait_for("the driver's end", lambda: place.cluster.status(submission).terminal)
    assert place.cluster.status(submission) is state
    wait_for("nothing to remain", lambda: place.cluster.gone(submission, job.deployment))


def test_an_unknown_submission_is_lost_never_a_success(place: Place) -> None:
    unknown = "driver-20200101000000-0000"
    assert place.cluster.status(unknown) is DriverState.LOST
    assert not place.cluster.find("orders-1-00000000", time.time()).alive
    place.cluster.kill(unknown)


def test_a_crash_between_submit_and_record_leaves_one_driver_that_is_found(place: Place) -> None:
    job, since = place.job(), time.time()
    task = submitter(place, job)
    assert task.stdin is not None
    assert task.stdout is not None
    task.stdin.write("go\n")
    task.stdin.flush()
    submission = task.stdout.readline().strip()
    # As thoroughly as a supervisor would.
    for child in psutil.Process(task.pid).children(recursive=True):
        child.kill()
    os.killpg(task.pid, signal.SIGKILL)
    task.wait()

    # The retried task only knows the deployment and when it was declared.
    assert place.certain(job, since) == FoundDrivers(alive=(submission,))
    assert place.cluster.status(submission) is DriverState.RUNNING


def test_a_crash_at_any_moment_of_submit_never_leads_to_two_drivers(place: Place) -> None:
    chance = random.Random(7)
    for _ in range(3):
        job, since = place.job(), time.time()
        task = submitter(place, job)
        assert task.stdin is not None
        task.stdin.write("go\n")
        task.stdin.flush()
        time.sleep(chance.uniform(0, 0.12))
        task.kill()
        task.wait()
        # The request may be in the master's hands, and no search can see it there. Airflow's retry comes later than
        # this; the driver of a request that lands later still finds its twin's heartbeat, and exits.
        time.sleep(2)

        found = place.certain(job, since)
        submission = found.alive[0] if found.alive else place.cluster.submit(job)

        assert place.certain(job, since).alive == (submission,)
        place.end(submission, job.deployment)
