"""What the cluster makes of answers of an API server: the stand-in's, over HTTP, with shell scripts for drivers."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from airflow_stream_provider.clusters import (
    ClusterConnection,
    DriverState,
    DriverView,
    FoundDrivers,
    SubmitUnclear,
    status_of,
)
from airflow_stream_provider.clusters import kubernetes as module
from airflow_stream_provider.clusters.bounded_http import Unanswered
from airflow_stream_provider.clusters.driver_pod import FINALIZER
from airflow_stream_provider.clusters.kubernetes import KubernetesCluster
from airflow_stream_provider.clusters.kubernetes_api import KubernetesApi
from airflow_stream_provider.clusters.kubernetes_connection import KubernetesSettings, kubernetes_settings
from airflow_stream_provider.lifecycle.errors import ClusterError, SpecError
from devstack.drivers import wait_for
from devstack.kubernetes import NAMESPACE, TOKEN
from devstack.ports import HOST, free_port
from tests.support.pods import Pods

if TYPE_CHECKING:
    from kubernetes.client import CoreV1Api


def test_a_driver_s_life(pods: Pods) -> None:
    cluster, job = pods.cluster(ui_url="https://ui/{namespace}/{pod}"), pods.job()
    cluster.check(job)
    assert pods.server.pods() == []
    assert cluster.find(job.whose, 0) == FoundDrivers()
    submission = pods.running(job)
    assert cluster.find(job.whose, 0) == FoundDrivers(alive=(submission,))
    assert cluster.find(dataclasses.replace(job.whose, log="ff" * 16), 0) == FoundDrivers()
    assert status_of(cluster, submission) is DriverState.RUNNING
    name = submission.partition("/")[2]
    links = {
        "driver log": f"{pods.server.address}/api/v1/namespaces/{NAMESPACE}/pods/{name}/log",
        "Spark UI": f"https://ui/{NAMESPACE}/{name}",
    }
    assert cluster.look([submission]) == {submission: DriverView(DriverState.RUNNING, links)}
    assert cluster.remains(submission, job.whose).alive == (f"Pod {name} is Running on node node-1.",)

    executor = pods.executor(submission)
    cluster.kill(submission)
    wait_for("nothing to remain", lambda: cluster.remains(submission, job.whose).gone)

    assert status_of(cluster, submission) is DriverState.KILLED
    assert cluster.find(job.whose, 0) == FoundDrivers(ended=(submission,))
    assert [pod["metadata"]["name"] for pod in pods.server.pods()] == [name], f"{executor} went with the kill"
    assert pods.pod(submission)["metadata"]["finalizers"] == [FINALIZER]
    cluster.kill(submission)
    cluster.check(job)


@pytest.mark.parametrize(("code", "state"), [("0", DriverState.FINISHED), ("3", DriverState.FAILED)])
def test_the_exit_code_decides_between_finished_and_failed(pods: Pods, code: str, state: DriverState) -> None:
    job = pods.job(code)
    submission = pods.cluster().submit(job)
    wait_for("the end", lambda: status_of(pods.cluster(), submission).terminal)
    assert status_of(pods.cluster(), submission) is state
    assert pods.cluster().log_tail(submission) == f"  | password=***\n  | it ends with {code}"
    assert pods.cluster().remains(submission, job.whose).gone


def test_a_log_that_may_not_be_read_or_is_not_there_is_not_known(pods: Pods) -> None:
    submission = pods.running(pods.job("deaf"))
    wait_for("its log", lambda: pods.cluster().log_tail(submission) == "  | deaf")
    for unknown in ("nobody", f"{NAMESPACE}/nobody", "../etc/passwd"):
        assert pods.cluster().log_tail(unknown) == ""
    pods.server.ask("POST", "/stand-in/deny/get-pods%2Flog")
    assert pods.cluster().log_tail(submission) == ""


def test_a_driver_that_does_not_hear_sigterm_is_killed_after_the_grace(
    pods: Pods, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KILL_SECONDS", 1.0)
    job = pods.job("deaf")
    submission = pods.running(job)
    wait_for("the trap", lambda: "deaf" in pods.server.log(submission.partition("/")[2]))
    pods.cluster().kill(submission)
    wait_for("its end", lambda: pods.cluster().remains(submission, job.whose).gone)
    assert status_of(pods.cluster(), submission) is DriverState.KILLED


def test_a_second_submission_is_the_first_one(pods: Pods) -> None:
    job = pods.job()
    assert pods.cluster().submit(job) == pods.cluster().submit(job)
    assert len(pods.server.pods()) == 1


def test_a_pod_of_the_same_name_that_is_not_ours_is_an_error_with_a_next_step(pods: Pods) -> None:
    job = pods.job()
    submission = pods.cluster().submit(job)
    path = f"namespaces/{NAMESPACE}/pods/{submission.partition('/')[2]}"
    other = {"metadata": {"annotations": {"airflow-stream-provider/log": "ff" * 16}}}
    pods.server.ask("PATCH", path, other, "application/merge-patch+json")
    with pytest.raises(ClusterError, match=r"is not of deployment .* Its annotations say whose it is"):
        pods.cluster().submit(job)


def test_a_submission_whose_answer_is_lost_is_found_and_repeated_under_the_same_name(pods: Pods) -> None:
    pods.server.ask("POST", "/stand-in/lose/1")
    job = pods.job()
    with pytest.raises(SubmitUnclear, match="did not answer"):
        pods.cluster().submit(job)
    (found,) = pods.cluster().find(job.whose, 0).alive
    assert pods.cluster().submit(job) == found
    assert [f"{NAMESPACE}/{pod['metadata']['name']}" for pod in pods.server.pods()] == [found]


def test_a_connection_that_ends_in_mid_answer_leaves_it_unclear() -> None:
    """The client has one error for all of TLS: it may come before a pod's creation is sent, and after."""
    from kubernetes.client import ApiException

    def create(*args: object, **options: object) -> None:
        raise ApiException(status=0, reason="SSLError\nEOF occurred in violation of protocol")

    where = SimpleNamespace(configuration=SimpleNamespace(host="https://api"))
    api = KubernetesApi(cast("KubernetesSettings", None))
    api._client = cast("CoreV1Api", SimpleNamespace(create_namespaced_pod=create, api_client=where))
    with pytest.raises(Unanswered, match="https://api cannot be asked over TLS") as unclear:
        api.create_pod({"metadata": {"namespace": NAMESPACE}})
    assert unclear.value.sent


