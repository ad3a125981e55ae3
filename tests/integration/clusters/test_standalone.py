"""A standalone cluster that is full, slow, partly dead or missing."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import time
import urllib.request
from pathlib import Path

import pytest

from airflow_stream_provider.clusters import (
    ClusterConnection,
    DriverState,
    FoundDrivers,
    Job,
    SubmitUnclear,
    Whose,
    master_api,
    open_cluster,
    status_of,
)
from airflow_stream_provider.clusters.master_api import create_submission_request
from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP, runtime_zip
from airflow_stream_provider.lifecycle.errors import ClusterError
from devstack.drivers import wait_for
from devstack.stack import LocalStack
from devstack.unmanaged import create
from tests.support import places
from tests.support.lost_answers import answers_lost
from tests.support.places import Place


def through(place: Place, **extra: object) -> ClusterConnection:
    return dataclasses.replace(place.connection, extra={**place.connection.extra, **extra})


def test_a_queued_driver_makes_a_search_uncertain(standalone: Place) -> None:
    since = time.time()
    queued = standalone.job(spark_driver_memory="64g")
    submission = standalone.cluster.submit(queued)

    assert status_of(standalone.cluster, submission) is DriverState.QUEUED
    assert standalone.cluster.find(queued.whose, since) == FoundDrivers(certain=False)
    assert standalone.cluster.find(Whose("another-1-00000000"), since) == FoundDrivers(certain=False)
    assert standalone.cluster.find(queued.whose, since, queued.conf) == FoundDrivers(certain=False)
    # One of another size is not the queued one.
    assert standalone.cluster.find(Whose("another-1-00000000"), since, standalone.job().conf) == FoundDrivers()
    # A driver that was submitted long before the deployment was declared cannot belong to it.
    assert standalone.cluster.find(Whose("another-1-00000000"), since + 3600) == FoundDrivers()

    standalone.end(submission, queued)
    assert status_of(standalone.cluster, submission) is DriverState.KILLED
    assert standalone.cluster.find(queued.whose, since) == FoundDrivers()


def test_a_full_cluster_is_reported_with_free_requested_and_used_resources(standalone: Place) -> None:
    greedy = standalone.job()
    request = create_submission_request(greedy, standalone.connection.masters.url)
    del request["sparkProperties"]["spark.cores.max"]
    master = master_api.find_master(standalone.connection.masters)
    hog = create(master, request)
    standalone.facts(greedy, hog)

    job = standalone.job()
    with pytest.raises(ClusterError) as refused:
        standalone.cluster.check(job)

    assert ": 0 cores and" in refused.value.message
    assert "the job asks for 1 core and 512 MiB for the driver, 2 cores with 512 MiB each" in refused.value.message
    assert f"{greedy.app_name} (app-" in refused.value.message
    assert "3 cores without spark.cores.max" in refused.value.message
    assert refused.value.fields["free_cores"] == 0
    standalone.end(hog, greedy)
    standalone.cluster.check(job)


def test_a_submission_with_a_lost_answer_is_found_and_not_repeated(standalone: Place, stack: LocalStack) -> None:
    job, since = standalone.job(), time.time()
    with answers_lost(stack.spark.masters[0].rest_port) as port:
        submission = open_cluster(through(standalone, rest_url=f"http://127.0.0.1:{port}")).submit(job)
    assert standalone.certain(job, since) == FoundDrivers(alive=(submission,))
    assert len(stack.spark.status()["activedrivers"]) == 1


def test_a_lost_answer_for_a_queued_driver_stays_unclear(
    standalone: Place, stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_stream_provider.clusters.standalone.UNCLEAR_SECONDS", 2.0)
    job = standalone.job(spark_driver_memory="64g")
    with (
        answers_lost(stack.spark.masters[0].rest_port) as port,
        pytest.raises(SubmitUnclear, match="may or may not have accepted"),
    ):
        open_cluster(through(standalone, rest_url=f"http://127.0.0.1:{port}")).submit(job)
    assert len(stack.spark.status()["activedrivers"]) == 1


def test_drivers_of_a_worker_that_does_not_answer_are_not_confirmed_gone(standalone: Place, stack: LocalStack) -> None:
    job, since = standalone.job(), time.time()
    submission = standalone.cluster.submit(job)
    standalone.facts(job, submission)
    # The default spark.cores.max kept it from taking all four cores.
    assert [app["cores"] for app in stack.spark.status()["activeapps"]] == [2]
    (worker,) = stack.spark.workers
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        assert standalone.cluster.find(job.whose, since) == FoundDrivers(certain=False)
        left = standalone.cluster.remains(submission, job.whose)
        assert any("did not answer within" in sentence for sentence in left.alive)
    finally:
        os.kill(worker.pid, signal.SIGCONT)
    wait_for("the worker to answer", lambda: standalone.cluster.find(job.whose, since).alive == (submission,))


@pytest.mark.parametrize("how", ["appName", "conf", "builder"])
def test_an_application_that_the_script_names_itself_still_blocks_gone(standalone: Place, how: str) -> None:
    """Its executors can live on when the driver is dead; what is not found would count as gone."""
    job, found = own_context(standalone, how, named=True)
    submission = standalone.cluster.submit(job)
    application = str(wait_for("the application", lambda: found.is_file() and found.read_text()))
    left = standalone.cluster.remains(submission, job.whose).alive
    assert any(sentence.startswith(f"Application {application}") for sentence in left), left
    assert any(sentence.startswith("Executor ") for sentence in left), left
    standalone.end(submission, job)


def test_an_application_of_another_name_is_known_by_its_id(standalone: Place) -> None:
    """Its heartbeat has the id."""
    job, found = own_context(standalone, "appName", named=False)
    submission = standalone.cluster.submit(job)
    application = str(wait_for("the application", lambda: found.is_file() and found.read_text()))
    by_name = standalone.cluster.remains(submission, job.whose).alive
    by_id = standalone.cluster.remains(submission, job.whose, (application,)).alive
    assert not any(application in sentence for sentence in by_name)
    assert any(sentence.startswith(f"Application {application}") for sentence in by_id), by_id
    assert any(sentence.startswith("Executor ") for sentence in by_id), by_id
    standalone.end(submission, job)


def own_context(place: Place, how: str, *, named: bool) -> tuple[Job, Path]:
    """Return a job whose script makes its SparkContext in a way of its own, and the file for the application's id."""
    job = place.job()
    folder = Path(job.release_dir)
    shutil.copy(Path(places.__file__).with_name("app_own_context.py"), folder / LAUNCHER)
    (folder / RUNTIME_ZIP).write_bytes(runtime_zip())
    file = place.facts_file(job.deployment)
    own = (*job.arguments[: job.arguments.index("--") + 1], str(file), how, job.app_name if named else "")
    return dataclasses.replace(job, arguments=own), file


