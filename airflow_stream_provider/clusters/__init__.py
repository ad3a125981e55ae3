"""Run Spark drivers on a standalone cluster, YARN, Kubernetes or this machine: submit, find, check, kill."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_stream_provider import lazily

if TYPE_CHECKING:
    from airflow_stream_provider.clusters.cluster import Cluster as Cluster
    from airflow_stream_provider.clusters.cluster import DriverState as DriverState
    from airflow_stream_provider.clusters.cluster import DriverView as DriverView
    from airflow_stream_provider.clusters.cluster import FoundDrivers as FoundDrivers
    from airflow_stream_provider.clusters.cluster import Remains as Remains
    from airflow_stream_provider.clusters.cluster import SubmitUnclear as SubmitUnclear
    from airflow_stream_provider.clusters.cluster import UnmanagedView as UnmanagedView
    from airflow_stream_provider.clusters.cluster import status_of as status_of
    from airflow_stream_provider.clusters.connection import ClusterConnection as ClusterConnection
    from airflow_stream_provider.clusters.job import Job as Job
    from airflow_stream_provider.clusters.job import SecretInConf as SecretInConf
    from airflow_stream_provider.clusters.job import refuse_secret_arguments as refuse_secret_arguments
    from airflow_stream_provider.clusters.job import refuse_secret_conf as refuse_secret_conf
    from airflow_stream_provider.clusters.job import refuse_secret_environment as refuse_secret_environment
    from airflow_stream_provider.clusters.job import refuse_secret_values as refuse_secret_values
    from airflow_stream_provider.clusters.whose import Whose as Whose

# A DAG file that is parsed needs no more than what a secret looks like.
__getattr__ = lazily(
    __name__,
    {
        "cluster": "Cluster DriverState DriverView FoundDrivers Remains SubmitUnclear UnmanagedView status_of",
        "connection": "ClusterConnection",
        "job": "Job SecretInConf refuse_secret_arguments refuse_secret_conf refuse_secret_environment "
        "refuse_secret_values",
        "whose": "Whose",
    },
)


def import_client(connection: ClusterConnection) -> None:
    """Import the client of a connection's cluster, for callers that have little time later. Nothing is read or asked.

    One that is not installed is told when the cluster is asked.
    """
    if connection.is_kubernetes:
        # Two thousand modules: more than a second, and many on a busy machine.
        with suppress(ImportError):
            importlib.import_module("airflow.providers.cncf.kubernetes.hooks.kubernetes")


def open_cluster(connection: ClusterConnection) -> Cluster:
    """Return the cluster that an Airflow connection names. The cluster is not contacted yet.

    :raises SpecError: the connection's host, port or extra is not valid.
    """
    # Imported here because every DAG file imports this package, and HTTP clients are slow to import.
    from airflow_stream_provider.clusters.kubernetes import KubernetesCluster
    from airflow_stream_provider.clusters.kubernetes_connection import kubernetes_settings
    from airflow_stream_provider.clusters.local import LocalCluster
    from airflow_stream_provider.clusters.standalone import StandaloneCluster

    if connection.is_local:
        return LocalCluster(connection.local_master)
    if connection.is_yarn:
        from airflow_stream_provider.clusters.connection import YarnSettings
        from airflow_stream_provider.clusters.yarn import YarnCluster

        settings = YarnSettings.of(connection)
        if settings.kerberos is not None:
            from airflow_stream_provider.clusters.yarn_kerberos import KerberosYarnCluster

            return KerberosYarnCluster(settings, settings.kerberos)
        return YarnCluster(settings)
    if connection.is_kubernetes:
        return KubernetesCluster(kubernetes_settings(connection))
    return StandaloneCluster(connection.masters)
