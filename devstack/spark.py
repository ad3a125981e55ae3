"""A real Spark standalone cluster: master with REST submission, and one worker, straight from pyspark's own jars."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from devstack.errors import StackError
from devstack.jars import Progress, fetch, spark_connector
from devstack.ports import HOST, free_port
from devstack.processes import Process, Processes, java, stop

START_SECONDS = 180.0
# What halves the time until a driver is up on few cores; throughput under load would want the defaults.
QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
DAEMON_JVM = ("-Xms64m", "-Xmx256m", *QUICK_JVM.split(), "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true")


class Spark:
    """A master and a worker on free ports of the loopback address.

    Drivers and executors run with this Python; the Kafka connector is on the class path of all of them, as on a cluster
    where it is installed.

    :param folder: for work and temporary files; emptied first
    :param progress: called while jars are fetched
    :param cores: what the worker offers; may be more than the machine has, since the demo's tasks mostly wait
    :param memory: what the worker offers, in Spark's notation
    """

    def __init__(
        self,
        folder: Path,
        processes: Processes,
        progress: Progress | None = None,
        *,
        cores: int,
        memory: str,
    ) -> None:
        self.folder = folder
        self.home = bundled_spark()
        self.cores = cores
        self.memory = memory
        self.host = HOST
        self.port, self.rest_port, self.ui_port, self.worker_ui_port = (free_port() for _ in range(4))
        self.master_url = f"spark://{HOST}:{self.port}"
        self.rest_url = f"http://{HOST}:{self.rest_port}"
        self.ui_url = f"http://{HOST}:{self.ui_port}"
        self.master: Process | None = None
        self.worker: Process | None = None
        self._processes = processes
        self._progress = progress

    def start(self) -> None:
        """Fetch the connector where it is missing, start both, and wait until the master has the worker."""
        runtime = java()
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("work", "tmp", "conf"):
            (self.folder / name).mkdir(parents=True)
        self.connector = fetch(spark_connector(self.home), progress=self._progress)
        command = [runtime, *DAEMON_JVM, "-cp", f"{self.home}/jars/*"]
        self.master = self._processes.start(
            "spark-master",
            [
                *command,
                "-Dspark.master.rest.enabled=true",
                f"-Dspark.master.rest.port={self.rest_port}",
                "org.apache.spark.deploy.master.Master",
                *("--host", HOST, "--port", str(self.port), "--webui-port", str(self.ui_port)),
            ],
            env=self.environment,
            folder=self.folder,
        )
        worker = self.start_worker()
        self._processes.wait_for("Spark's worker to register", self._registered, START_SECONDS, self.master, worker)

    def start_worker(self) -> Process:
        """Start the worker; again, after a test has killed it."""
        self.worker = self._processes.start(
            "spark-worker",
            [
                *(java(), *DAEMON_JVM, "-cp", f"{self.home}/jars/*"),
                "org.apache.spark.deploy.worker.Worker",
                *("--host", HOST, "--port", str(free_port()), "--webui-port", str(self.worker_ui_port)),
                *("--cores", str(self.cores), "--memory", self.memory, "--work-dir", str(self.folder / "work")),
                self.master_url,
            ],
            env=self.environment,
            folder=self.folder,
        )
        return self.worker

    def stop(self) -> None:
        """Stop the worker, with its drivers and executors, and the master."""
        stop(self.worker, self.master)

    @property
    def conf(self) -> dict[str, str]:
        """Conf for applications: quick to start on few cores, and with the connector on a local master too."""
        path = f"{self.connector}/*"
        return {
            "spark.driver.extraClassPath": path,
            "spark.executor.extraClassPath": path,
            "spark.driver.extraJavaOptions": QUICK_JVM,
            "spark.executor.extraJavaOptions": QUICK_JVM,
        }

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the daemons; drivers and executors inherit them from the worker."""
        return {
            "SPARK_HOME": str(self.home),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            # Every listener of Spark, web pages too, binds what this names.
            "SPARK_LOCAL_IP": HOST,
            "SPARK_PUBLIC_DNS": HOST,
            "SPARK_LOCAL_DIRS": str(self.folder / "tmp"),
            "SPARK_DIST_CLASSPATH": f"{self.connector}/*",
            # The worker builds its drivers' class path by it; bin/spark-class would set it.
            "SPARK_SCALA_VERSION": next(self.home.glob("jars/spark-core_*")).name.partition("_")[2].partition("-")[0],
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }

    @property
    def connection(self) -> dict[str, Any]:
        """An Airflow connection of type `spark` to this cluster."""
        extra = {"rest_url": self.rest_url, "master_ui": self.ui_url}
        return {"conn_type": "spark", "host": f"spark://{HOST}", "port": self.port, "extra": extra}

    def status(self) -> dict[str, Any]:
        """What the master's page says as JSON: workers, drivers, applications; {} while it does not answer."""
        with (
            contextlib.suppress(OSError, ValueError),
            urllib.request.urlopen(f"{self.ui_url}/json/", timeout=5) as page,
        ):
            found: dict[str, Any] = json.load(page)
            return found
        return {}

    def _registered(self) -> bool:
        return any(worker["state"] == "ALIVE" for worker in self.status().get("workers", ()))


def bundled_spark() -> Path:
    """The Spark inside this environment's pyspark, found without importing it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise StackError(
            "pyspark is not installed in this environment.",
            next_step="Install airflow-stream-provider[pyspark] into it.",
        )
    return Path(spec.origin).parent
