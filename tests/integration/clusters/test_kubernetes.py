"""A Kubernetes that is full, partly dead, or told to forget: the stand-in, whose semantics are our reading of the real.

Drivers are shell scripts here; those of Spark are in `test_contract.py` and in `test_kubernetes_stream.py`.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator

import pytest

from airflow_stream_provider.clusters import DriverState, FoundDrivers, status_of
from airflow_stream_provider.clusters.cluster import SubmitUnclear
from airflow_stream_provider.clusters.driver_pod import FINALIZER
from airflow_stream_provider.lifecycle.errors import ClusterError
from devstack.drivers import wait_for
from devstack.kubernetes import NAMESPACE, NODE
from tests.support.pods import Pods, pods_in, template
from tests.support.submitter import let_go, submitter

MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    with pods_in(tmp_path_factory.mktemp("kubernetes")) as found:
        yield found


@pytest.fixture
def pods(started: Pods) -> Iterator[Pods]:
    yield started
    nodes = {each["metadata"]["name"] for each in started.server.ask("GET", "nodes")["items"]}
    started.server.ask("POST", f"/stand-in/{'back' if NODE in nodes else 'node'}/{NODE}")
    started.server.ask("PATCH", f"nodes/{NODE}", {"spec": {"taints": None}}, MERGE)
    started.clear()


def path_of(submission: str) -> str:
    return f"namespaces/{NAMESPACE}/pods/{submission.partition('/')[2]}"


@pytest.mark.system  # each try is a process that imports the client
def test_a_submission_that_is_killed_at_any_moment_never_leads_to_two_drivers(pods: Pods) -> None:
    chance = random.Random(7)
    for attempt in range(3):
        job = pods.job()
        task = submitter(pods.connection(), job)
        assert task.stdout is not None
        let_go(task)
        if attempt:
            # Importing the client takes most of it.
            time.sleep(chance.uniform(0, 2.0))
        else:
            task.stdout.readline()
        os.killpg(task.pid, signal.SIGKILL)
        task.wait()
        # The retried task. Also without looking first it would find the name taken.
        submission = pods.cluster().submit(job)
        assert pods.cluster().find(job.whose, 0) == FoundDrivers(alive=(submission,))
        assert pods.cluster().submit(job) == submission
    assert len(pods.server.pods()) == 3


def test_a_driver_on_a_node_that_does_not_answer_is_lost_until_it_answers(pods: Pods) -> None:
    job, cluster = pods.job(), pods.cluster()
    submission = pods.running(job)
    pods.server.ask("POST", f"/stand-in/silent/{NODE}")
    assert status_of(cluster, submission) is DriverState.LOST
    assert cluster.look([submission])[submission].state is DriverState.LOST
    left = cluster.remains(submission, job.whose)
    assert left.alive == ()
    assert f"Its node {NODE} does not answer" in left.lost[0]
    # What the eviction of its pods adds after five minutes changes nothing: nobody there hears of it.
    cluster.kill(submission)
    assert cluster.remains(submission, job.whose) == left
    pods.server.ask("POST", f"/stand-in/back/{NODE}")
    wait_for("the kubelet to do what it was told", lambda: cluster.remains(submission, job.whose).gone)
    assert status_of(cluster, submission) is DriverState.KILLED


def test_a_node_that_comes_back_brings_its_driver_back(pods: Pods) -> None:
    job, cluster = pods.job(), pods.cluster()
    submission = pods.running(job)
    pods.server.ask("POST", f"/stand-in/silent/{NODE}")
    pods.server.ask("POST", f"/stand-in/back/{NODE}")
    assert status_of(cluster, submission) is DriverState.RUNNING
    assert cluster.remains(submission, job.whose).lost == ()


@pytest.mark.parametrize("how", ["removed", "tainted"])
def test_a_node_that_is_tainted_takes_its_driver_with_it_and_one_that_is_removed_does_not(
    pods: Pods, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    job, cluster = pods.job(), pods.cluster()
    submission = pods.running(job)
    pods.executor(submission)
    pods.server.ask("POST", f"/stand-in/silent/{NODE}")
    cluster.kill(submission)
    assert not cluster.remains(submission, job.whose).gone
    if how == "removed":
        pods.server.ask("DELETE", f"nodes/{NODE}")
    else:
        taints = [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]
        pods.server.ask("PATCH", f"nodes/{NODE}", {"spec": {"taints": taints}}, MERGE)
    left = cluster.remains(submission, job.whose)
    if how == "removed":
        # Its machine runs on, cut off. Of the executor there is no pod any more; the driver counts as gone by time.
        assert [f"Its node {NODE} is no longer in the cluster, so it may run there" in each for each in left.lost] == [
            True
        ]
        assert not left.alive
    else:
        assert left.gone
        assert f"Its node {NODE} is tainted out-of-service. It counts as gone." in caplog.text
    assert status_of(cluster, submission) is DriverState.LOST, "never a success"
    pod = pods.pod(submission)
    assert pod["status"]["phase"] == "Failed", "the pod collector's word"
    assert pod["status"]["containerStatuses"][0]["state"]["running"]
    assert pod["metadata"]["finalizers"] == [FINALIZER]
    cluster.forget([job.whose])
    assert status_of(cluster, submission) is DriverState.LOST
    assert pods.server.pods() == []


def test_without_the_right_to_see_nodes_a_lost_one_needs_a_person(pods: Pods) -> None:
    job, cluster = pods.job(), pods.cluster()
    submission = pods.running(job)
    pods.server.ask("POST", f"/stand-in/silent/{NODE}")
    pods.server.ask("POST", "/stand-in/deny/get-nodes")
    left = cluster.remains(submission, job.whose)
    assert left.lost == ()
    assert 'cannot get resource "nodes"' in left.alive[0]
    assert status_of(cluster, submission) is DriverState.RUNNING


def test_a_driver_that_was_deleted_by_force_is_not_gone_before_its_kubelet_says_so(pods: Pods) -> None:
    job, cluster = pods.job("deaf"), pods.cluster()
    submission = pods.running(job)
    pods.server.ask("POST", f"/stand-in/silent/{NODE}")
    pods.server.ask("DELETE", path_of(submission), {"gracePeriodSeconds": 0})
    assert pods.pod(submission)["metadata"]["deletionGracePeriodSeconds"] == 0
    assert not cluster.remains(submission, job.whose).gone
    assert cluster.find(job.whose, 0) == FoundDrivers(alive=(submission,))
    pods.server.ask("POST", f"/stand-in/back/{NODE}")
    wait_for("the kubelet's word", lambda: cluster.remains(submission, job.whose).gone)
    assert status_of(cluster, submission) is DriverState.KILLED


def test_a_driver_whose_finalizer_somebody_took_off_is_lost_and_not_gone(pods: Pods) -> None:
    job, cluster = pods.job(), pods.cluster()
    submission = pods.running(job)
    pods.server.ask("PATCH", path_of(submission), {"metadata": {"finalizers": None}}, MERGE)
    pods.server.ask("DELETE", path_of(submission), {"gracePeriodSeconds": 0})
    assert status_of(cluster, submission) is DriverState.LOST
    left = cluster.remains(submission, job.whose)
    assert left.alive == ()
    assert "somebody has taken its finalizer off" in left.lost[0]


def test_executors_of_a_dead_driver_remain_until_they_are_killed(pods: Pods) -> None:
    """The finalizer keeps the driver's pod, and so Kubernetes from collecting what it owns."""
    job, cluster = pods.job("deaf"), pods.cluster()
    submission = pods.running(job)
    executor = pods.executor(submission)
    pods.server.ask("DELETE", path_of(submission), {"gracePeriodSeconds": 1})
    wait_for("the driver's end", lambda: status_of(cluster, submission).terminal)
    assert cluster.remains(submission, job.whose).alive == (f"Pod {executor} is Running on node {NODE}.",)
    cluster.kill(submission)
    wait_for("the executor's end", lambda: cluster.remains(submission, job.whose).gone)


