"""A real YARN for the contract of clusters, if the environment names one; docs/own_cluster.md says how."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from airflow_stream_provider.clusters import ClusterConnection
from airflow_stream_provider.clusters.connection import ADDRESS

NEEDED = ("YARN_RM", "YARN_USER", "YARN_SPARK_HOME", "YARN_SHARED")
_OPTIONS = ("python", "queue", "worker_hosts", "principal")


def missing() -> list[str]:
    """Return the variables that are not set; none: there is a cluster to test on."""
    return [name for name in NEEDED if not os.environ.get(name)]


def connection() -> ClusterConnection:
    """Return the connection."""
    extra = {ADDRESS: os.environ["YARN_RM"], "spark_home": os.environ["YARN_SPARK_HOME"]}
    extra |= {key: os.environ.get(f"YARN_{key.upper()}", "") for key in _OPTIONS}
    if os.environ.get("YARN_KEYTAB"):
        extra["keytab"] = base64.b64encode(Path(os.environ["YARN_KEYTAB"]).read_bytes()).decode()
    return ClusterConnection("yarn", extra=extra, login=os.environ["YARN_USER"])


def root() -> Path:
    """Return the folder that this machine and all nodes see under one path."""
    return Path(os.environ["YARN_SHARED"])
