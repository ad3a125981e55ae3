"""Each private name of kafka-python that is called or overridden is there, without a broker.

An override that nothing calls any more fails silently, so those of `kafka.connect` are called here.
"""

from __future__ import annotations

import inspect
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.errors import SaslAuthenticationFailedError
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.metadata import MetadataRequest

from airflow_stream_provider.kafka import connect
from airflow_stream_provider.kafka.internals import Internals


@pytest.fixture
def manager() -> Iterator[KafkaConnectionManager]:
    """kafka-python's manager of connections, without a connection and without a thread."""
    net = NetworkSelector()
    yield KafkaConnectionManager(net, api_version=(3, 0))
    net.close()


def test_what_the_admin_client_is_asked_for() -> None:
    assert "request_timeout_ms" in KafkaAdminClient.DEFAULT_CONFIG


def test_what_the_manager_is_asked_for(manager: KafkaConnectionManager) -> None:
    internals = Internals(SimpleNamespace(_manager=manager, config=KafkaAdminClient.DEFAULT_CONFIG))

    async def started() -> None:
        await internals.soon(internals.sleep, 0.0)

    internals.run(started)
    assert internals.brokers() == []
    assert internals.any_broker() is None
    assert internals._throttled(1) == 0.0
    assert internals.version_without(MetadataRequest) == ""
    inspect.signature(manager.send).bind(MetadataRequest(), node_id=1, request_timeout_ms=1000)
    assert callable(manager.cluster.refresh_metadata)


def test_what_a_throttled_connection_says(manager: KafkaConnectionManager) -> None:
    connection = KafkaConnection(manager._net, node_id=1)
    manager._conns[1] = connection
    internals = Internals(SimpleNamespace(_manager=manager))
    assert internals._throttled(1) == 0.0
    assert isinstance(connection._throttle_time, (int, float))
    connection.pause("throttle")
    assert internals._throttled(1) == 0.01


def test_what_is_replaced_in_a_client_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    async def refuses(manager: KafkaConnectionManager, node: Any, **options: Any) -> None:
        asked.append(manager)
        raise SaslAuthenticationFailedError("bad password")

    monkeypatch.setattr(KafkaConnectionManager, "_build_transport", refuses)
    monkeypatch.setattr(connect, "CONNECT_MS", 60_000)
    servers = {"bootstrap.servers": "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"}
    with pytest.raises(connect.KafkaDenied, match="bad password"):
        connect.connect("kafka_default", servers)
    # No server is asked again, nor another one.
    (manager,) = asked
    replaced = [name for name in vars(type(manager)) if callable(getattr(manager, name)) and not name.startswith("__")]
    assert replaced == ["get_connection", "_build_transport", "_connect"]
    assert all(hasattr(KafkaConnectionManager, name) for name in replaced)
    assert manager._net.config["slow_task_threshold_secs"] == connect.SLOW_SECONDS


def test_what_is_replaced_in_a_transport(manager: KafkaConnectionManager) -> None:
    assert callable(KafkaSSLTransport._sock_recv)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.send(b"refused")
        assert KafkaTCPTransport(manager._net, ours, host="k1")._sock_recv() == (b"refused", None)