def test_a_full_quota_is_told_before_anything_is_declared(pods: Pods) -> None:
    hard = {"requests.cpu": "2", "requests.memory": "4Gi", "pods": "10"}
    quota = {"metadata": {"name": "team"}, "spec": {"hard": hard}}
    pods.server.ask("POST", f"namespaces/{NAMESPACE}/resourcequotas", quota)
    cluster, small = pods.cluster(), {"spark.executor.instances": "1"}
    cluster.check(pods.job(conf=small))
    with pytest.raises(ClusterError) as refused:
        cluster.check(pods.job())
    assert "2 of requests.cpu are free in the quota team, and the driver and its executors ask for 3" in str(
        refused.value
    )
    pods.running(pods.job(conf=small))
    pods.running(pods.job(conf=small))
    for act in (cluster.check, cluster.submit):
        with pytest.raises(ClusterError, match=r"exceeded quota: team, .*used: requests.cpu=2"):
            act(pods.job(conf=small))
    assert len(pods.server.pods()) == 2


def test_a_quota_that_a_driver_has_filled_itself_does_not_hide_it(pods: Pods) -> None:
    """The API server looks at quotas before it looks whether the name is taken."""
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"requests.cpu": "1"}}}
    pods.server.ask("POST", f"namespaces/{NAMESPACE}/resourcequotas", quota)
    job, cluster = pods.job(), pods.cluster()
    pods.server.ask("POST", "/stand-in/lose/1")
    with pytest.raises(SubmitUnclear):
        cluster.submit(job)
    assert cluster.submit(job) == cluster.submit(job)
    cluster.check(job)
    assert len(pods.server.pods()) == 1


