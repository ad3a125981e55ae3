"""Translate an Airflow connection of type `kafka` into settings of kafka-python.

The connection's extra has librdkafka's names, as Airflow's own Kafka provider uses them. Each name is translated. An
unknown name is refused if it is about security, and otherwise left out: it concerns producers and consumers, which the
same connection often serves, and cannot make a look at Kafka wrong.
"""

from __future__ import annotations

import importlib
import logging
import re
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from airflow_stream_provider.lifecycle.errors import SpecError

log = logging.getLogger(__name__)

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MECHANISMS = (*_PASSWORD_MECHANISMS, "OAUTHBEARER")
_PORT = re.compile(r":\d+$")
_SERVER = re.compile(r"([^\s:/\[\]@]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?")
# Seconds before its expiry at which a token is replaced.
_TOKEN_MARGIN = 60.0

_NUMBERS = {
    "metadata.max.age.ms": "metadata_max_age_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "socket.timeout.ms": "request_timeout_ms",
    "receive.message.max.bytes": "receive_message_max_bytes",
    "socket.receive.buffer.bytes": "receive_buffer_bytes",
    "socket.send.buffer.bytes": "send_buffer_bytes",
}
_SSL = (
    *("ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.key.location", "ssl.key.password"),
    *("ssl.crl.location", "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification"),
)
_OTHERS = (
    *("bootstrap.servers", "client.id", "security.protocol", "sasl.mechanism", "sasl.mechanisms"),
    *("sasl.username", "sasl.password", "oauth_cb", "sasl.oauthbearer.config"),
)
# Ours: further addresses of the same Kafka, by which streams may know it; not connected to.
OTHER_ADDRESSES = "stream.bootstrap.servers"
# Ignoring a setting of this kind could make a connection less safe than its author meant, or use other credentials.
_SECURITY = ("sasl", "ssl", "tls", "security", "oauth", "enable.ssl", "enable.sasl", "bootstrap")


class _Hidden(str):
    """A password whose repr hides it, because kafka-python writes its settings into its debug log."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def client_settings(conn_id: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return kafka-python's settings for a connection.

    :param conn_id: id of the Airflow connection, for error messages.
    :param extra: the connection's extra, with librdkafka's names.
    :raises SpecError: a name about security is unknown, a value is not valid, or a required one is missing. No message
        shows a secret.
    """
    known = {*_NUMBERS, *_SSL, *_OTHERS, OTHER_ADDRESSES}
    unknown = sorted(name for name in set(extra) - known if name.lower().startswith(_SECURITY))
    if unknown:
        raise _refused(
            conn_id,
            f"has unknown settings about security: {', '.join(unknown)}",
            f"Remove them from its extra. Known settings: {', '.join(sorted(known))}.",
        )
    protocol = _choice(conn_id, extra, "security.protocol", _PROTOCOLS, "PLAINTEXT")
    if protocol == "SASL_PLAINTEXT":
        log.warning(
            "The Kafka connection %r logs in without TLS (SASL_PLAINTEXT): others on the network can learn its "
            "credentials, or change what it reads. Use SASL_SSL.",
            conn_id,
        )
    return {
        "bootstrap_servers": _servers(conn_id, extra.get("bootstrap.servers")),
        "security_protocol": protocol,
        **({"client_id": str(extra["client.id"])} if "client.id" in extra else {}),
        **{ours: _number(conn_id, name, extra[name]) for name, ours in _NUMBERS.items() if name in extra},
        **(_sasl(conn_id, extra) if protocol.startswith("SASL") else {}),
        **({"ssl_context": _ssl_context(conn_id, extra)} if protocol.endswith("SSL") else {}),
    }


def with_ports(servers: str) -> tuple[str, ...]:
    """Return each of the bootstrap servers with its port: Kafka's Java clients refuse one without, others take 9092."""
    named = (server.strip() for server in servers.split(","))
    return tuple(server if _PORT.search(server) else f"{server}:9092" for server in named if server)


def _servers(conn_id: str, value: Any) -> list[str]:
    servers = [server.strip() for server in str(value or "").split(",") if server.strip()]
    next_step = 'Put {"bootstrap.servers": "host:port"} into its extra.'
    if not servers:
        raise _refused(conn_id, "names no broker", next_step)
    wrong = next((server for server in servers if not _SERVER.fullmatch(server)), None)
    if wrong is not None:
        # Somebody may have written a user and a password before it, which may have a comma.
        shown = (str(value) if "@" in str(value) else wrong).rpartition("@")[2]
        raise _refused(conn_id, f"names a broker that is not HOST or HOST:PORT: {shown}", next_step)
    return servers


def _sasl(conn_id: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    name = "sasl.mechanisms" if "sasl.mechanisms" in extra else "sasl.mechanism"
    mechanism = _choice(conn_id, extra, name, _MECHANISMS, "")
    if mechanism == "OAUTHBEARER":
        return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": _token_provider(conn_id, extra)}
    missing = [key for key in ("sasl.username", "sasl.password") if not extra.get(key)]
    if missing:
        raise _refused(conn_id, f"lacks {' and '.join(missing)} for {mechanism}", "Put them into its extra.")
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": str(extra["sasl.username"]),
        "sasl_plain_password": _Hidden(extra["sasl.password"]),
    }


