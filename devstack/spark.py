"""Run a Spark standalone cluster from pyspark's jars: a master with REST submission and its workers."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from devstack.errors import StackError
from devstack.jars import JarSet, Progress, fetch, spark_connector
from devstack.ports import HOST, free_port
from devstack.processes import Process, Processes, java, stop

START_SECONDS = 180.0
# Halves the start time of a driver on few cores. For high throughput the defaults are better.
QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
DAEMON_JVM = ("-Xms64m", "-Xmx256m", *QUICK_JVM.split(), "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true")


class Spark:
    """A master and its workers on free ports of the loopback address.

    Drivers and executors use this Python. The Kafka connector is on their class path, as on a cluster where it is
    installed.

    :param folder: folder for work and temporary files; emptied at the start.
    :param processes: where its processes are started.
    :param progress: called while jars are fetched.
    :param workers: number of workers.
    :param cores: cores that each worker offers. It may be more than the machine has, because the demo's tasks mostly
        wait.
    :param memory: memory that each worker offers, in Spark's notation.
    :param libraries: jars on the class path of drivers and executors besides the Kafka connector.
    :param core_site: Hadoop's settings of the cluster, as in its core-site.xml.
    """

    def __init__(
        self,
        folder: Path,
        processes: Processes,
        progress: Progress | None = None,
        *,
        workers: int = 1,
        cores: int,
        memory: str,
        libraries: Sequence[JarSet] = (),
        core_site: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.home = bundled_spark()
        self.cores = cores
        self.memory = memory
        self.host = HOST
        self.port, self.rest_port, self.ui_port = (free_port() for _ in range(3))
        self.master_url = f"spark://{HOST}:{self.port}"
        self.rest_url = f"http://{HOST}:{self.rest_port}"
        self.ui_url = f"http://{HOST}:{self.ui_port}"
        self.master: Process | None = None
        self.workers: list[Process] = []
        self._number = workers
        self._processes = processes
        self._progress = progress
        self._libraries = libraries
        self._core_site = core_site or {}

    def start(self) -> None:
        """Fetch the connector if it is missing, start master and workers, and wait until all workers have registered.

        :raises StackError: Java or a jar is missing, or a worker has not registered within 180 s.
        """
        runtime = java()
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("work", "tmp", "recovery"):
            (self.folder / name).mkdir(parents=True)
        self.connector = fetch(spark_connector(self.home), progress=self._progress)
        libraries = [fetch(each, progress=self._progress) for each in self._libraries]
        self.class_path = ":".join(f"{folder}/*" for folder in (self.connector, *libraries))
        self._write_core_site()
        command = [runtime, *DAEMON_JVM, "-cp", spark_class_path(self.home)]
        self.master = self._processes.start(
            "spark-master",
            [
                *command,
                "-Dspark.master.rest.enabled=true",
                f"-Dspark.master.rest.port={self.rest_port}",
                # A master that is started again knows its workers, drivers and applications; else it kills them.
                "-Dspark.deploy.recoveryMode=FILESYSTEM",
                f"-Dspark.deploy.recoveryDirectory={self.folder / 'recovery'}",
                "org.apache.spark.deploy.master.Master",
                *("--host", HOST, "--port", str(self.port), "--webui-port", str(self.ui_port)),
            ],
            env=self.environment,
            folder=self.folder,
        )
        self.workers = [self._start_worker(name) for name in self.worker_names]
        self._processes.wait_for(
            "Spark's workers to register", self._registered, START_SECONDS, self.master, *self.workers
        )

    @property
    def worker_names(self) -> list[str]:
        """Names of the workers' processes: spark-worker, spark-worker-2, …"""
        return ["spark-worker", *(f"spark-worker-{number}" for number in range(2, self._number + 1))]

    def _start_worker(self, name: str) -> Process:
        return self._processes.start(
            name,
            [
                *(java(), *DAEMON_JVM, "-cp", spark_class_path(self.home)),
                "org.apache.spark.deploy.worker.Worker",
                *("--host", HOST, "--port", str(free_port()), "--webui-port", str(free_port())),
                *("--cores", str(self.cores), "--memory", self.memory, "--work-dir", str(self.folder / "work")),
                self.master_url,
            ],
            env=self.environment,
            folder=self.folder,
        )

    def stop(self) -> None:
        """Stop the master, and the workers with their drivers and executors."""
        stop(*self.workers, self.master)

    @property
    def conf(self) -> dict[str, str]:
        """Spark conf for applications: quick start on few cores."""
        return {
            "spark.driver.extraJavaOptions": QUICK_JVM,
            "spark.executor.extraJavaOptions": QUICK_JVM,
        }

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of master and workers; drivers and executors inherit them."""
        return {
            "SPARK_HOME": str(self.home),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            # All ports of Spark, also those of web UIs, are bound to this address.
            "SPARK_LOCAL_IP": HOST,
            "SPARK_PUBLIC_DNS": HOST,
            "SPARK_LOCAL_DIRS": str(self.folder / "tmp"),
            "SPARK_DIST_CLASSPATH": self.class_path,
            # The worker needs it to build the class path of drivers; usually bin/spark-class sets it.
            "SPARK_SCALA_VERSION": next(self.home.glob("jars/spark-core_*")).name.partition("_")[2].partition("-")[0],
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }

    @property
    def connection(self) -> dict[str, Any]:
        """An Airflow connection of type ``spark`` to this cluster."""
        extra = {"rest_url": self.rest_url, "master_ui": self.ui_url}
        return {"conn_type": "spark", "host": f"spark://{HOST}", "port": self.port, "extra": extra}

    def status(self) -> dict[str, Any]:
        """Return the master's state as JSON: workers, drivers, applications. {} if it does not answer."""
        with (
            contextlib.suppress(OSError, ValueError),
            urllib.request.urlopen(f"{self.ui_url}/json/", timeout=5) as page,
        ):
            found: dict[str, Any] = json.load(page)
            return found
        return {}

    def _write_core_site(self) -> None:
        if self._core_site:
            (self.folder / "conf").mkdir()
            root = ElementTree.Element("configuration")
            for name, value in self._core_site.items():
                one = ElementTree.SubElement(root, "property")
                ElementTree.SubElement(one, "name").text = name
                ElementTree.SubElement(one, "value").text = value
            ElementTree.ElementTree(root).write(self.folder / "conf" / "core-site.xml")

    def _registered(self) -> bool:
        found = [worker for worker in self.status().get("workers", ()) if worker["state"] == "ALIVE"]
        return len(found) == self._number


def spark_class_path(home: Path) -> str:
    """Return the class path as Spark's own launcher begins it: only then can JVMs share one archive of classes."""
    logging = next(home.glob("jars/slf4j-api-*.jar"))
    return f"{logging}:{home}/jars/*"


def bundled_spark() -> Path:
    """Return the folder of the Spark inside pyspark, without importing pyspark.

    :raises StackError: pyspark is not installed.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise StackError(
            "pyspark is not installed in this environment.",
            next_step="Install airflow-stream-provider[pyspark] into it.",
        )
    return Path(spec.origin).parent