def test_the_second_master_is_asked_if_the_first_is_dead(standalone: Place, stack: LocalStack) -> None:
    (master,) = stack.spark.masters
    extra = {
        "rest_url": f"http://127.0.0.1:1,{master.rest_url}",
        "master_ui": f"http://127.0.0.1:1,{master.ui_url}",
    }
    cluster = open_cluster(ClusterConnection(f"spark://127.0.0.1:1,{master.address}", None, extra))
    job, since = standalone.job(), time.time()
    submission = cluster.submit(job)
    assert standalone.certain(job, since) == FoundDrivers(alive=(submission,))
    assert cluster.find(job.whose, since) == FoundDrivers(alive=(submission,))
    cluster.kill(submission)


def test_wrong_addresses_are_told_apart(standalone: Place, stack: LocalStack) -> None:
    job = standalone.job()
    with pytest.raises(ClusterError, match="REST submission API is not") as error:
        open_cluster(through(standalone, rest_url="http://127.0.0.1:1")).submit(job)
    assert "spark.master.rest.enabled" in error.value.next_step
    with pytest.raises(ClusterError, match=r"answered (HTTP|with something else)"):
        open_cluster(through(standalone, master_ui=stack.spark.masters[0].rest_url)).check(job)
    assert stack.spark.status()["activedrivers"] == []


def test_the_driver_s_log_link_opens(standalone: Place) -> None:
    job, since = standalone.job("0"), time.time()
    submission = standalone.cluster.submit(job)
    wait_for("the driver's end", lambda: status_of(standalone.cluster, submission) is DriverState.FINISHED)
    links = standalone.cluster.look([submission])[submission].links
    with urllib.request.urlopen(links["driver log"], timeout=30) as page:
        assert job.deployment in page.read().decode()
    assert standalone.certain(job, since) == FoundDrivers(ended=(submission,))