def test_an_api_server_that_cannot_be_reached() -> None:
    settings = kubernetes_settings(
        ClusterConnection(
            f"k8s://http://{HOST}:{free_port()}",
            None,
            {"namespace": NAMESPACE, "image": "i", "service_account": "s"},
            password=TOKEN,
        )
    )
    cluster = KubernetesCluster(settings)
    pods = Pods(None)  # type: ignore[arg-type]  # for its jobs
    job = pods.job()
    for act in (cluster.check, cluster.submit):
        with pytest.raises(ClusterError, match="cannot be reached") as refused:
            act(job)
        assert not isinstance(refused.value, SubmitUnclear)
        assert TOKEN not in str(refused.value)
    assert status_of(cluster, "streams/x-driver") is DriverState.UNKNOWN
    assert not cluster.remains("streams/x-driver", job.whose).gone
    assert "cannot be reached" in cluster.remains("streams/x-driver", job.whose).alive[0]
    with pytest.raises(ClusterError, match="cannot be reached"):
        cluster.look(["streams/x-driver"])


def test_credentials_that_are_refused(pods: Pods) -> None:
    settings = dataclasses.replace(kubernetes_settings(pods.connection()), token="old")
    cluster = KubernetesCluster(settings)
    with pytest.raises(ClusterError, match=r"does not accept the credentials\. Renew the token"):
        cluster.check(pods.job())
    assert status_of(cluster, "streams/x-driver") is DriverState.UNKNOWN


@pytest.mark.parametrize(
    ("right", "named"),
    [
        ("create-pods", 'cannot create resource "pods"'),
        ("list-resourcequotas", 'cannot list resource "resourcequotas"'),
    ],
)
def test_a_right_that_is_missing_is_named_by_the_check(pods: Pods, right: str, named: str) -> None:
    pods.server.ask("POST", f"/stand-in/deny/{right}")
    with pytest.raises(ClusterError) as refused:
        pods.cluster().check(pods.job())
    assert named in refused.value.message
    assert refused.value.next_step == "Give Airflow's account the Role of docs/clusters.md."


