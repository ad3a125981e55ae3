from __future__ import annotations

import ssl
import sys
import traceback
import types
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from airflow_stream_provider.kafka.settings import client_settings, with_ports
from airflow_stream_provider.lifecycle.errors import SpecError

SERVERS = {"bootstrap.servers": "a:1, [::1]:2,c"}
SCRAM = {**SERVERS, "security.protocol": "sasl_plaintext", "sasl.mechanisms": "scram-sha-512", "sasl.username": "u"}
TOKEN = {**SERVERS, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}


def refusal(extra: dict[str, Any]) -> str:
    with pytest.raises(SpecError) as caught:
        client_settings("k", extra)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value.fields)
    return str(caught.value)


def test_the_names_of_librdkafka_become_those_of_kafka_python() -> None:
    extra = {**SERVERS, "client.id": "me", "socket.timeout.ms": "5000", "group.id": "x", "acks": "all"}
    assert client_settings("k", extra) == {
        "bootstrap_servers": ["a:1", "[::1]:2", "c"],
        "security_protocol": "PLAINTEXT",
        "client_id": "me",
        "request_timeout_ms": 5000,
    }


def test_our_own_name_for_other_addresses_is_known_and_no_setting_of_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert client_settings("k", {**SERVERS, "stream.bootstrap.servers": "kafka:9092"}) == client_settings("k", SERVERS)
    assert caplog.text == ""


def test_every_setting_is_one_that_the_client_knows() -> None:
    from kafka import KafkaAdminClient

    extra = {
        **SCRAM,
        "sasl.password": "p",
        "security.protocol": "SASL_SSL",
        **dict.fromkeys(("metadata.max.age.ms", "reconnect.backoff.ms", "retry.backoff.ms", "socket.timeout.ms"), 1),
        **dict.fromkeys(("receive.message.max.bytes", "socket.receive.buffer.bytes", "socket.send.buffer.bytes"), 1),
    }
    assert set(client_settings("k", extra)) <= set(KafkaAdminClient.DEFAULT_CONFIG)


