"""Real masters: one that is killed while another stands by, and one that is started again out of reach of a worker.

The first is all that `make test-integration` has of two masters; their whole stories are in
`tests/system/test_two_masters.py` and `tests/stories`.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import ClusterConnection, DriverState, FoundDrivers, open_cluster, status_of
from devstack.drivers import wait_for
from devstack.stack import LocalStack
from tests.support.places import Place, processes_of


def test_the_driver_of_a_master_that_was_killed_is_known_to_the_next_one(tmp_path: Path) -> None:
    with LocalStack(tmp_path / "stack", kafka=False, masters=2, worker_cores=4, worker_memory="3g") as stack:
        spark = stack.spark
        connection = ClusterConnection(spark.connection["host"], extra=spark.connection["extra"])
        place = Place(open_cluster(connection), connection, tmp_path)
        job, since = place.job(), time.time()
        submission = place.cluster.submit(job)
        place.facts(job, submission)
        leader = spark.leader
        assert leader is not None
        stack.processes.named(leader.name).signal(signal.SIGKILL)

        while spark.leader in (None, leader):
            assert not place.cluster.remains(submission, job.whose).gone
            assert not status_of(place.cluster, submission).terminal
            time.sleep(0.5)
        wait_for("its worker", lambda: any(w["state"] == "ALIVE" for w in spark.status().get("workers", ())))

        assert status_of(place.cluster, submission) is DriverState.RUNNING
        assert place.certain(job, since) == FoundDrivers(alive=(submission,))
        place.end(submission, job)
        assert status_of(place.cluster, submission) is DriverState.KILLED


@pytest.mark.system
def test_a_driver_that_no_worker_claims_is_lost_and_not_gone(standalone: Place, stack: LocalStack) -> None:
    job = standalone.job()
    submission = standalone.cluster.submit(job)
    standalone.facts(job, submission)
    (worker,) = stack.spark.workers
    os.kill(worker.pid, signal.SIGSTOP)  # not its group: the driver runs on
    try:
        stack.processes.restart("spark-master")
        # The master gives the worker up after spark.worker.timeout.
        wait_for("the master to recover", lambda: stack.spark.status().get("status") == "ALIVE", 180)
        (driver,) = stack.spark.status()["completeddrivers"]
        assert (driver["id"], driver["state"], driver["worker"]) == (submission, "ERROR", "None")
        (lost,) = stack.spark.status()["workers"]
        assert (lost["state"], lost["coresused"]) == ("DEAD", 0)
        left = standalone.cluster.remains(submission, job.whose)
        assert not left.gone
        assert f"Driver {submission} is ERROR (worker None): it may run there still." in left.lost
        assert f"Worker {lost['id']} is DEAD, and may run executors." in left.lost
        assert status_of(standalone.cluster, submission) is DriverState.FAILED
        assert processes_of(job.deployment), "it does run there still"
    finally:
        os.kill(worker.pid, signal.SIGCONT)
    wait_for("the worker to be told to kill it", lambda: not processes_of(job.deployment), 180)
    # No word of its end reaches the master: its driver is unknown there.
    assert not standalone.cluster.remains(submission, job.whose).gone
