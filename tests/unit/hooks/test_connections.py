from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied
from airflow.sdk.execution_time import supervisor

from airflow_stream_provider.hooks.connections import (
    Connected,
    aconnect,
    akafka_extra,
    cluster_connection,
    connect,
    kafka_extra,
    storage_connection,
)
from airflow_stream_provider.hooks.failing import failing_without_retry
from airflow_stream_provider.lifecycle.errors import ConnectionUnavailable, SpecError

NOT_THERE = "The Airflow connection 'gone' cannot be read: it is not defined, or what keeps it .* does not answer"
ONE = NOT_THERE + r".* Create 'gone' \(type kafka_stream\)"


@pytest.fixture(autouse=True)
def _connections(monkeypatch: pytest.MonkeyPatch) -> None:
    spark: dict[str, object] = {
        "conn_type": "spark",
        "host": "spark://master",
        "port": 7077,
        "extra": {"token": "hunter2"},
    }
    spark |= {"login": "airflow", "password": "hunter2"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK", json.dumps(spark))
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "a:1", "sasl.password": "hunter2"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA", json.dumps(kafka))


def connected(kafka: str | None) -> list[Connected]:
    return [connect("spark", kafka), asyncio.run(aconnect("spark", kafka))]


def test_both_connections_are_read_in_tasks_and_in_triggers_and_shown_by_neither() -> None:
    for found in connected("kafka"):
        assert (found.cluster.host, found.cluster.port, found.cluster.extra) == (
            "spark://master",
            7077,
            {"token": "hunter2"},
        )
        assert found.kafka == kafka_extra("kafka") == asyncio.run(akafka_extra("kafka"))
        assert (found.cluster.login, found.cluster.password) == ("airflow", "hunter2")
        assert found.cluster.masters.authorization.startswith("Basic ")
        assert "hunter2" not in repr(found) + repr(found.cluster)


def test_a_stream_may_name_no_kafka() -> None:
    assert [found.kafka for found in connected(None)] == [None, None]


def test_a_missing_connection_is_named_with_what_to_create() -> None:
    with pytest.raises(ConnectionUnavailable, match=ONE):
        connect("spark", "gone")
    with pytest.raises(ConnectionUnavailable, match=ONE):
        asyncio.run(aconnect("spark", "gone"))
    with pytest.raises(ConnectionUnavailable, match=ONE):
        kafka_extra("gone")
    with pytest.raises(ConnectionUnavailable, match=ONE):
        asyncio.run(akafka_extra("gone"))


def test_a_cluster_s_connection_is_read_by_itself() -> None:
    assert cluster_connection("spark") == connect("spark", None).cluster
    with pytest.raises(
        ConnectionUnavailable, match=r"Create 'gone' \(type spark_standalone or spark_yarn or spark_kubernetes\)"
    ):
        cluster_connection("gone")


def test_a_cluster_s_connection_may_name_one_of_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = {"conn_type": "spark", "host": "k8s://", "extra": {"kubernetes_conn_id": "k8s"}}
    monkeypatch.setenv("AIRFLOW_CONN_PODS", json.dumps(pods))
    named = r"'k8s' cannot be read.*or correct kubernetes_conn_id in the extra of 'pods'"
    with pytest.raises(ConnectionUnavailable, match=named):
        connect("pods", None)
    with pytest.raises(ConnectionUnavailable, match=named):
        asyncio.run(aconnect("pods", None))
    kubernetes = {"conn_type": "kubernetes", "extra": {"kube_config": "hunter2"}}
    monkeypatch.setenv("AIRFLOW_CONN_K8S", json.dumps(kubernetes))
    for found in (connect("pods", "kafka"), asyncio.run(aconnect("pods", "kafka"))):
        assert found.cluster.kubernetes == {"kube_config": "hunter2"}
        assert "hunter2" not in repr(found) + repr(found.cluster)
    assert cluster_connection("pods").kubernetes == {"kube_config": "hunter2"}


class Vault:
    """A secrets backend that raises these errors one after the other, and then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def get_connection(self, conn_id: str, team_name: str | None = None) -> Connection:
        if self.errors:
            raise self.errors.pop(0)
        return Connection(conn_id=conn_id, conn_type="kafka", host="local[1]", extra="{}")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (TimeoutError("hunter2"), "it is not defined, or what keeps it"),
        (AirflowSecretsBackendAccessDenied("hunter2"), "Airflow says AirflowSecretsBackendAccessDenied"),
    ],
)
@pytest.mark.parametrize(
    "read",
    [
        lambda: connect("c", "k"),
        lambda: asyncio.run(aconnect("c", "k")),
        lambda: kafka_extra("k"),
        lambda: asyncio.run(akafka_extra("k")),
        lambda: storage_connection("s"),
    ],
)
def test_a_backend_that_is_away_for_a_moment_is_left_to_the_tasks_retries(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], Any], error: Exception, says: str
) -> None:
    vault = Vault(error)
    monkeypatch.setattr(supervisor, "ensure_secrets_backend_loaded", lambda: [vault])
    with pytest.raises(ConnectionUnavailable, match=says) as caught, failing_without_retry():
        read()
    assert not isinstance(caught.value, SpecError)
    assert "hunter2" not in str(caught.value)
    with failing_without_retry():
        read()
