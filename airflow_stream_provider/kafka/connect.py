"""Open a kafka-python client for a connection.

If that fails, close its thread and sockets and raise an error that names the cause.
"""

from __future__ import annotations

import collections
import logging
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.kafka.settings import client_settings
from airflow_stream_provider.lifecycle.errors import StreamError

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

# Milliseconds until the first broker has to answer; kafka-python's default is 30 s.
CONNECT_MS = 10_000
# kafka-python refuses a request beyond this many on one connection: with its default of 5, a quarter of the calls of
# eight threads failed (3.0.12). So no limit that threads could reach; a broker answers them one after the other anyway.
IN_FLIGHT = 100_000
# kafka-python logs a warning for slower tasks; decoding some thousand partitions takes 0.2 s.
SLOW_SECONDS = 5.0
# A broker that comes back is asked again within this time; the default is half a minute.
BACKOFF_MAX_MS = 2_000
NO_QUOTA = "Give the connection's user no quota, or a wider one (kafka-configs.sh --entity-type users)."


class BrokerUnreachable(StreamError):
    """Kafka does not answer, or a request failed. Try again later."""


class KafkaThrottled(BrokerUnreachable):
    """A quota throttles this client for longer than a request may wait: it was not sent."""


class KafkaDenied(StreamError):
    """Kafka refuses the connection's credentials, or its user lacks an ACL."""


def connect(conn_id: str, extra: Mapping[str, Any]) -> KafkaAdminClient:
    """Return a client that is connected to a broker. It keeps a thread and sockets until its `close()`.

    :param conn_id: id of the Airflow connection, for error messages.
    :param extra: the connection's extra, with librdkafka's names.
    :raises SpecError: the connection is not valid.
    :raises KafkaDenied: the brokers refuse the credentials.
    :raises BrokerUnreachable: no broker answers within 10 s.
    """
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError, SaslAuthenticationFailedError
    from kafka.net.compat import KafkaNetClient
    from kafka.net.manager import KafkaConnectionManager
    from kafka.net.selector import NetworkSelector

    settings = client_settings(conn_id, extra)
    made: list[NetworkSelector] = []
    causes: collections.deque[Exception] = collections.deque(maxlen=1)

    def failed(error: Exception) -> None:
        # The bootstrap itself only reports that no connection was made.
        causes.append(error)
        # kafka-python leaves the failed socket in the errors' frames; clearing them closes it now.
        each: BaseException | None = error
        while each is not None:
            traceback.clear_frames(each.__traceback__)
            each = each.__context__

    class Manager(KafkaConnectionManager):  # type: ignore[misc]
        """Keeps the error of each failed connection, and a broker's last message before it closes the connection."""

        def get_connection(self, node_id: Any, **options: Any) -> Any:
            # The bootstrap would try again until its timeout, and a server that counts failures may lock the user out.
            if self.cluster.is_bootstrap(node_id) and causes and isinstance(causes[0], SaslAuthenticationFailedError):
                raise causes[0]
            return super().get_connection(node_id, **options)

        async def _build_transport(self, node: Any, **options: Any) -> Any:
            transport = await super()._build_transport(node, **options)
            receive = transport._sock_recv

            def data_before_error() -> tuple[bytes, Exception | None]:
                # Given data and an error, kafka-python would drop the data: the refusal that the broker sent last.
                data, error = receive()
                return data, None if data else error

            transport._sock_recv = data_before_error
            return transport

        async def _connect(self, node: Any, conn: Any, **options: Any) -> None:
            conn.init_future.add_errback(failed)
            await super()._connect(node, conn, **options)

    def remember(**configs: Any) -> KafkaNetClient:
        made.append(NetworkSelector(**{**configs, "slow_task_threshold_secs": SLOW_SECONDS}))
        return KafkaNetClient(net=made[0], manager=Manager(made[0], **configs))

    _keep_out_of_logs()
    try:
        return KafkaAdminClient(
            bootstrap_timeout_ms=CONNECT_MS,
            max_in_flight_requests_per_connection=IN_FLIGHT,
            reconnect_backoff_max_ms=BACKOFF_MAX_MS,
            kafka_client=remember,
            **settings,
        )
    except (KafkaError, OSError, ValueError) as error:
        # A constructor that fails leaves its thread and sockets open (kafka-python 3.0.12).
        for net in made:
            net.stop()
            net.close()
        cause = causes[0] if causes else error
        raise stream_error(conn_id, settings["bootstrap_servers"], "to connect", cause) from error


def stream_error(conn_id: str, servers: list[str], what: str, error: BaseException) -> StreamError:
    """Return our error for one of kafka-python's errors.

    :param conn_id: id of the Airflow connection.
    :param servers: the bootstrap servers.
    :param what: the request that failed, such as ``to connect`` or ``for offsets``.
    :param error: what kafka-python raised.
    """
    from kafka.errors import (
        AuthorizationError,
        KafkaError,
        SaslAuthenticationFailedError,
        ThrottlingQuotaExceededError,
    )

    where = f"Kafka at {','.join(servers)} (connection {conn_id!r})"
    # Only the texts of Kafka's own errors, which begin with their name: an `oauth_cb` may raise an error with a secret.
    reason = (str(error) if isinstance(error, KafkaError) else "") or type(error).__name__
    reason = reason.rstrip(". ")
    if isinstance(error, SaslAuthenticationFailedError):
        return KafkaDenied(
            f"{where} refuses the connection's credentials: {reason}.",
            next_step="Correct the user, password or token in the connection.",
            conn_id=conn_id,
        )
    if isinstance(error, AuthorizationError):
        return KafkaDenied(
            f"{where} denies the connection's user the request {what}: {reason}.",
            next_step="Grant it the ACL. Lag needs DESCRIBE on topics and groups, and DESCRIBE_CONFIGS on topics.",
            conn_id=conn_id,
        )
    if isinstance(error, ThrottlingQuotaExceededError):
        return KafkaThrottled(
            f"{where} was not asked {what}: a quota of Kafka throttles this client: {reason}.",
            next_step=NO_QUOTA,
            conn_id=conn_id,
        )
    return BrokerUnreachable(
        f"{where} does not answer when asked {what}: {reason}.",
        next_step="Check that the brokers run, that this machine reaches their advertised listeners, and that the "
        "connection's security settings are right.",
        conn_id=conn_id,
    )


class _NoCredentials(logging.Filter):
    """Drops kafka-python's debug records about SASL and with raw bytes, which hold the password or the token."""

    def filter(self, record: logging.LogRecord) -> bool:
        args = record.args if isinstance(record.args, tuple) else ()
        return not any(isinstance(arg, (bytes, bytearray)) or type(arg).__name__.startswith("Sasl") for arg in args)


_no_credentials = _NoCredentials()


def _keep_out_of_logs() -> None:
    """Keep out credentials, and what kafka-python says of itself at each connection, unless its level has been set."""
    if logging.getLogger("kafka").level == logging.NOTSET:
        logging.getLogger("kafka").setLevel(logging.WARNING)
    for name in ("kafka.net.connection", "kafka.protocol.parser"):
        logging.getLogger(name).addFilter(_no_credentials)  # adding the same filter again has no effect
