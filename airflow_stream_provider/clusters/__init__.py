"""Where drivers run: submit, find again, watch, kill. Standalone clusters, and this machine."""

from __future__ import annotations

from airflow_stream_provider.clusters.cluster import Cluster, DriverState, Found, SubmitUnclear
from airflow_stream_provider.clusters.connection import ClusterConnection
from airflow_stream_provider.clusters.job import Job
from airflow_stream_provider.clusters.secrets import SecretInConf, refuse_secret_arguments, refuse_secret_conf

__all__ = [
    "Cluster",
    "ClusterConnection",
    "DriverState",
    "Found",
    "Job",
    "SecretInConf",
    "SubmitUnclear",
    "open_cluster",
    "refuse_secret_arguments",
    "refuse_secret_conf",
]


def open_cluster(connection: ClusterConnection) -> Cluster:
    """Return the cluster that a connection names; nothing is asked of it yet.

    :raises SpecError: the connection's host, port or extra cannot be used.
    """
    # Here, because every DAG file imports this package and HTTP clients are slow to import.
    from airflow_stream_provider.clusters.local import LocalCluster
    from airflow_stream_provider.clusters.standalone import StandaloneCluster

    if connection.is_local:
        return LocalCluster(connection.local_master)
    return StandaloneCluster(connection.masters)
