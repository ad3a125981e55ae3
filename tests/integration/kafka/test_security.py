"""Every way to log in, over TLS with certificates made here, and what a user without the right ACLs is told."""

from __future__ import annotations

import base64
import json
import logging
import sys
import time
import types
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from airflow_stream_provider.kafka import connect
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.connect import BrokerUnreachable, KafkaDenied
from airflow_stream_provider.lag.committed_offsets import Committed
from airflow_stream_provider.lag.report import GroupVerdict, PartitionState
from devstack.certificates import Certificates
from devstack.kafka_cluster import USERS, KafkaCluster, patient_client
from devstack.kafka_writes import commit_group, create_topics
from tests.support.lag_reports import measure, of_group
from tests.support.leftovers import nothing_left_behind

PARTITION = TopicPartition("allowed", 0)
HIDDEN = TopicPartition("hidden", 0)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("secure"), secure=certificates) as brokers, brokers.client() as client:
        create_topics(client, {"allowed": 1, "hidden": 1})
        producer = KafkaProducer(bootstrap_servers=brokers.servers)
        for topic in ("allowed", "hidden"):
            producer.send(topic, b"x", partition=0)
        producer.close()
        commit_group(client, "allowed-group", {PARTITION: 0})
        commit_group(client, "hidden-group", {PARTITION: 0})
        allowed = [(ResourceType.TOPIC, "allowed"), (ResourceType.GROUP, "allowed-group")]
        client._admin.create_acls(
            [
                ACL(user, "*", ACLOperation.DESCRIBE, ACLPermissionType.ALLOW, ResourcePattern(kind, name))
                for kind, name in allowed
                for user in ("User:reader", "User:CN=client")
            ]
        )
        # The broker learns what its controller has written when it gets to it.
        brokers.wait(lambda: end({**sasl(brokers, certificates), **user("reader", "PLAIN")}) == 1)
        yield brokers


@pytest.fixture
def encrypted(secure: KafkaCluster, certificates: Certificates) -> dict[str, Any]:
    return sasl(secure, certificates)


def sasl(brokers: KafkaCluster, certificates: Certificates) -> dict[str, Any]:
    return {"bootstrap.servers": brokers.at("SASL_SSL"), "security.protocol": "SASL_SSL", **authority(certificates)}


def authority(certificates: Certificates) -> dict[str, str]:
    return {"ssl.ca.location": str(certificates.authority)}


def user(name: str, mechanism: str) -> dict[str, str]:
    return {"sasl.mechanism": mechanism, "sasl.username": name, "sasl.password": USERS[name]}


