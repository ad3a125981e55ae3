"""Faults of the stand-in for Kubernetes: pods are shell scripts here."""

from __future__ import annotations

import http.client
import json
import urllib.request
from collections.abc import Iterator

import pytest

from airflow_stream_provider.clusters import DriverState
from devstack.drivers import wait_for
from devstack.kubernetes import NAMESPACE, NODE
from tests.support.pods import Pods, pods_in

OTHER = "node-2"


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    with pods_in(tmp_path_factory.mktemp("kubernetes")) as found:
        found.server.ask("POST", f"/stand-in/node/{OTHER}")
        yield found


def test_pods_are_spread_and_a_node_dies_with_its_own(pods: Pods) -> None:
    jobs = [pods.job(), pods.job()]
    on_node = {pods.server.node_of(pods.running(job)): job for job in jobs}
    assert set(on_node) == {NODE, OTHER}
    (dead, survivor), cluster = (on_node[NODE], on_node[OTHER]), pods.cluster()
    (submission,), (other,) = (cluster.find(job.whose, 0).alive for job in (dead, survivor))

    pods.server.ask("POST", f"/stand-in/crash/{NODE}")

    says = {each: pods.pod(each)["status"]["containerStatuses"][0]["state"] for each in (submission, other)}
    assert all("running" in state for state in says.values()), "nobody has said that one has ended"
    assert cluster.status(submission) is DriverState.LOST
    assert cluster.status(other) is DriverState.RUNNING
    assert not cluster.remains(submission, dead.whose).gone
    pods.server.ask("POST", f"/stand-in/back/{NODE}")
    wait_for("the kubelet's word", lambda: cluster.remains(submission, dead.whose).gone)
    assert cluster.status(submission) is DriverState.KILLED
    assert cluster.status(other) is DriverState.RUNNING
    pods.clear()


def test_a_server_that_is_away_answers_nobody_and_its_pods_run_on(pods: Pods) -> None:
    job, cluster = pods.job(), pods.cluster()
    submission = pods.running(job)
    watch = urllib.request.urlopen(f"{pods.server.address}/api/v1/namespaces/{NAMESPACE}/pods?watch=true", timeout=60)
    assert json.loads(watch.readline())["object"]["metadata"]["name"] == submission.partition("/")[2]
    pods.server.ask("POST", "/stand-in/away/600")
    try:
        with pytest.raises(http.client.IncompleteRead):
            watch.read()
        assert cluster.status(submission) is DriverState.UNKNOWN
        (said,) = cluster.remains(submission, job.whose).alive
        assert said.endswith("did not answer.")
    finally:
        pods.server.ask("POST", "/stand-in/away/0")
    wait_for("it to be back", lambda: cluster.status(submission) is DriverState.RUNNING)
    pods.clear()
