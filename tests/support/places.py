"""Clusters on which a test runs drivers, and jobs for them."""

from __future__ import annotations

import json
import secrets
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_stream_provider.clusters import Cluster, ClusterConnection, FoundDrivers, Job, status_of
from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP
from airflow_stream_provider.lifecycle.ids import application_name
from devstack.drivers import wait_for

SMALL = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
LOG = "0a" * 16
"""What tells the control log of a test's jobs from any other."""
CLUSTERS = ("standalone", "here", "from_the_docs", "on_yarn", "real_yarn", "standin_kubernetes", "real_kubernetes")
"""The fixtures of all clusters."""
QUICK = ("standalone", "here", "from_the_docs")
"""Those of which `make test` runs every test of the contract."""


def clusters(*also: str) -> list[Any]:
    """Return all clusters as a test's parameters, marked `system` but for the quick ones and those in `also`."""
    quick = (*QUICK, *also)
    return [name if name in quick else pytest.param(name, marks=pytest.mark.system) for name in CLUSTERS]


@dataclass
class Place:
    """A cluster with its connection, and jobs for it.

    :param root: a folder that the test and the drivers see under one path.
    :param conf: Spark conf that every job needs here.
    :param needs_session: it takes a driver that makes no SparkSession for failed.
    :param on_this_machine: whether the drivers' processes are this machine's.
    :param launcher: what stands in for the launcher.
    :param opener: the module whose `open_cluster` opens the connection.
    :param jobs: all that were made.
    """

    cluster: Cluster
    connection: ClusterConnection
    root: Path
    conf: Mapping[str, str] = field(default_factory=dict)
    needs_session: bool = False
    on_this_machine: bool = True
    launcher: str = "app_facts.py"
    opener: str = "airflow_stream_provider.clusters"
    jobs: list[Job] = field(default_factory=list)

    def job(self, code: str = "stay", *, deployment: str | None = None, log: str = LOG, **conf: str) -> Job:
        """Return a job.

        :param code: ``stay``: run until it is killed; otherwise the exit code with which it ends at once.
        :param log: whose its deployment is; empty: as where it was not known when the driver was submitted.
        :param conf: Spark conf, with underscores instead of dots, such as `spark_cores_max`.
        """
        # Random, because a deployment is known by its id on the whole machine, and other tests run there too.
        deployment = deployment or f"orders-1-{secrets.token_hex(4)}"
        folder = self.root / "orders" / "releases" / "abc"
        if not folder.is_dir():
            folder.mkdir(parents=True)
            shutil.copy(Path(__file__).with_name(self.launcher), folder / LAUNCHER)
            (folder / "helper.py").write_text("def double(number):\n    return 2 * number\n")
            with zipfile.ZipFile(folder / RUNTIME_ZIP, "w") as archive:
                archive.writestr("nothing.py", "")
        job = Job(
            stream="orders",
            deployment=deployment,
            app_name=application_name("orders", "1", deployment, log),
            release_dir=str(folder),
            stream_folder=str(self.root / "orders"),
            arguments=(
                *("--control", self.root.as_uri(), "--stream", "orders", "--deployment", deployment),
                *("--", str(self.facts_file(deployment)), f"session-{code}" if self._makes_session(code) else code),
            ),
            py_files=("helper.py",),
            log=log,
            conf={**SMALL, **self.conf, **{key.replace("_", "."): value for key, value in conf.items()}},
        )
        self.jobs.append(job)
        return job

    def _makes_session(self, code: str) -> bool:
        return self.needs_session and code != "stay"

    def facts_file(self, deployment: str) -> Path:
        return self.root / f"{deployment}.json"

    def facts(self, job: Job, submission: str) -> dict[str, Any]:
        """Wait until the driver has run a job on its executors, and return what the driver wrote."""
        file = self.facts_file(job.deployment)

        def there() -> bool:
            assert not status_of(self.cluster, submission).terminal, status_of(self.cluster, submission).description
            return file.is_file()

        wait_for(f"{job.deployment} to run on executors", there)
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    def certain(self, job: Job, since: float) -> FoundDrivers:
        """Return the drivers of a job as soon as the cluster's answer is certain."""

        def found() -> FoundDrivers | None:
            answer = self.cluster.find(job.whose, since)
            return answer if answer.certain else None

        answer = wait_for(f"certainty about {job.deployment}", found)
        assert isinstance(answer, FoundDrivers)
        return answer

    def end(self, submission: str, job: Job) -> None:
        """Kill a driver and wait until it is confirmed gone."""
        self.cluster.kill(submission)
        wait_for(f"{submission} to be gone", lambda: self.cluster.remains(submission, job.whose).gone)


def processes_of(deployment: str) -> list[psutil.Process]:
    """Return the processes that name the deployment and their children: JVM, Python, Python workers."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "--deployment" in words and deployment in words:
            try:
                found |= {p.pid: p for p in (process, *process.children(recursive=True))}
            except psutil.NoSuchProcess:
                continue
    return list(found.values())
