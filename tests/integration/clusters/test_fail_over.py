"""A real master that is started again while a worker is out of its reach, as after a fail-over."""

from __future__ import annotations

import os
import signal

import pytest

from airflow_stream_provider.clusters import DriverState
from devstack.drivers import wait_for
from devstack.stack import LocalStack
from tests.support.places import Place, processes_of


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
        assert standalone.cluster.status(submission) is DriverState.FAILED
        assert processes_of(job.deployment), "it does run there still"
    finally:
        os.kill(worker.pid, signal.SIGCONT)
    wait_for("the worker to be told to kill it", lambda: not processes_of(job.deployment), 180)
    # No word of its end reaches the master: its driver is unknown there.
    assert not standalone.cluster.gone(submission, job.whose)
