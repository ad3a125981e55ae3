from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.clusters import ClusterConnection, open_cluster
from airflow_stream_provider.clusters.kubernetes import KubernetesCluster
from airflow_stream_provider.clusters.kubernetes_connection import CONTAINER, kubernetes_settings
from airflow_stream_provider.lifecycle.errors import SpecError

EXTRA = {"namespace": "streams", "image": "spark:4.0.0", "service_account": "spark"}


def connection(host: str = "k8s://https://api:6443", port: int | None = None, **changes: Any) -> ClusterConnection:
    fields = {"extra": EXTRA, "password": "hunter2", **changes}
    return ClusterConnection(host, port, **fields)


def extra(**changes: Any) -> ClusterConnection:
    return connection(extra={**EXTRA, **changes})


def test_address_and_token_are_in_the_connection() -> None:
    found = kubernetes_settings(connection())
    assert (found.address, found.token, found.kubernetes) == ("https://api:6443", "hunter2", None)
    assert (found.namespace, found.image, found.template["spec"]["serviceAccountName"]) == (
        "streams",
        "spark:4.0.0",
        "spark",
    )
    assert "hunter2" not in repr(found)
    # As Airflow reads the URI of the Spark provider's documentation.
    assert kubernetes_settings(connection("k8s://https://api", 443)).address == "https://api:443"
    assert kubernetes_settings(connection("k8s://api:6443/")).address == "https://api:6443"
    assert isinstance(open_cluster(connection()), KubernetesCluster)


def test_they_may_be_in_a_connection_of_type_kubernetes_and_so_may_the_namespace() -> None:
    named = {"image": "spark:4.0.0", "service_account": "spark", "kubernetes_conn_id": "k8s"}
    kubernetes = {"in_cluster": True, "namespace": "theirs"}
    found = kubernetes_settings(connection("k8s://", password="", extra=named, kubernetes=kubernetes))
    assert (found.address, found.token, found.kubernetes, found.namespace) == ("", "", kubernetes, "theirs")


def test_the_template_may_name_image_and_service_account() -> None:
    template = {"spec": {"serviceAccountName": "own", "containers": [{"name": CONTAINER, "image": "own:1"}]}}
    found = kubernetes_settings(connection(extra={"namespace": "streams", "template": template}))
    assert (found.image, found.template["spec"]["serviceAccountName"]) == ("own:1", "own")
    with pytest.raises(SpecError, match=r"image in the extra is 'spark:4.0.0', and 'own:1' in the pod template"):
        kubernetes_settings(extra(template=template))


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (connection("k8s://"), "'k8s://' is no API server"),
        (connection("k8s://ftp://api"), "'k8s://ftp://api'"),
        (connection("k8s://https://api:port"), "'k8s://https://api:port'"),
        (connection("k8s://https://u:hunter2@api"), "'api' is no API server"),
        (connection(password=""), "has no credentials"),
        (connection(login="me"), "has a login"),
        (extra(namespace=""), "namespace in the extra is ''"),
        (extra(namespace="a/b"), "'a/b'"),
        (extra(image=""), "the drivers' image"),
        (extra(service_account=""), "the drivers' service account"),
        (extra(kubernetes_conn_id="k8s"), "'k8s' was not read"),
        (extra(ui_url="https://ui/{driver}"), "ui_url"),
        (extra(log_url="logs/{pod}"), "log_url"),
        (extra(log_url="https://logs/{pod"), "log_url"),
        (extra(template="no such file"), "no such file cannot be read"),
    ],
)
def test_a_connection_that_cannot_be_used_is_refused_in_one_sentence(found: ClusterConnection, named: str) -> None:
    with pytest.raises(SpecError) as refused:
        open_cluster(found)
    assert named in refused.value.message
    assert refused.value.next_step
    assert "hunter2" not in str(refused.value)
