"""Read Airflow connections, and return them as the plain values that `clusters` and `kafka` take.

Functions that begin with `a` are for triggers: the threads of a triggerer cannot read connections.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException

from airflow_stream_provider.lifecycle.errors import SpecError

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from airflow_stream_provider.clusters import ClusterConnection
    from airflow_stream_provider.releases.place import StorageConnection


@dataclass(frozen=True)
class Connected:
    """The two connections of a stream.

    :param host: of the cluster's connection, like `port`, `extra`, `login` and `password`.
    :param kafka: extra of Kafka's connection; None when the stream names none.
    :param kubernetes: extra of the Kubernetes connection that the cluster's connection names; None: it names none.
    """

    host: str
    port: int | None
    # The extras may hold passwords, and a dataclass shows its fields.
    extra: Mapping[str, Any] = field(repr=False)
    kafka: Mapping[str, Any] | None = field(default=None, repr=False)
    login: str = ""
    password: str = field(default="", repr=False)
    kubernetes: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def cluster(self) -> ClusterConnection:
        """The cluster's connection."""
        from airflow_stream_provider.clusters import ClusterConnection

        return ClusterConnection(self.host, self.port, self.extra, self.login, self.password, self.kubernetes)


def connect(cluster: str, kafka: str | None) -> Connected:
    """Read the connections of a stream; for tasks.

    :raises SpecError: one of them is missing.
    """
    try:
        found, other = BaseHook.get_connection(cluster), BaseHook.get_connection(kafka) if kafka else None
    except AirflowException as error:
        raise _missing(cluster, kafka, error) from error
    named = _kubernetes(found)
    try:
        return _of(found, other, BaseHook.get_connection(named) if named else None)
    except AirflowException as error:
        raise _no_kubernetes(cluster, named, error) from error


async def aconnect(cluster: str, kafka: str | None) -> Connected:
    """Read the connections of a stream; for triggers.

    :raises SpecError: one of them is missing.
    """
    try:
        found = await BaseHook.aget_connection(cluster)
        other = await BaseHook.aget_connection(kafka) if kafka else None
    except AirflowException as error:
        raise _missing(cluster, kafka, error) from error
    named = _kubernetes(found)
    try:
        return _of(found, other, await BaseHook.aget_connection(named) if named else None)
    except AirflowException as error:
        raise _no_kubernetes(cluster, named, error) from error


def cluster_connection(cluster: str) -> ClusterConnection:
    """Read the connection of a cluster; for tasks.

    :raises SpecError: it is missing.
    """
    return connect(cluster, None).cluster


def kafka_extra(kafka: str) -> Mapping[str, Any]:
    """Read the extra of a Kafka connection; for tasks.

    :raises SpecError: it is missing.
    """
    try:
        return _extra(BaseHook.get_connection(kafka))
    except AirflowException as error:
        raise _no_kafka(kafka, error) from error


async def akafka_extra(kafka: str) -> Mapping[str, Any]:
    """Read the extra of a Kafka connection; for triggers.

    :raises SpecError: it is missing.
    """
    try:
        return _extra(await BaseHook.aget_connection(kafka))
    except AirflowException as error:
        raise _no_kafka(kafka, error) from error


def storage_connection(conn_id: str) -> StorageConnection:
    """Read the connection of a storage; for tasks.

    :raises SpecError: it is missing.
    """
    from airflow_stream_provider.releases.place import StorageConnection

    try:
        found = BaseHook.get_connection(conn_id)
    except AirflowException as error:
        raise SpecError(
            f"The Airflow connection {conn_id!r} cannot be read: {error}".rstrip(".") + ".",
            next_step="Create it, or correct `storage_connection`.",
            conn_id=conn_id,
        ) from error
    return StorageConnection(
        conn_id=conn_id,
        conn_type=found.conn_type or "",
        host=found.host or "",
        port=found.port,
        login=found.login or "",
        password=found.password or "",
        extra=found.extra_dejson,
    )


def _extra(connection: Connection) -> Mapping[str, Any]:
    extra: Mapping[str, Any] = connection.extra_dejson
    return extra


def _no_kafka(kafka: str, error: Exception) -> SpecError:
    return SpecError(
        f"The Airflow connection {kafka!r} cannot be read: {error}".rstrip(".") + ".",
        next_step="Create it, with type kafka.",
        conn_id=kafka,
    )


def _kubernetes(cluster: Connection) -> str:
    """Return the id of the Kubernetes connection that a cluster's connection names; empty: it names none."""
    return str(cluster.extra_dejson.get("kubernetes_conn_id") or "")


def _no_kubernetes(cluster: str, named: str, error: Exception) -> SpecError:
    return SpecError(
        f"The Airflow connection {named!r} cannot be read: {error}".rstrip(".") + ".",
        next_step=f"Create it, with type kubernetes, or correct kubernetes_conn_id in the extra of {cluster!r}.",
        conn_id=named,
    )


def _of(cluster: Connection, kafka: Connection | None, kubernetes: Connection | None) -> Connected:
    return Connected(
        host=cluster.host or "",
        port=cluster.port,
        extra=cluster.extra_dejson,
        kafka=kafka.extra_dejson if kafka else None,
        login=cluster.login or "",
        password=cluster.password or "",
        kubernetes=kubernetes.extra_dejson if kubernetes else None,
    )


def _missing(cluster: str, kafka: str | None, error: Exception) -> SpecError:
    return SpecError(
        f"An Airflow connection of this stream cannot be read: {error}".rstrip(".") + ".",
        next_step=f"Create {cluster!r} (type spark)" + (f" and {kafka!r} (type kafka)." if kafka else "."),
        cluster=cluster,
        kafka=kafka,
    )