def _token_provider(conn_id: str, extra: Mapping[str, Any]) -> Any:
    """Return a provider that fetches tokens from the connection's `oauth_cb`, with librdkafka's signature."""
    from kafka.errors import KafkaConnectionError
    from kafka.net.sasl.oauth import AbstractTokenProvider

    callback = _callback(conn_id, extra.get("oauth_cb"))
    config = str(extra.get("sasl.oauthbearer.config", ""))

    class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
        """Keeps the callback's answer until it expires.

        The answer is (token, expiry in seconds since 1970) and optionally a principal and extensions.
        """

        answer: tuple[Any, ...] = ("", 0.0)

        def token(self) -> str:
            if time.time() > float(self.answer[1]) - _TOKEN_MARGIN:
                try:
                    self.answer = tuple(callback(config))
                except Exception as error:  # noqa: BLE001 - the callback may raise anything
                    # kafka-python tries again after a KafkaConnectionError. The original text may hold a secret.
                    raise KafkaConnectionError(f"oauth_cb failed with {type(error).__name__}") from None
            return str(self.answer[0])

        def extensions(self) -> dict[str, str]:
            return dict(self.answer[3]) if len(self.answer) > 3 else {}

    return TokenProvider()


def _callback(conn_id: str, path: Any) -> Callable[[str], Any]:
    """Return the function at a dotted path, if Airflow's `callback_allowlist` names it."""
    from airflow.sdk.configuration import conf

    if not isinstance(path, str) or "." not in path:
        raise _refused(
            conn_id, "lacks oauth_cb for OAUTHBEARER", "Set oauth_cb in its extra to the dotted path of a function."
        )
    allowed = {each.strip() for each in (conf.get("apache_kafka", "callback_allowlist", fallback="") or "").split(",")}
    if path not in allowed:
        raise _refused(
            conn_id,
            f"names a callback that is not allowed: {path}",
            "Add it to `callback_allowlist` in the section [apache_kafka] of Airflow's configuration.",
        )
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise _refused(
            conn_id,
            f"names a callback that cannot be imported: {path} ({error})",
            "Install its package on this machine.",
        ) from error
    if not callable(found):
        raise _refused(conn_id, f"names a callback that is not a function: {path}", "Write the path of a function.")
    return cast("Callable[[str], Any]", found)


def _ssl_context(conn_id: str, extra: Mapping[str, Any]) -> ssl.SSLContext:
    """Return the TLS context. Built here, so that a wrong file fails at once and not at every connection attempt."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    algorithm = str(extra.get("ssl.endpoint.identification.algorithm", "https")).lower()
    if algorithm not in ("https", "none"):
        raise _refused(conn_id, f"has ssl.endpoint.identification.algorithm {algorithm!r}", "Use https or none.")
    context.check_hostname = algorithm == "https"
    if str(extra.get("enable.ssl.certificate.verification", True)).lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        log.warning(
            "The Kafka connection %r verifies no certificate (enable.ssl.certificate.verification is false): whoever "
            "is on the way can be the broker and learn its credentials. Name the authority in ssl.ca.location instead.",
            conn_id,
        )
    elif not context.check_hostname:
        log.warning(
            "The Kafka connection %r compares no host names (ssl.endpoint.identification.algorithm is none): whoever "
            "has any certificate of the authority can be the broker.",
            conn_id,
        )
    certificate, key = extra.get("ssl.certificate.location"), extra.get("ssl.key.location")
    if key and not certificate:
        raise _refused(conn_id, "has ssl.key.location without ssl.certificate.location", "Add the certificate.")
    try:
        _load_authorities(context, extra)
        if certificate:
            # Without any password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(certificate, key, password=str(extra.get("ssl.key.password") or ""))
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise _refused(
            conn_id,
            f"has a certificate or key that cannot be loaded: {error}",
            f"Check {', '.join(name for name in _SSL if name in extra)} on this machine.",
        ) from error
    return context


def _load_authorities(context: ssl.SSLContext, extra: Mapping[str, Any]) -> None:
    location, text = extra.get("ssl.ca.location"), extra.get("ssl.ca.pem")
    if text:
        context.load_verify_locations(cadata=str(text))
    if location and Path(str(location)).is_dir():
        context.load_verify_locations(capath=str(location))
    elif location:
        context.load_verify_locations(cafile=str(location))
    elif not text:
        context.load_default_certs()
    if extra.get("ssl.crl.location"):
        context.load_verify_locations(cafile=str(extra["ssl.crl.location"]))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _choice(conn_id: str, extra: Mapping[str, Any], name: str, choices: tuple[str, ...], default: str) -> str:
    value = str(extra.get(name, default)).upper()
    if value not in choices:
        found = f"has {name} {extra[name]!r}" if name in extra else f"lacks {name}"
        raise _refused(conn_id, f"{found}, which must be one of {', '.join(choices)}", "Set it to one of them.")
    return value


def _number(conn_id: str, name: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise _refused(conn_id, f"has {name} {value!r}, which is not a whole number", "Correct it.") from error


def _refused(conn_id: str, what: str, next_step: str) -> SpecError:
    return SpecError(f"The Kafka connection {conn_id!r} {what}.", next_step=next_step, conn_id=conn_id)
