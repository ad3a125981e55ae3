"""One control root of a URL for a whole process, with the connection as it was read last."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from kafka.net.manager import KafkaConnectionManager

from airflow_stream_provider.control import FilesRoot
from airflow_stream_provider.hooks.control import acontrol_root, close_roots, control_root
from airflow_stream_provider.kafka.control_root import TopicRoot
from airflow_stream_provider.lifecycle.errors import ConnectionUnavailable
from devstack.drivers import wait_for
from tests.support.wire_kafka import WireKafka, wait_for_it


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": "127.0.0.1:1"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_HERE", json.dumps({"conn_type": "kafka", "extra": extra}))


def test_a_folder_needs_no_connection() -> None:
    assert isinstance(control_root("file:///data/streams"), FilesRoot)


@pytest.mark.usefixtures("connection")
def test_all_of_a_process_share_the_root_of_a_url() -> None:
    url = "kafka://kafka_here/streams"
    found = control_root(url)
    assert isinstance(found, TopicRoot)
    assert control_root(url) is found is asyncio.run(acontrol_root(url))
    assert control_root("kafka://kafka_here/others") is not found
    assert found.driver_arguments() == ("--brokers", "127.0.0.1:1")


def test_a_connection_that_has_changed_is_taken_up(monkeypatch: pytest.MonkeyPatch) -> None:
    url, roots = "kafka://kafka_moves/streams", []
    for port in (1, 2):
        extra = {"bootstrap.servers": f"127.0.0.1:{port}"}
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_MOVES", json.dumps({"conn_type": "kafka", "extra": extra}))
        roots.append(asyncio.run(acontrol_root(url)))
    assert roots[0] is not roots[1]
    assert control_root(url) is control_root(url, fresh=True) is roots[1]
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_MOVES", json.dumps({"conn_type": "kafka", "extra": {}}))
    assert control_root(url) is roots[1]
    assert control_root(url, fresh=True) is not roots[1]


def test_a_missing_connection_is_named() -> None:
    with pytest.raises(ConnectionUnavailable, match="'nowhere'"):
        control_root("kafka://nowhere/streams")


def kafka_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("kafka-io")}


def test_a_client_is_closed_when_its_connection_has_changed_and_when_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def root(client_id: str) -> TopicRoot:
        extra = {"bootstrap.servers": kafka.servers, "client.id": client_id}
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_WIRE", json.dumps({"conn_type": "kafka", "extra": extra}))
        found = asyncio.run(acontrol_root("kafka://kafka_wire/streams"))
        assert isinstance(found, TopicRoot)
        return found

    wait_for_it(monkeypatch)
    # How long a hand-shake may take, with the broker that is silent; 10 s by default.
    monkeypatch.setitem(KafkaConnectionManager.DEFAULT_CONFIG, "socket_connection_setup_timeout_ms", 4000)
    kafka = WireKafka()
    old = root("old")
    assert old._client().topics(["t"])
    of_old = kafka_threads()
    assert of_old
    new = root("new")
    assert new is not old
    assert new._client().topics(["t"])
    wait_for("its threads to end", lambda: not kafka_threads() & of_old)
    for _ in range(2):
        assert kafka_threads()
        close_roots()
        assert not kafka_threads()
        assert new._client().topics(["t"]), "opened again"
    close_roots()
    kafka.close()
