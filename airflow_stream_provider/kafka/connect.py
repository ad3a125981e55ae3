"""Open a client of kafka-python for a connection, leave nothing behind when that fails, and say why it did."""

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

# A broker that answers at all answers within this; the constructor alone would wait for 30 s.
CONNECT_MS = 10_000
# Eight threads on one client had a quarter of their calls refused with the default of 5 (3.0.12).
IN_FLIGHT = 100
# Its own thread is warned of a task that takes longer; an answer of some thousand partitions takes 0.2 s.
SLOW_SECONDS = 5.0
# A broker that comes back is asked again within this, not after half a minute.
BACKOFF_MAX_MS = 2_000


class BrokerUnreachable(StreamError):
    """Kafka does not answer, or cannot do what it was asked for."""


class KafkaDenied(StreamError):
    """Kafka refuses the user of the connection: its credentials, or what it was asked for."""


def connect(conn_id: str, extra: Mapping[str, Any]) -> KafkaAdminClient:
    """Return a client that has reached a broker; its thread and sockets are there until its `close()`.

    :raises SpecError: the connection cannot be used. :raises KafkaDenied: the brokers refuse its credentials.
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
        # The bootstrap only says that no connection came about.
        causes.append(error)
        # A socket that could not connect is not closed but left to the garbage collector, in the errors' frames.
        each: BaseException | None = error
        while each is not None:
            traceback.clear_frames(each.__traceback__)
            each = each.__context__

    class Manager(KafkaConnectionManager):  # type: ignore[misc]
        """Hears of every connection that fails, and of what a broker says before it hangs up."""

        def get_connection(self, node_id: Any, **options: Any) -> Any:
            # The bootstrap would try again until its time is over, and a server that counts may lock the user out.
            if self.cluster.is_bootstrap(node_id) and causes and isinstance(causes[0], SaslAuthenticationFailedError):
                raise causes[0]
            return super().get_connection(node_id, **options)

        async def _build_transport(self, node: Any, **options: Any) -> Any:
            transport = await super()._build_transport(node, **options)
            receive = transport._sock_recv

            def before_the_end() -> tuple[bytes, Exception | None]:
                # With both, it would drop the refusal that a broker sends with its last breath.
                data, error = receive()
                return data, None if data else error

            transport._sock_recv = before_the_end
            return transport

        async def _connect(self, node: Any, conn: Any, **options: Any) -> None:
            conn.init_future.add_errback(failed)
            await super()._connect(node, conn, **options)

    def remember(**configs: Any) -> KafkaNetClient:
        made.append(NetworkSelector(**{**configs, "slow_task_threshold_secs": SLOW_SECONDS}))
        return KafkaNetClient(net=made[0], manager=Manager(made[0], **configs))

    _keep_credentials_out_of_logs()
    try:
        return KafkaAdminClient(
            bootstrap_timeout_ms=CONNECT_MS,
            max_in_flight_requests_per_connection=IN_FLIGHT,
            reconnect_backoff_max_ms=BACKOFF_MAX_MS,
            kafka_client=remember,
            **settings,
        )
    except (KafkaError, OSError, ValueError) as error:
        # A constructor that cannot bootstrap leaves its thread and its sockets behind (3.0.12).
        for net in made:
            net.stop()
            net.close()
        cause = causes[0] if causes else error
        raise stream_error(conn_id, settings["bootstrap_servers"], "to connect", cause) from error


def stream_error(conn_id: str, servers: list[str], what: str, error: BaseException) -> StreamError:
    """Return the error to be raised for one of kafka-python's.

    :param what: what was asked for, as in "Kafka refuses us `to connect`".
    """
    from kafka.errors import AuthorizationError, KafkaError, SaslAuthenticationFailedError

    where = f"Kafka at {','.join(servers)} (connection {conn_id!r})"
    # Only texts that cannot hold a secret: an `oauth_cb` may raise anything. Kafka's begin with the error's name.
    reason = (str(error) if isinstance(error, KafkaError) else "") or type(error).__name__
    reason = reason.rstrip(". ")
    if isinstance(error, SaslAuthenticationFailedError):
        return KafkaDenied(
            f"{where} refuses the connection's credentials: {reason}.",
            next_step="Correct its user, password or token.",
            conn_id=conn_id,
        )
    if isinstance(error, AuthorizationError):
        return KafkaDenied(
            f"{where} refuses the connection's user {what}: {reason}.",
            next_step="Grant it the ACL: lag needs DESCRIBE on topics and groups, and DESCRIBE_CONFIGS on topics.",
            conn_id=conn_id,
        )
    return BrokerUnreachable(
        f"{where} does not answer when asked {what}: {reason}.",
        next_step="Check that the brokers run, that this machine reaches their advertised listeners, and "
        "the connection's"
        " security settings.",
        conn_id=conn_id,
    )


class _NoCredentials(logging.Filter):
    """Drops what kafka-python's debug log says of a log-in, and raw bytes: they hold the password or the token."""

    def filter(self, record: logging.LogRecord) -> bool:
        args = record.args if isinstance(record.args, tuple) else ()
        return not any(isinstance(arg, (bytes, bytearray)) or type(arg).__name__.startswith("Sasl") for arg in args)


_no_credentials = _NoCredentials()


def _keep_credentials_out_of_logs() -> None:
    for name in ("kafka.net.connection", "kafka.protocol.parser"):
        logging.getLogger(name).addFilter(_no_credentials)  # the same one is added but once