def test_without_the_right_to_delete_a_kill_says_so(pods: Pods) -> None:
    submission = pods.running(pods.job())
    pods.server.ask("POST", "/stand-in/deny/delete-pods")
    with pytest.raises(ClusterError, match='cannot delete resource "pods"'):
        pods.cluster().kill(submission)
    assert status_of(pods.cluster(), submission) is DriverState.RUNNING


def test_what_is_no_submission_of_ours_is_lost_and_harms_nothing(pods: Pods) -> None:
    job = pods.job()
    submission = pods.running(job)
    cluster = pods.cluster()
    for unknown in ("driver-20200101000000-0000", f"{NAMESPACE}/..", "../..", "a/b/c?x=1", "", "-driver"):
        assert status_of(cluster, unknown) is DriverState.LOST
        assert cluster.look([unknown])[unknown].state is DriverState.LOST
        cluster.kill(unknown)
        assert cluster.remains(unknown, pods.job().whose).alive == ()
        assert not cluster.remains(unknown, pods.job().whose).gone
    assert status_of(cluster, submission) is DriverState.RUNNING


def test_what_a_heartbeat_calls_its_submission_is_not_killed_unless_it_is_a_driver(pods: Pods) -> None:
    submission = pods.running(pods.job())
    executor = pods.executor(submission)
    pods.cluster().kill(f"{NAMESPACE}/{executor}")
    assert "deletionTimestamp" not in pods.pod(f"/{executor}")["metadata"]
    assert status_of(pods.cluster(), submission) is DriverState.RUNNING


def test_whose_a_pod_is_its_arguments_say_also_in_a_namespace_of_before(pods: Pods) -> None:
    job, theirs = pods.job(), pods.job(deployment="payments-1-0a0b0c0d", log="0b" * 16)
    own, submission = pods.running(job), pods.running(theirs)
    cluster = pods.cluster(namespace="of-today")
    assert [cluster.look([submission], each.whose)[submission].ours for each in (job, theirs)] == [False, True]
    assert [cluster.look([own], each.whose)[own].ours for each in (job, theirs)] == [True, False]
    assert cluster.look([own], dataclasses.replace(job.whose, log=""))[own].ours is True
    # There is no pod of this name; executors may be left, which are found by its label.
    gone = own.replace(NAMESPACE, "of-yesterday")
    assert [cluster.look([gone], each.whose)[gone].ours for each in (job, theirs)] == [True, False]
    for unknown in ("driver-20200101000000-0000", f"{NAMESPACE}/..", "a/b/c?x=1", "", "-driver"):
        assert cluster.look([unknown], job.whose)[unknown].ours is None


def test_no_room_is_told_from_other_refusals(pods: Pods) -> None:
    """An upgrade that ends the old driver first, or makes room, goes on then; see `operators/check.py`."""
    for hard in ({"limits.memory": "1Mi"}, {"limits.memory": "2000Mi"}):
        quota = {"metadata": {"name": "team"}, "spec": {"hard": hard}}
        pods.server.ask("POST", f"namespaces/{NAMESPACE}/resourcequotas", quota)
        with pytest.raises(ClusterError) as refused:
            pods.cluster().check(pods.job())
        assert any(name.startswith("free_") for name in refused.value.fields), refused.value
        pods.server.ask("DELETE", f"namespaces/{NAMESPACE}/resourcequotas/team")


def test_a_connection_of_type_kubernetes_leads_there_and_changes_nothing_for_others(pods: Pods) -> None:
    from kubernetes.client import Configuration

    before = Configuration.get_default_copy().host
    extra = {**pods.server.extra, "kubernetes_conn_id": "k8s"}
    found = ClusterConnection("k8s://", None, extra, kubernetes={"kube_config": pods.kube_config()})
    cluster = KubernetesCluster(kubernetes_settings(found))
    cluster.check(pods.job())
    assert Configuration.get_default_copy().host == before, "another thread may open another cluster"
    broken = dataclasses.replace(found, kubernetes={"kube_config_path": "/nowhere"})
    with pytest.raises(SpecError, match="Kubernetes connection cannot be used"):
        KubernetesCluster(kubernetes_settings(broken)).check(pods.job())
    outside = dataclasses.replace(found, kubernetes={"in_cluster": True})
    with pytest.raises(SpecError, match="Kubernetes connection cannot be used"):
        KubernetesCluster(kubernetes_settings(outside)).check(pods.job())
