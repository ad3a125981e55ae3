"""From an Airflow connection to a Kafka client."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.model.errors import SpecError, StreamError

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

# The `kafka` connection keeps librdkafka's names in its extra; kafka-python has its own.
_NAMES = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "client.id": "client_id",
}
# A broker that answers at all answers within this; the constructor alone would wait for 30 s.
CONNECT_MS = 10_000


class BrokerUnreachable(StreamError):
    """Kafka does not answer, or refuses us."""


def client_settings(conn_id: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return kafka-python's settings for a connection's extra; raise SpecError naming a key that cannot be mapped."""
    unknown = sorted(set(extra) - set(_NAMES))
    if unknown:
        raise SpecError(
            f"The Kafka connection {conn_id!r} has settings that are not known here: {', '.join(unknown)}.",
            todo=f"Remove them from its extra; known are {', '.join(_NAMES)}.",
            conn_id=conn_id,
        )
    if not extra.get("bootstrap.servers"):
        raise SpecError(
            f"The Kafka connection {conn_id!r} names no broker.",
            todo='Put {"bootstrap.servers": "host:port"} into its extra.',
            conn_id=conn_id,
        )
    return {_NAMES[name]: value for name, value in extra.items()}


@contextlib.contextmanager
def admin(conn_id: str, extra: Mapping[str, Any]) -> Iterator[KafkaAdminClient]:
    """Open an admin client and close it afterwards.

    :raises SpecError: the connection cannot be used. :raises BrokerUnreachable: no broker answers within 10 s.
    """
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError
    from kafka.net.compat import KafkaNetClient

    settings = client_settings(conn_id, extra)
    made: list[Any] = []

    def remember(**configs: Any) -> Any:
        made.append(KafkaNetClient(**configs))
        return made[-1]

    client = None
    try:
        client = KafkaAdminClient(**settings, bootstrap_timeout_ms=CONNECT_MS, kafka_client=remember)
        yield client
    except (KafkaError, OSError) as error:
        raise BrokerUnreachable(
            f"Kafka at {settings['bootstrap_servers']} (connection {conn_id!r}) does not answer: "
            f"{type(error).__name__}: {error}".rstrip(". ")
            + ".",
            todo="Check that the broker runs and that this machine reaches its advertised listeners.",
            conn_id=conn_id,
        ) from error
    finally:
        if client is not None:
            client.close()
        elif made:
            # A constructor that cannot bootstrap leaves its thread and sockets behind (3.0.12).
            made[0].close()
            made[0]._manager._net.stop()
