"""A real Kubernetes for the contract of clusters, if the environment names one; docs/own_cluster.md says how."""

from __future__ import annotations

import os
from pathlib import Path

from airflow_stream_provider.clusters import ClusterConnection

NEEDED = ("KUBECONFIG", "STREAM_TEST_NAMESPACE", "STREAM_TEST_TEMPLATE", "STREAM_TEST_ROOT")


def missing() -> list[str]:
    """Return the variables that are not set; none: there is a cluster to test on."""
    return [name for name in NEEDED if not os.environ.get(name)]


def connection() -> ClusterConnection:
    """Return the connection; its pod template names image and service account, and mounts `root`."""
    extra = {
        "kubernetes_conn_id": "from_kubeconfig",
        "namespace": os.environ["STREAM_TEST_NAMESPACE"],
        "template": os.environ["STREAM_TEST_TEMPLATE"],
    }
    return ClusterConnection("k8s://", None, extra, kubernetes={"kube_config_path": os.environ["KUBECONFIG"]})


def root() -> Path:
    """Return the folder that this machine and the pods see under one path."""
    return Path(os.environ["STREAM_TEST_ROOT"])
