"""A real YARN: ids that are reserved, queues that are full, nodes that are frozen or dead, a ResourceManager away."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import time

import pytest

from airflow_stream_provider.clusters import (
    ClusterConnection,
    DriverState,
    FoundDrivers,
    Job,
    UnmanagedView,
    Whose,
    open_cluster,
    status_of,
    yarn_api,
)
from airflow_stream_provider.clusters.connection import ADDRESS, YarnSettings
from airflow_stream_provider.clusters.yarn_request import deployment_tag, spark_conf, submission_request
from airflow_stream_provider.clusters.yarn_room import ContainerSizes
from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.hooks.submit import submit_once
from airflow_stream_provider.lifecycle.errors import ClusterError
from devstack.drivers import lives, wait_for
from devstack.yarn import Yarn
from tests.support.control_root import new_log
from tests.support.jobs import noted
from tests.support.places import Place, processes_of
from tests.support.story import declared, write
from tests.support.submitter import let_go, once


def through(place: Place, **extra: object) -> ClusterConnection:
    return dataclasses.replace(place.connection, extra={**place.connection.extra, **extra})


def applications(place: Place, job: Job) -> list[str]:
    """Return all that YARN has ever had of a deployment."""
    manager = yarn_api.find_active(YarnSettings.of(place.connection))
    return [app["id"] for app in yarn_api.applications(manager, applicationTags=deployment_tag(job.deployment))]


def new_id(place: Place) -> str:
    return yarn_api.new_application(yarn_api.find_active(YarnSettings.of(place.connection)))


def test_an_id_is_reserved_and_one_driver_is_started_of_it(on_yarn: Place) -> None:
    """The one test of YARN in `make test-integration`: what cannot run there is refused, one driver comes and goes."""
    job, since = on_yarn.job(), time.time()
    with pytest.raises(ClusterError, match=r"has no queue 'nowhere'; it has root\.default, root\.narrow, root\.closed"):
        open_cluster(through(on_yarn, queue="nowhere")).check(job)
    with pytest.raises(ClusterError, match=r"The queue root\.closed is STOPPED"):
        open_cluster(through(on_yarn, queue="closed")).check(job)
    with pytest.raises(ClusterError, match="a container of 10137 MiB"):
        on_yarn.cluster.check(on_yarn.job(spark_executor_memory="9216m"))
    with pytest.raises(ClusterError, match="has no room: 0 of its 8192 MiB are in use"):
        on_yarn.cluster.check(on_yarn.job(spark_executor_memory="3g", spark_executor_instances="3"))
    on_yarn.cluster.check(job)

    id = new_id(on_yarn)
    assert status_of(on_yarn.cluster, id) is DriverState.RESERVED
    assert on_yarn.cluster.find(job.whose, since) == FoundDrivers()
    assert on_yarn.cluster.submit(job, noted(id)) == id
    assert on_yarn.cluster.submit(job, noted(id)) == id
    assert applications(on_yarn, job) == [id]
    wait_for("the driver to start", lambda: status_of(on_yarn.cluster, id) is DriverState.RUNNING)
    processes = processes_of(job.deployment)
    on_yarn.end(id, job)
    assert status_of(on_yarn.cluster, id) is DriverState.KILLED
    assert not any(map(lives, processes))
    assert on_yarn.cluster.submit(job, noted(id)) == id
    assert status_of(on_yarn.cluster, id) is DriverState.KILLED, "what has ended is not started again"
    with pytest.raises(ClusterError, match="and not orders 1"):
        on_yarn.cluster.submit(on_yarn.job(), noted(id))


@pytest.mark.system
def test_a_submission_that_is_killed_at_any_moment_never_leads_to_two_drivers(on_yarn: Place) -> None:
    chance = random.Random(7)
    for number in range(4):
        job = on_yarn.job()
        control = f"file://{on_yarn.root / f'control-{number}'}"
        log = new_log(control)
        write(log, declared(job.deployment))
        task = once(on_yarn.connection, job, control)
        let_go(task)
        time.sleep(chance.uniform(0, 0.3))
        task.kill()
        task.wait()

        def retry(log: ControlLog = log, job: Job = job) -> bool:
            return submit_once(log, on_yarn.cluster, job, "test", first=False, verify=lambda: None)

        wait_for("the retry to be certain", retry)
        assert retry()
        recorded = log.refresh().deployments[job.deployment].submission
        assert applications(on_yarn, job) == [recorded]
        on_yarn.end(recorded, job)


@pytest.mark.system
def test_an_application_of_somebody_else_is_ended_by_its_id_and_gone_with_its_executors(on_yarn: Place) -> None:
    """As a job is that is to be adopted: without the tags of this provider."""
    job, settings, id = on_yarn.job(), YarnSettings.of(on_yarn.connection), new_id(on_yarn)
    manager = yarn_api.find_active(settings)
    sizes = ContainerSizes.from_conf(spark_conf(job, settings))
    request = {**submission_request(job, settings, id, sizes), "application-tags": {"tag": []}}
    yarn_api.submit(manager, request)
    wait_for("YARN to take it", lambda: not status_of(on_yarn.cluster, id).terminal)
    on_yarn.facts(job, id)

    def seen_now() -> UnmanagedView:
        found = on_yarn.cluster.unmanaged(id)
        assert found is not None
        return found

    seen = seen_now()
    assert (seen.state, seen.managed, seen.gone) == (DriverState.RUNNING, False, False)
    assert on_yarn.cluster.find(job.whose, 0.0) == FoundDrivers(), "it is nobody's driver"
    processes = processes_of(job.deployment)
    assert processes

    on_yarn.cluster.kill(id)

    wait_for("every node to say that it is gone", lambda: seen_now().gone)
    assert seen_now().state is DriverState.KILLED
    assert not any(map(lives, processes))
    on_yarn.cluster.kill(id)  # there is nothing to do


@pytest.mark.system
def test_a_second_driver_waits_where_drivers_may_have_no_more(on_yarn: Place) -> None:
    narrow = open_cluster(through(on_yarn, queue="narrow"))
    first, second = on_yarn.job(), on_yarn.job()
    narrow.check(first)  # one is let in, whatever its size
    running = narrow.submit(first)
    wait_for("the first driver", lambda: status_of(narrow, running) is DriverState.RUNNING)
    with pytest.raises(ClusterError, match="no room for another driver: its drivers may have"):
        narrow.check(second)
    waiting = narrow.submit(second)
    assert status_of(narrow, waiting) is DriverState.QUEUED
    assert narrow.find(second.whose, 0.0) == FoundDrivers((waiting,))
    narrow.kill(waiting)
    wait_for("it to be gone", lambda: narrow.remains(waiting, second.whose).gone)
    with pytest.raises(ClusterError, match=r"YARN has refused application_.*nowhere"):
        open_cluster(through(on_yarn, queue="nowhere")).submit(on_yarn.job())


@pytest.mark.system
def test_what_a_frozen_node_runs_is_not_gone(on_yarn: Place, yarn: Yarn) -> None:
    job = on_yarn.job()
    submission = on_yarn.cluster.submit(job)
    on_yarn.facts(job, submission)
    node = node_of(on_yarn, yarn, submission)
    os.kill(yarn.node_managers[node].pid, signal.SIGSTOP)  # not its group
    try:
        on_yarn.cluster.kill(submission)
        assert status_of(on_yarn.cluster, submission) is DriverState.KILLED, "says the ResourceManager"
        assert processes_of(job.deployment), "and it runs still"
        left = on_yarn.cluster.remains(submission, job.whose)
        assert any("is not known to run nothing" in sentence for sentence in left.alive), left
        wait_for("the ResourceManager to give the node up", lambda: node_state(yarn, node) == "LOST")
        left = on_yarn.cluster.remains(submission, job.whose)
        assert not left.gone
        assert any("is LOST, and may run parts" in sentence for sentence in left.lost), left
    finally:
        os.kill(yarn.node_managers[node].pid, signal.SIGCONT)
    wait_for("the node to be back", lambda: node_state(yarn, node) == "RUNNING")
    wait_for("it to be gone", lambda: on_yarn.cluster.remains(submission, job.whose).gone)
    assert processes_of(job.deployment) == []


@pytest.mark.system
def test_what_a_killed_node_has_left_behind_is_not_gone_when_the_node_is_back(on_yarn: Place, yarn: Yarn) -> None:
    job = on_yarn.job()
    submission = on_yarn.cluster.submit(job)
    on_yarn.facts(job, submission)
    node = node_of(on_yarn, yarn, submission)
    process = yarn.node_managers[node]
    process.popen.kill()  # its containers are in sessions of their own
    process.popen.wait()
    assert not on_yarn.cluster.remains(submission, job.whose).gone
    yarn.start_node(node)
    yarn.wait_for_nodes(2)
    on_yarn.cluster.kill(submission)
    wait_for("YARN to call it ended", lambda: status_of(on_yarn.cluster, submission).terminal)
    wait_for("the node to say nothing of it", lambda: not on_yarn.cluster.remains(submission, job.whose).alive)
    left = on_yarn.cluster.remains(submission, job.whose)
    assert any("was started anew since" in sentence for sentence in left.lost), left
    for process_left in processes_of(job.deployment):
        process_left.kill()


@pytest.mark.system
def test_without_its_resource_manager_nothing_is_known_and_after_a_new_start_no_id_of_before_is_sent(
    on_yarn: Place, yarn: Yarn
) -> None:
    job, late = on_yarn.job(), on_yarn.job()
    submission = on_yarn.cluster.submit(job)
    on_yarn.facts(job, submission)
    reserved = new_id(on_yarn)
    assert yarn.resource_manager is not None
    yarn.resource_manager.popen.kill()
    yarn.resource_manager.popen.wait()

    cluster = on_yarn.cluster
    assert status_of(cluster, submission) is DriverState.UNKNOWN
    assert "No ResourceManager of YARN answers" in cluster.remains(submission, job.whose).alive[0]
    for ask in (
        lambda: cluster.check(job),
        lambda: cluster.look([submission]),
        lambda: cluster.submit(late, noted(reserved)),
    ):
        with pytest.raises(ClusterError, match=r"No ResourceManager of YARN answers.*cannot be reached"):
            ask()
    with pytest.raises(ClusterError, match="No ResourceManager of YARN answers"):
        cluster.find(job.whose, 0.0)

    yarn.start_resource_manager()
    yarn.wait_for_nodes(2)
    assert status_of(cluster, submission) is DriverState.LOST
    assert status_of(cluster, reserved) is DriverState.LOST
    left = cluster.remains(submission, job.whose)
    assert any("was started anew, and does not know" in sentence for sentence in left.lost), left
    with pytest.raises(ClusterError, match="was reserved before the ResourceManager was started anew"):
        cluster.submit(late, noted(reserved))
    assert applications(on_yarn, late) == []
    # It tells the nodes to end what it does not know.
    wait_for("the driver to end", lambda: not processes_of(job.deployment))


@pytest.mark.system
def test_the_second_of_two_resource_managers_is_asked_when_the_first_is_dead(on_yarn: Place) -> None:
    address = on_yarn.connection.extra[ADDRESS]
    cluster = open_cluster(through(on_yarn, **{ADDRESS: f"http://127.0.0.1:1,{address}"}))
    assert cluster.find(Whose("orders-1-00000000", "0a" * 16), 0.0) == FoundDrivers()


@pytest.mark.system
def test_links_lead_to_the_driver_s_log_and_page(on_yarn: Place) -> None:
    job = on_yarn.job(spark_ui_enabled="true")
    submission = on_yarn.cluster.submit(job)
    on_yarn.facts(job, submission)
    links = on_yarn.cluster.look([submission])[submission].links
    assert set(links) == {"YARN", "driver log", "Spark UI"}
    assert f"{submission}" in links["Spark UI"]
    on_yarn.end(submission, job)


def node_of(place: Place, yarn: Yarn, submission: str) -> str:
    """Return the name of the NodeManager that runs the driver."""
    address = yarn.ask(f"apps/{submission}")["app"]["amHostHttpAddress"]
    return next(name for name in yarn.node_names if yarn.port_of(name) == address.rpartition(":")[2])


def node_state(yarn: Yarn, node: str) -> str:
    """Return the state of a NodeManager; a lost one has no web address any more."""
    every = yarn.ask("nodes?states=RUNNING,LOST,UNHEALTHY,REBOOTED").get("nodes") or {}
    port = f":{yarn.port_of(node, 'address')}"
    return next((str(each["state"]) for each in every.get("node", ()) if each["id"].endswith(port)), "")
