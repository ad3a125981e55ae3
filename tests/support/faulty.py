"""A standalone cluster of two hosts, and jobs on it or on this machine to which a test does a fault."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from devstack.drivers import wait_for
from devstack.processes import Process, Processes
from devstack.spark import QUICK_JVM, Spark

SCRIPT = Path(__file__).parents[1] / "integration" / "resilience" / "scripts" / "job.py"
SECONDS = 600.0
ROLLING = {
    "spark.executor.logs.rolling.strategy": "size",
    "spark.executor.logs.rolling.maxSize": "100000",
    "spark.executor.logs.rolling.maxRetainedFiles": "2",
}
"""Spark takes no smaller size than 80 kB."""
SMALL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.executor.extraJavaOptions": QUICK_JVM,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class TwoHosts(Spark):
    """A worker on each of two addresses, as if they were two machines. The second lets its executors' logs roll."""

    recovers = True

    def _start_worker(self, name: str, *_: Any) -> Process:
        if name == "spark-worker":
            return super()._start_worker(name)
        return super()._start_worker(name, "127.0.0.2", [f"-D{key}={value}" for key, value in ROLLING.items()])

    def _recovery(self) -> dict[str, str]:
        return super()._recovery() if self.recovers else {}


@contextlib.contextmanager
def two_hosts(folder: Path, *, recovers: bool = True) -> Iterator[tuple[TwoHosts, Processes]]:
    with contextlib.closing(Processes(folder / "logs")) as processes:
        spark = TwoHosts(folder / "spark", processes, workers=2, cores=2, memory="3g")
        spark.recovers = recovers
        spark.start()
        yield spark, processes


class Faulty:
    """A job, and what can be done to it.

    :param root: its folder.
    """

    def __init__(self, root: Path, popen: subprocess.Popen[bytes]) -> None:
        self.root = root
        self.popen = popen

    @property
    def said(self) -> dict[str, Any]:
        """What it said last of itself; {} before it has begun."""
        assert self.popen.poll() is None, (self.root / "log").read_text()[-4000:]
        path = self.root / "said"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    @property
    def batch(self) -> int:
        """Its last batch; -1 before the first."""
        return int(self.said.get("batch", -1))

    def goes_on(self, batches: int) -> int:
        """Wait until it has run so many more batches; return the last one."""
        goal = self.batch + batches

        def there() -> bool:
            assert self.said.get("active", True), self.said["error"]
            return self.batch >= goal

        wait_for(f"batch {goal}", there, SECONDS)
        return self.batch

    def fails(self) -> str:
        """Wait until its query has failed; return the error."""
        wait_for("its query to fail", lambda: not self.said.get("active", True), SECONDS)
        return str(self.said["error"])

    def executors(self) -> dict[str, psutil.Process]:
        """Its live executors, by id."""
        application, found = self.said.get("application"), {}
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and application in words:
                found[words[words.index("--executor-id") + 1]] = process
        return found

    def count(self, what: str) -> int:
        """How many bytes its files of this name have: its tasks leave one for each thing that they do."""
        return sum(path.stat().st_size for path in self.root.glob(what))


Start = Callable[..., Faulty]


def begin(root: Path, kind: str, spark: Spark | None, conf: Mapping[str, str], variables: Mapping[str, str]) -> Faulty:
    """Start a job of a kind; `spark` is None: in one process of this machine."""
    (root / "in").mkdir(parents=True)
    on = {"spark.master": "local[2]" if spark is None else spark.master_url, "spark.cores.max": "2"}
    environment = {**os.environ, **(spark.environment if spark else {"SPARK_LOCAL_IP": "127.0.0.1"}), **variables}
    with open(root / "log", "wb") as log:
        words = [sys.executable, str(SCRIPT), kind, str(root), json.dumps({**SMALL, **on, **conf})]
        popen = subprocess.Popen(words, env=environment, stdout=log, stderr=log, start_new_session=True)
    return Faulty(root, popen)


def end(job: Faulty) -> None:
    """Stop a job, or kill it."""
    (job.root / "stop").touch()
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.popen.wait(30)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.popen.pid, signal.SIGKILL)
    job.popen.wait()