def test_a_password_is_used_and_never_shown() -> None:
    settings = client_settings("k", {**SCRAM, "sasl.password": "hunter2"})
    assert settings["sasl_mechanism"] == "SCRAM-SHA-512"
    assert settings["sasl_plain_password"].encode() == b"hunter2"
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    "servers", ["anna:hunter2@a:1", "anna:hunter2,b@a:1", "anna:11111,hunter2@a:1", "hunter2@a:1", "c:1,hunter2@b,a:1"]
)
def test_a_password_before_a_broker_is_refused_and_never_shown(servers: str) -> None:
    with pytest.raises(SpecError, match=r"not HOST or HOST:PORT: .*a:1") as refused:
        client_settings("k", {"bootstrap.servers": servers})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        ({}, "The Kafka connection 'k' names no broker."),
        ({"bootstrap.servers": " , "}, "names no broker"),
        ({"bootstrap.servers": "PLAINTEXT://a:1"}, "not HOST or HOST:PORT: PLAINTEXT://a:1"),
        ({**SERVERS, "ssl.magic": "hunter2", "sasl.x": 1}, "unknown settings about security: sasl.x, ssl.magic."),
        ({**SERVERS, "sasl.oauthbearer.client.secret": "hunter2"}, "sasl.oauthbearer.client.secret"),
        ({**SERVERS, "socket.timeout.ms": "soon"}, "socket.timeout.ms 'soon', which is not a whole number"),
        ({**SERVERS, "security.protocol": "TLS"}, "security.protocol 'TLS', which must be one of PLAINTEXT, SSL"),
        ({**SERVERS, "security.protocol": "SASL_SSL"}, "lacks sasl.mechanism, which must be one of PLAIN, SCRAM"),
        ({**TOKEN, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism 'GSSAPI', which must be one of PLAIN, SCRAM"),
        (SCRAM, "lacks sasl.password for SCRAM-SHA-512"),
        ({**TOKEN, "sasl.mechanism": "PLAIN", "sasl.password": "hunter2"}, "lacks sasl.username for PLAIN"),
        ({**SERVERS, "security.protocol": "SSL", "ssl.ca.location": "/nowhere"}, "cannot be loaded"),
        ({**SERVERS, "security.protocol": "SSL", "ssl.ca.pem": "hunter2"}, "cannot be loaded"),
        ({**SERVERS, "security.protocol": "SSL", "ssl.key.location": "/k"}, "without ssl.certificate.location"),
        ({**SERVERS, "security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "x"}, "Use https or none"),
    ],
)
def test_invalid_settings_are_refused_by_name(extra: dict[str, str], sentence: str) -> None:
    assert sentence in refusal(extra)


def test_certificates_are_checked_unless_the_connection_says_otherwise() -> None:
    encrypted = {**SERVERS, "security.protocol": "ssl"}
    context = client_settings("k", encrypted)["ssl_context"]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    anywhere = client_settings("k", {**encrypted, "ssl.endpoint.identification.algorithm": "none"})["ssl_context"]
    assert (anywhere.verify_mode, anywhere.check_hostname) == (ssl.CERT_REQUIRED, False)
    anyone = client_settings("k", {**encrypted, "enable.ssl.certificate.verification": False})["ssl_context"]
    assert (anyone.verify_mode, anyone.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({**SCRAM, "sasl.password": "hunter2"}, ["logs in without TLS"]),
        ({**SERVERS, "security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}, ["no certificate"]),
        ({**SERVERS, "security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"}, ["no host names"]),
        ({**SCRAM, "sasl.password": "hunter2", "security.protocol": "SASL_SSL"}, []),
        (SERVERS, []),
    ],
)
def test_a_connection_that_others_can_listen_to_is_warned_of(
    caplog: pytest.LogCaptureFixture, extra: dict[str, Any], says: list[str]
) -> None:
    client_settings("k", extra)
    # A client that another test has left open says something, too.
    ours = (record for record in caplog.records if record.name.startswith("airflow_stream_provider"))
    warnings = [record.getMessage() for record in ours]
    assert len(warnings) == len(says)
    assert all(part in warning and "connection 'k'" in warning for part, warning in zip(says, warnings, strict=True))
    assert "hunter2" not in caplog.text


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of all calls of `tokens.fetch`, which is on Airflow's allowlist."""
    asked: list[str] = []

    def fetch(config: str) -> tuple[str, float, str, dict[str, str]]:
        asked.append(config)
        return f"token {len(asked)}", 0.0 if len(asked) == 1 else 1e12, "principal", {"logicalCluster": "x"}

    module = types.ModuleType("tokens")
    module.fetch = fetch  # type: ignore[attr-defined]
    module.nothing = None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tokens", module)
    monkeypatch.setenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST", "a.b, tokens.fetch,tokens.nothing,tokens.gone")
    return asked


def test_tokens_come_from_the_callback_and_are_kept_until_they_expire(tokens: list[str]) -> None:
    extra = {**TOKEN, "oauth_cb": "tokens.fetch", "sasl.oauthbearer.config": "scope=x"}
    provider = client_settings("k", extra)["sasl_oauth_token_provider"]
    assert [provider.token() for _ in range(3)] == ["token 1", "token 2", "token 2"]
    assert provider.extensions() == {"logicalCluster": "x"}
    assert tokens == ["scope=x", "scope=x"]


def test_a_failing_callback_is_a_connection_error_without_the_secret(
    monkeypatch: pytest.MonkeyPatch, tokens: list[str]
) -> None:
    def fetch(config: str) -> Any:
        raise ValueError("client_secret=hunter2")

    monkeypatch.setattr(sys.modules["tokens"], "fetch", fetch)
    provider = client_settings("k", {**TOKEN, "oauth_cb": "tokens.fetch"})["sasl_oauth_token_provider"]
    with pytest.raises(KafkaConnectionError, match="oauth_cb failed with ValueError") as found:
        provider.token()
    assert "hunter2" not in "".join(traceback.format_exception(found.value))


@pytest.mark.usefixtures("tokens")
@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (None, "lacks oauth_cb for OAUTHBEARER"),
        ("os.system", "names a callback that is not allowed: os.system. Add it to `callback_allowlist`"),
        ("tokens.gone", "names a callback that cannot be imported: tokens.gone"),
        ("tokens.nothing", "names a callback that is not a function: tokens.nothing"),
    ],
)
def test_a_callback_is_called_only_if_airflow_trusts_it(path: str | None, sentence: str) -> None:
    assert sentence in refusal({**TOKEN, **({"oauth_cb": path} if path else {})})


def test_a_folder_of_certificate_authorities_is_accepted(tmp_path: Path) -> None:
    assert client_settings("k", {**SERVERS, "security.protocol": "SSL", "ssl.ca.location": str(tmp_path)})


def test_settings_that_cannot_matter_here_are_left_out() -> None:
    """A connection that is shared with Airflow's Kafka provider, whose names nobody can list in full."""
    harmless = {"socket.connection.setup.timeout.ms": 30000, "some.new.setting": 1}
    assert client_settings("k", {**SERVERS, **harmless}) == client_settings("k", SERVERS)


def test_a_server_without_a_port_has_kafkas_for_every_client() -> None:
    assert with_ports("k1, k2.example:9093,") == ("k1:9092", "k2.example:9093")
    assert with_ports("[::1],[::1]:9094") == ("[::1]:9092", "[::1]:9094")
    assert with_ports("") == ()