def test_a_driver_whose_image_does_not_exist_waits_and_says_so(pods: Pods) -> None:
    job, cluster = pods.job(), pods.cluster(image="nowhere/none:1")
    submission = cluster.submit(job)
    wait_for("the kubelet to try", lambda: pods.pod(submission)["status"].get("containerStatuses"))
    assert status_of(cluster, submission) is DriverState.QUEUED
    # The task that waits for the standby shows this when its time is over.
    with pytest.raises(ClusterError, match=r'waits: ImagePullBackOff: Back-off pulling image "nowhere/none:1"'):
        cluster.check(job)
    cluster.kill(submission)
    wait_for("its end", lambda: cluster.remains(submission, job.whose).gone)


def test_a_driver_that_no_node_takes_waits_says_so_and_is_gone_when_it_is_killed(pods: Pods) -> None:
    where = template()
    where["spec"]["nodeSelector"] = {"disk": "fast"}
    job, cluster = pods.job(), pods.cluster(template=where)
    submission = cluster.submit(job)
    wait_for("the scheduler to try", lambda: pods.pod(submission)["status"]["conditions"])
    assert status_of(cluster, submission) is DriverState.QUEUED
    with pytest.raises(ClusterError, match=r"waits: 0 nodes are available for \{'disk': 'fast'\}"):
        cluster.check(job)
    assert not cluster.remains(submission, job.whose).gone
    cluster.kill(submission)
    assert cluster.remains(submission, job.whose).gone
    assert status_of(cluster, submission) is DriverState.KILLED


def test_a_secret_is_given_by_reference(pods: Pods) -> None:
    named = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "kafka", "key": "token"}}}
    job, cluster = pods.job(), pods.cluster(template=template(env=[named]))
    submission = cluster.submit(job)
    wait_for("the kubelet to try", lambda: pods.pod(submission)["status"].get("containerStatuses"))
    with pytest.raises(ClusterError, match=r'CreateContainerConfigError: secret "kafka" not found'):
        cluster.check(job)
    secret = {"metadata": {"name": "kafka"}, "stringData": {"token": "hunter2"}}
    pods.server.ask("POST", f"namespaces/{NAMESPACE}/secrets", secret)
    wait_for("the driver to run", lambda: status_of(cluster, submission) is DriverState.RUNNING)
    assert "hunter2" not in str(pods.pod(submission))
