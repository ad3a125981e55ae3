"""Run a Spark standalone cluster from pyspark's jars: masters with REST submission, and workers."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from devstack.errors import StackError
from devstack.hadoop_conf import write_properties
from devstack.jars import JarSet, Progress, fetch, spark_connector
from devstack.ports import HOST, free_port
from devstack.processes import Process, Processes, java, stop
from devstack.spark_master import Master
from devstack.zookeeper import ZooKeeper

START_SECONDS = 600.0
# Halves the start time of a driver on few cores. For high throughput the defaults are better.
QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
DAEMON_JVM = ("-Xms64m", "-Xmx256m", *QUICK_JVM.split(), "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true")


class Spark:
    """A master, or several of which one leads, and workers, on free ports of the loopback address.

    Drivers and executors use this Python. The Kafka connector is on their class path, as on a cluster where it is
    installed.

    :param folder: folder for work and temporary files; emptied at the start.
    :param processes: where its processes are started.
    :param progress: called while jars are fetched.
    :param masters: number of masters. Several choose the one that leads by a ZooKeeper, which also keeps what they
        know; a single one keeps that in a folder.
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
        masters: int = 1,
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
        # spark-master, spark-master-2, …
        self.masters = [Master(_numbered("spark-master", number), processes) for number in range(1, masters + 1)]
        self.master_url = "spark://" + ",".join(master.address for master in self.masters)
        self.workers: list[Process] = []
        jars = spark_class_path(self.home)
        self.zookeeper = ZooKeeper(folder / "zookeeper", processes, jars) if masters > 1 else None
        self._number = workers
        self._processes = processes
        self._progress = progress
        self._libraries = libraries
        self._core_site = core_site or {}

    def start(self) -> None:
        """Fetch the connector if it is missing, start master and workers, and wait until all workers have registered.

        :raises StackError: Java or a jar is missing, or a worker has not registered within 600 s.
        """
        runtime = java()
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("work", "tmp", "recovery"):
            (self.folder / name).mkdir(parents=True)
        self.connector = fetch(spark_connector(self.home), progress=self._progress)
        libraries = [fetch(each, progress=self._progress) for each in self._libraries]
        self.class_path = ":".join(f"{folder}/*" for folder in (self.connector, *libraries))
        if self._core_site:
            # Behind all jars: in front of them, as SPARK_CONF_DIR is, it would keep JVMs from the archive of classes.
            write_properties(self.folder / "hadoop" / "core-site.xml", self._core_site)
            self.class_path += f":{self.folder / 'hadoop'}"
        command = [runtime, *DAEMON_JVM, "-cp", spark_class_path(self.home)]
        if self.zookeeper:
            self.zookeeper.start()
        masters = [
            master.start(command, recovery=self._recovery(), env=self.environment, folder=self.folder)
            for master in self.masters
        ]
        self.workers = [self._start_worker(name) for name in self.worker_names]
        self._processes.wait_for(
            "Spark's workers to register", self._registered, START_SECONDS, *masters, *self.workers
        )

    @property
    def worker_names(self) -> list[str]:
        """Names of the workers' processes: spark-worker, spark-worker-2, …"""
        return [_numbered("spark-worker", number) for number in range(1, self._number + 1)]

    def _start_worker(self, name: str, host: str = HOST, options: Sequence[str] = ()) -> Process:
        return self._processes.start(
            name,
            [
                *(java(), *DAEMON_JVM, *options, "-cp", spark_class_path(self.home)),
                "org.apache.spark.deploy.worker.Worker",
                *("--host", host, "--port", str(free_port()), "--webui-port", str(free_port())),
                *("--cores", str(self.cores), "--memory", self.memory, "--work-dir", str(self.folder / "work")),
                self.master_url,
            ],
            env={**self.environment, "SPARK_LOCAL_IP": host},
            folder=self.folder,
        )

    def stop(self) -> None:
        """Stop the masters, and the workers with their drivers and executors."""
        stop(*self.workers, *(master.process for master in self.masters))
        if self.zookeeper:
            self.zookeeper.stop()

    @property
    def conf(self) -> dict[str, str]:
        """Spark conf for applications: quick start on few cores."""
        return {
            "spark.driver.extraJavaOptions": QUICK_JVM,
            "spark.executor.extraJavaOptions": QUICK_JVM,
        }

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of masters and workers; drivers and executors inherit them."""
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
        extra = {
            "rest_url": ",".join(master.rest_url for master in self.masters),
            "master_ui": ",".join(master.ui_url for master in self.masters),
        }
        return {"conn_type": "spark", "host": self.master_url, "extra": extra}

    @property
    def leader(self) -> Master | None:
        """The master that is ALIVE: the others are STANDBY, or recover, or do not answer. None: none is."""
        return next((master for master in self.masters if master.state().get("status") == "ALIVE"), None)

    def status(self) -> dict[str, Any]:
        """Return the state of the master that leads as JSON: workers, drivers, applications. {} if none does."""
        leader = self.leader
        return {} if leader is None else leader.state()

    def _recovery(self) -> dict[str, str]:
        if self.zookeeper:
            return {"spark.deploy.recoveryMode": "ZOOKEEPER", "spark.deploy.zookeeper.url": self.zookeeper.address}
        return {
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(self.folder / "recovery"),
        }

    def _registered(self) -> bool:
        found = [worker for worker in self.status().get("workers", ()) if worker["state"] == "ALIVE"]
        return len(found) == self._number


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


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
