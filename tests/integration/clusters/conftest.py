"""One real Spark cluster for this folder's tests, and the same questions asked of it and of the local one."""

from __future__ import annotations

import json
import secrets
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_stream_provider.clusters import Cluster, ClusterConnection, Found, Job, open_cluster
from airflow_stream_provider.control.releases import LAUNCHER, RUNTIME_ZIP
from airflow_stream_provider.local.stack import LocalStack
from tests.support.drivers import wait_for

SMALL = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@dataclass
class Place:
    """A cluster, its connection as JSON for other processes, and jobs for it."""

    cluster: Cluster
    connection: ClusterConnection
    root: Path

    def job(self, code: str = "stay", *, deployment: str | None = None, **conf: str) -> Job:
        """Return a job: `stay` until it is killed, or leave with an exit code at once; `spark_cores_max` is a conf."""
        # Drawn anew: deployments are known by their id on the whole machine, which other tests use too.
        deployment = deployment or f"orders-1-{secrets.token_hex(4)}"
        folder = self.root / "orders" / "releases" / "abc"
        if not folder.is_dir():
            folder.mkdir(parents=True)
            shutil.copy(Path(__file__).with_name("application.py"), folder / LAUNCHER)
            (folder / "helper.py").write_text("def double(number):\n    return 2 * number\n")
            with zipfile.ZipFile(folder / RUNTIME_ZIP, "w") as archive:
                archive.writestr("nothing.py", "")
        return Job(
            stream="orders",
            deployment=deployment,
            app_name=f"orders 1 [{deployment}]",
            release_dir=str(folder),
            arguments=("--stream", "orders", "--deployment", deployment, "--", str(self.facts_file(deployment)), code),
            py_files=("helper.py",),
            conf={**SMALL, **{key.replace("_", "."): value for key, value in conf.items()}},
        )

    def facts_file(self, deployment: str) -> Path:
        return self.root / f"{deployment}.json"

    def facts(self, job: Job, submission: str) -> dict[str, Any]:
        """Wait until the driver has run a job on its executors; return what it found."""
        file = self.facts_file(job.deployment)

        def there() -> bool:
            assert not self.cluster.status(submission).terminal, self.cluster.explain(submission)
            return file.is_file()

        wait_for(f"{job.deployment} to run on executors", there)
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    def certain(self, job: Job, since: float) -> Found:
        """Wait until the cluster can tell."""

        def found() -> Found | None:
            answer = self.cluster.find(job.deployment, since)
            return answer if answer.certain else None

        answer = wait_for(f"certainty about {job.deployment}", found)
        assert isinstance(answer, Found)
        return answer

    def end(self, submission: str, deployment: str) -> None:
        """Kill a driver and wait for the confirmation."""
        self.cluster.kill(submission)
        wait_for(f"{submission} to be gone", lambda: self.cluster.gone(submission, deployment))


def processes_of(deployment: str) -> list[psutil.Process]:
    """Every process that names the deployment, and all below it: JVM, Python, Python workers."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "--deployment" in words and deployment in words:
            try:
                found |= {p.pid: p for p in (process, *process.children(recursive=True))}
            except psutil.NoSuchProcess:
                continue
    return list(found.values())


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    with LocalStack(tmp_path_factory.mktemp("stack"), kafka=False, worker_cores=4, worker_memory="3g") as started:
        yield started


@pytest.fixture
def standalone(stack: LocalStack, tmp_path: Path) -> Iterator[Place]:
    spark = stack.spark
    connection = ClusterConnection(
        f"spark://{spark.host}", spark.port, {"rest_port": spark.rest_port, "master_ui": spark.ui_url}
    )
    place = Place(open_cluster(connection), connection, tmp_path)
    yield place
    # Nothing of one test takes the next one's cores.
    for driver in spark.status().get("activedrivers", ()):
        place.cluster.kill(driver["id"])
    wait_for("the cluster to be idle", lambda: spark.status().get("coresused") == 0)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    connection = ClusterConnection("local[2]")
    place = Place(open_cluster(connection), connection, tmp_path)
    yield place
    for folder in (tmp_path / "orders" / "drivers").glob("*"):
        place.cluster.kill(str(folder))


@pytest.fixture(params=["standalone", "here"])
def place(request: pytest.FixtureRequest) -> Place:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Place)
    return found
