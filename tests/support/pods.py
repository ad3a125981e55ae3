"""A stand-in for Kubernetes whose drivers are shell scripts: what a pod's end means, without a Spark to wait for."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_stream_provider.clusters import ClusterConnection, Job
from airflow_stream_provider.clusters.kubernetes import KubernetesCluster
from airflow_stream_provider.clusters.kubernetes_connection import CONTAINER, kubernetes_settings
from devstack.drivers import wait_for
from devstack.kubernetes import NAMESPACE, TOKEN, StandIn, standin
from tests.support.jobs import job
from tests.support.places import LOG

# The last argument says what it does. SIGTERM ends `sleep`.
SUBMIT = """#!/bin/sh
for last; do :; done
case "$last" in
  stay) exec sleep 600 ;;
  deaf) trap '' TERM; echo deaf; while :; do sleep 0.1; done ;;
  *) echo "password=hunter2"; echo "it ends with $last" >&2; exit "$last" ;;
esac
"""


@dataclass
class Pods:
    """The stand-in, and jobs for it."""

    server: StandIn

    def connection(self, **extra: Any) -> ClusterConnection:
        host = f"k8s://{self.server.address}"
        return ClusterConnection(host, None, {**self.server.extra, **extra}, password=TOKEN)

    def kube_config(self) -> dict[str, Any]:
        """Return what a file of kubectl says of the server."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.server.address}}],
            "users": [{"name": "c", "user": {"token": TOKEN}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        }

    def cluster(self, **extra: Any) -> KubernetesCluster:
        return KubernetesCluster(kubernetes_settings(self.connection(**extra)))

    def job(self, code: str = "stay", *, deployment: str = "", log: str = LOG, **changes: Any) -> Job:
        """Return a job: ``stay``, ``deaf`` (until SIGKILL), or the exit code with which it ends at once."""
        deployment = deployment or f"orders-1-{secrets.token_hex(4)}"
        arguments = (
            "--control",
            "file:///data",
            "--stream",
            "orders",
            "--deployment",
            deployment,
            "--",
            "app.py",
            code,
        )
        return job(deployment=deployment, app_name=f"orders 1 [{deployment}]", arguments=arguments, log=log, **changes)

    def pod(self, submission: str) -> dict[str, Any]:
        """Return the driver's pod as the API server has it."""
        found: dict[str, Any] = self.server.ask("GET", f"namespaces/{NAMESPACE}/pods/{submission.partition('/')[2]}")
        return found

    def running(self, given: Job) -> str:
        """Submit a job, wait until its container runs, and return its submission."""
        submission = self.cluster().submit(given)
        wait_for(f"{submission} to run", lambda: self.pod(submission)["status"]["phase"] == "Running")
        return submission

    def executor(self, submission: str) -> str:
        """Add a pod as Spark makes one for an executor of this driver, and return its name when it runs."""
        driver = self.pod(submission)
        label = driver["metadata"]["labels"]["spark-app-selector"]
        name = f"{label}-exec-1"
        owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
        owner |= {"name": driver["metadata"]["name"], "uid": driver["metadata"]["uid"]}
        labels = {"spark-role": "executor", "airflow-stream-provider/driver": label}
        self.server.ask(
            "POST",
            f"namespaces/{NAMESPACE}/pods",
            {
                "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
                "spec": {
                    "terminationGracePeriodSeconds": 2,
                    "containers": [{"name": "executor", "image": self.server.extra["image"], "args": ["sleep", "600"]}],
                },
            },
        )
        wait_for(f"{name} to run", lambda: self.pod(f"/{name}")["status"]["phase"] == "Running")
        return name

    def clear(self) -> None:
        """End all pods, with or without their finalizers, and take back all faults."""
        self.server.ask("POST", "/stand-in/allow/all")
        self.server.ask("POST", "/stand-in/lose/0")
        for kind in ("resourcequotas", "secrets"):
            self.server.ask("DELETE", f"namespaces/{NAMESPACE}/{kind}")
        for pod in self.server.pods():
            path = f"namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
            change = {"metadata": {"finalizers": None}}
            self.server.ask("PATCH", path, change, "application/merge-patch+json")
            with contextlib.suppress(OSError):  # it went with the finalizer
                self.server.ask("DELETE", path, {"gracePeriodSeconds": 0})
        wait_for("all pods to be gone", lambda: not self.server.pods())


def template(**container: Any) -> dict[str, Any]:
    """Return a pod template with this in its container."""
    return {"spec": {"containers": [{"name": CONTAINER, **container}]}}


@contextlib.contextmanager
def pods_in(folder: Path) -> Iterator[Pods]:
    """Run the stand-in, with shell scripts for drivers."""
    script = folder / "spark" / "bin" / "spark-submit"
    script.parent.mkdir(parents=True)
    script.write_text(SUBMIT)
    script.chmod(0o755)
    with standin(folder, {"SPARK_HOME": str(folder / "spark")}) as server:
        yield Pods(server)