def end(extra: dict[str, Any]) -> int:
    """Return where a partition ends; -1: the user may not know that."""
    with patient_client("k", extra) as client:
        found = client.offsets({PARTITION: -1})
        return int(found[PARTITION].offset) if PARTITION in found else -1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_with_a_password(encrypted: dict[str, Any], mechanism: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert end({**encrypted, **user("reader", mechanism)}) == 1
    assert "SaslHandshake" not in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_said_at_once_and_leaves_nothing_behind(
    encrypted: dict[str, Any], mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "CONNECT_MS", 120_000)
    extra = {**encrypted, **user("reader", mechanism), "sasl.password": "wrong-hunter2"}
    began = time.monotonic()
    with pytest.raises(KafkaDenied, match="refuses the connection's credentials") as caught:
        KafkaClient("k", extra)
    assert time.monotonic() - began < connect.CONNECT_MS / 1000, "it must not be tried until the time is over"
    assert "hunter2" not in f"{caught.value} {caught.value.fields} {caught.value.__cause__}"
    with nothing_left_behind(), pytest.raises(KafkaDenied):
        KafkaClient("k", extra)


def test_a_certificate_of_the_clients_own(secure: KafkaCluster, certificates: Certificates) -> None:
    extra = {"bootstrap.servers": secure.at("SSL"), "security.protocol": "SSL"}
    own = {
        "ssl.certificate.location": str(certificates.client),
        "ssl.key.location": str(certificates.client_key),
        "ssl.key.password": certificates.key_password,
    }
    assert end({**extra, **authority(certificates), **own}) == 1
    text = certificates.authority.read_text()
    assert end({**extra, "ssl.ca.pem": text, **own}) == 1


def test_an_authority_that_is_not_known_is_said(encrypted: dict[str, Any], certificates: Certificates) -> None:
    extra = {**encrypted, **user("reader", "PLAIN"), "ssl.ca.location": str(certificates.unknown_authority)}
    with pytest.raises(BrokerUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
        KafkaClient("k", extra)
    with nothing_left_behind(), pytest.raises(BrokerUnreachable):
        KafkaClient("k", extra)
    assert end({**extra, "enable.ssl.certificate.verification": "false"}) == 1


def test_a_token_from_a_callback(encrypted: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def encoded(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    def fetch(config: str) -> tuple[str, float]:
        now = time.time()
        claims = {"sub": config, "iat": now - 1, "exp": now + 3600}
        return f"{encoded({'alg': 'none'})}.{encoded(claims)}.", now + 3600

    module = types.ModuleType("our_tokens")
    module.fetch = fetch  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "our_tokens", module)
    monkeypatch.setenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST", "our_tokens.fetch")
    token = {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": "our_tokens.fetch"}
    assert end({**encrypted, **token, "sasl.oauthbearer.config": "reader"}) == 1


def test_a_plain_client_at_a_tls_listener_gets_a_clear_error(
    encrypted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "CONNECT_MS", 1000)
    with pytest.raises(BrokerUnreachable, match="the connection's security settings"):
        KafkaClient("k", {"bootstrap.servers": encrypted["bootstrap.servers"]})


def test_requests_that_acls_deny_have_a_reason(encrypted: dict[str, Any]) -> None:
    with KafkaClient("k", {**encrypted, **user("reader", "SCRAM-SHA-512")}) as client:
        found = client.offsets({PARTITION: -1, HIDDEN: -1})
        assert list(found) == [PARTITION]
        refused = "Kafka denies the connection's user access to the topic hidden: TopicAuthorizationFailedError."
        assert found.problems[HIDDEN].reason == refused
        assert client.topics(["hidden"]).problems["hidden"].reason == refused
        assert client.configs(topics=["allowed"]).problems["allowed"].reason.startswith("Kafka denies")
        assert client.configs(brokers=[1]).problems[1].reason.startswith("Kafka denies")
        groups = client.groups_offsets(["allowed-group", "hidden-group"])
        assert groups == {"allowed-group": {PARTITION: 0}}
        assert groups.problems["hidden-group"].reason.startswith("Kafka denies")


def test_lag_that_acls_hide_is_unknown_and_never_zero(encrypted: dict[str, Any]) -> None:
    with KafkaClient("k", {**encrypted, **user("reader", "SCRAM-SHA-256")}) as client:
        hidden = Committed("hidden", {"hidden": {0: 1}, "allowed": {0: 0}})
        report = measure(client, [of_group(client, "allowed-group"), of_group(client, "hidden-group"), hidden])
    group, refused, query = report.queries
    assert (group.records, group.partitions[0].state) == (1, PartitionState.OK)
    denied = "Kafka denies the connection's user access to the topic allowed: TopicAuthorizationFailedError."
    assert group.problem.endswith(f"of the topic allowed is unknown: {denied}")
    assert (refused.records, refused.seconds, refused.verdict) == (None, None, GroupVerdict.UNKNOWN)
    assert "hidden-group" in refused.problem
    assert {p.topic: p.state for p in query.partitions} == {
        "allowed": PartitionState.OK,
        "hidden": PartitionState.UNREADABLE,
    }
    assert (query.records, query.seconds is not None, query.complete) == (1, True, False)
    assert "the topic hidden" in query.problem
