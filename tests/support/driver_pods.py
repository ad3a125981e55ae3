"""Manifests of drivers' pods, for tests that never run them."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.clusters import ClusterConnection, Job
from airflow_stream_provider.clusters.driver_pod import manifest
from airflow_stream_provider.clusters.kubernetes_connection import KubernetesSettings, kubernetes_settings


def settings(**extra: Any) -> KubernetesSettings:
    given = {"namespace": "streams", "image": "spark:4.0.0", "service_account": "spark", **extra}
    return kubernetes_settings(ClusterConnection("k8s://https://api", None, given, password="token"))


def pod_of(given: Job, **extra: Any) -> dict[str, Any]:
    return manifest(given, settings(**extra))
