"""Read Airflow connections, and return them as the plain values that `clusters` and `kafka` take.

Functions that begin with `a` are for triggers: the threads of a triggerer cannot read connections.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_stream_provider.lifecycle.errors import ConnectionUnavailable

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from airflow_stream_provider.clusters import ClusterConnection
    from airflow_stream_provider.releases.place import StorageConnection


@dataclass(frozen=True)
class Connected:
    """The two connections of a stream; `kafka`: the extra of the second, None when the stream names none."""

    cluster: ClusterConnection
    # It may hold passwords, and a dataclass shows its fields.
    kafka: Mapping[str, Any] | None = field(repr=False)


def connect(cluster: str, kafka: str | None) -> Connected:
    """Read the connections of a stream; for tasks.

    :raises ConnectionUnavailable: one of them cannot be read.
    """
    found, other = _read(cluster, _create(cluster, *_CLUSTERS)), _read(kafka, _create(kafka, _KAFKA)) if kafka else None
    named = _kubernetes(found)
    return _of(found, other, _read(named, _create_kubernetes(named, cluster)) if named else None)


async def aconnect(cluster: str, kafka: str | None) -> Connected:
    """Read the connections of a stream; for triggers.

    :raises ConnectionUnavailable: one of them cannot be read.
    """
    found = await _aread(cluster, _create(cluster, *_CLUSTERS))
    other = await _aread(kafka, _create(kafka, _KAFKA)) if kafka else None
    named = _kubernetes(found)
    return _of(found, other, await _aread(named, _create_kubernetes(named, cluster)) if named else None)


def cluster_connection(cluster: str) -> ClusterConnection:
    """Read the connection of a cluster; for tasks.

    :raises ConnectionUnavailable: it cannot be read.
    """
    return connect(cluster, None).cluster


def kafka_extra(kafka: str) -> Mapping[str, Any]:
    """Read the extra of a Kafka connection; for tasks.

    :raises ConnectionUnavailable: it cannot be read.
    """
    return _extra(_read(kafka, _create(kafka, _KAFKA)))


async def akafka_extra(kafka: str) -> Mapping[str, Any]:
    """Read the extra of a Kafka connection; for triggers.

    :raises ConnectionUnavailable: it cannot be read.
    """
    return _extra(await _aread(kafka, _create(kafka, _KAFKA)))


def storage_connection(conn_id: str) -> StorageConnection:
    """Read the connection of a storage; for tasks.

    :raises ConnectionUnavailable: it cannot be read.
    """
    from airflow_stream_provider.releases.place import StorageConnection

    found = _read(conn_id, f"Create {conn_id!r}, or correct `storage_connection`")
    return StorageConnection(
        conn_id=conn_id,
        conn_type=found.conn_type or "",
        host=found.host or "",
        port=found.port,
        login=found.login or "",
        password=found.password or "",
        extra=found.extra_dejson,
    )


def database_hook(conn_id: str) -> Any:
    """Return the hook of a connection to an SQL database, which runs statements; for tasks.

    :raises ConnectionUnavailable: it cannot be read.
    """
    found: Any = _read(conn_id, f"Create {conn_id!r}, of the sink's database")
    return found.get_hook(hook_params={"log_sql": False})


def _read(conn_id: str, create: str) -> Connection:
    try:
        return BaseHook.get_connection(conn_id)
    except Exception as error:
        raise _unavailable(conn_id, create, error) from error


async def _aread(conn_id: str, create: str) -> Connection:
    try:
        return await BaseHook.aget_connection(conn_id)
    except Exception as error:
        raise _unavailable(conn_id, create, error) from error


def _unavailable(conn_id: str, create: str, error: Exception) -> ConnectionUnavailable:
    """Return the error for people; the text of a backend may hold secrets."""
    if isinstance(error, AirflowNotFoundException):
        why = "it is not defined, or what keeps it (a secrets backend, Airflow's API server) does not answer"
    else:
        why = f"Airflow says {type(error).__name__}"
    return ConnectionUnavailable(
        f"The Airflow connection {conn_id!r} cannot be read: {why}.",
        next_step=f"{create}; if it is there, look at the log of what keeps it.",
        conn_id=conn_id,
    )


_CLUSTERS = ("spark_standalone", "spark_yarn", "spark_kubernetes")
_KAFKA = "kafka_stream"
"""Our own types of connections (get_provider_info.py). Any other type, such as ``spark`` or ``kafka``, will do."""


def _create(conn_id: str, *kinds: str) -> str:
    return f"Create {conn_id!r} (type {' or '.join(kinds)})"


def _create_kubernetes(named: str, cluster: str) -> str:
    return f"{_create(named, 'kubernetes')}, or correct kubernetes_conn_id in the extra of {cluster!r}"


def _extra(connection: Connection) -> Mapping[str, Any]:
    """Return the extra; in one of our forms, an empty field leaves its setting out."""
    extra: Mapping[str, Any] = connection.extra_dejson
    if connection.conn_type not in (*_CLUSTERS, _KAFKA):
        return extra
    return {name: value for name, value in extra.items() if value not in (None, "")}


def _kubernetes(cluster: Connection) -> str:
    """Return the id of the Kubernetes connection that a cluster's connection names; empty: it names none."""
    return str(cluster.extra_dejson.get("kubernetes_conn_id") or "")


def _of(cluster: Connection, kafka: Connection | None, kubernetes: Connection | None) -> Connected:
    from airflow_stream_provider.clusters import ClusterConnection
    from airflow_stream_provider.clusters.connection import host_of

    host, extra = host_of(cluster.conn_type or "", cluster.host or ""), _extra(cluster)
    pods = _extra(kubernetes) if kubernetes else None
    found = ClusterConnection(host, cluster.port, extra, cluster.login or "", cluster.password or "", pods)
    return Connected(found, _extra(kafka) if kafka else None)
