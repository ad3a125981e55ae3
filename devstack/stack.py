"""Start Kafka, Spark and Airflow on this machine, as one context manager."""

from __future__ import annotations

import fcntl
import json
import queue
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from devstack.airflow import Airflow
from devstack.broker import Broker
from devstack.errors import StackError
from devstack.jars import JarSet, Progress, spark_connector
from devstack.kubernetes import StandIn
from devstack.processes import Processes
from devstack.spark import Spark, bundled_spark
from devstack.yarn import Yarn


class LocalStack:
    """A local stack. Its parts start in parallel, and none of their processes outlives it.

    :param folder: folder for everything that the parts write; their logs are in `logs/`. Only one stack can run in a
        folder.
    :param kafka: start a Kafka broker; default True.
    :param spark: start a Spark cluster; default True.
    :param yarn: that cluster is a YARN with two nodes, and not one of Spark's own; default False. The settings of
        masters and workers have no meaning then.
    :param kubernetes: that cluster is a stand-in for Kubernetes with two nodes, as for `yarn`; default False.
    :param airflow: start Airflow; default: only if `dags_folder` is given.
    :param dags_folder: Airflow's DAGs; default: an empty `dags/` in the folder.
    :param variables: more environment variables for Airflow's processes and tasks. The connections `spark_default` and
        `kafka_default` lead to this stack, unless AIRFLOW_CONN_* variables here replace them.
    :param masters: number of Spark's masters.
    :param workers: number of Spark's workers.
    :param worker_cores: cores that each of them offers; two applications must fit at the same time.
    :param worker_memory: memory that each of them offers, in Spark's notation.
    :param libraries: more jars for Spark's drivers and executors.
    :param core_site: Hadoop's settings of the Spark cluster.
    :param progress: called while jars are fetched, from several threads.
    :raises StackError: at the start, if Java is missing or a part does not come up. Everything is stopped then.
    """

    broker: Broker
    cluster: Spark | Yarn | StandIn
    airflow: Airflow

    def __init__(
        self,
        folder: Path,
        *,
        kafka: bool = True,
        spark: bool = True,
        yarn: bool = False,
        kubernetes: bool = False,
        airflow: bool | None = None,
        dags_folder: Path | None = None,
        variables: Mapping[str, str] | None = None,
        masters: int = 1,
        workers: int = 1,
        worker_cores: int = 8,
        worker_memory: str = "6g",
        libraries: Sequence[JarSet] = (),
        core_site: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.folder = folder.absolute()
        self._kafka = kafka
        self._spark = spark
        self._yarn = yarn
        self._kubernetes = kubernetes
        self._airflow = dags_folder is not None if airflow is None else airflow
        self._dags_folder = dags_folder
        self._variables = dict(variables or {})
        self._masters = masters
        self._workers = workers
        self._worker_cores = worker_cores
        self._worker_memory = worker_memory
        self._libraries = libraries
        self._core_site = core_site
        self._progress = progress
        self._lock: IO[str] | None = None
        self._processes: Processes | None = None
        self._parts: list[Broker | Spark | Yarn | StandIn | Airflow] = []

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap servers of the broker."""
        return self.broker.bootstrap_servers

    @property
    def spark(self) -> Spark:
        """The cluster, which is one of Spark's own."""
        assert isinstance(self.cluster, Spark)
        return self.cluster

    @property
    def kubernetes(self) -> StandIn:
        """The cluster, which is a stand-in for Kubernetes."""
        assert isinstance(self.cluster, StandIn)
        return self.cluster

    @property
    def processes(self) -> Processes:
        """The processes of the running stack, to be killed, frozen and restarted by name."""
        if self._processes is None:
            raise StackError("The stack is not running.", next_step="Start it first.")
        return self._processes

    def start(self) -> None:
        """Start all parts and wait until they serve. After any error, also Ctrl-C, everything is stopped.

        :raises StackError: Java is missing, a part does not come up, or another stack runs in the folder.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _lock_folder(self.folder / "stack.lock")
        try:
            shutil.rmtree(self.folder / "logs", ignore_errors=True)
            self._processes = Processes(self.folder / "logs")
            self._parts = self._make_parts(self._processes)
            _run_in_parallel([part.start for part in self._parts])
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all processes of the stack. Does nothing if it is stopped."""
        if self._processes is not None:
            self._processes.abandon()
            try:
                for part in reversed(self._parts):
                    part.stop()
            finally:
                self._processes.close()
                self._processes = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _make_parts(self, processes: Processes) -> list[Broker | Spark | Yarn | StandIn | Airflow]:
        parts: list[Broker | Spark | Yarn | StandIn | Airflow] = []
        variables = {}

        def progress(name: str, done: int, total: int) -> None:
            processes.check_open()
            if self._progress:
                self._progress(name, done, total)

        if self._kafka:
            self.broker = Broker(self.folder / "kafka", processes, progress)
            variables["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps(self.broker.connection)
            parts.append(self.broker)
        if self._spark:
            self.cluster = self._make_cluster(processes, progress)
            variables["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(self.cluster.connection)
            parts.append(self.cluster)
        if self._airflow:
            dags = self._dags_folder or self.folder / "dags"
            dags.mkdir(exist_ok=True)
            self.airflow = Airflow(
                self.folder / "airflow", processes, dags_folder=dags, variables={**variables, **self._variables}
            )
            parts.append(self.airflow)
        return parts

    def _make_cluster(self, processes: Processes, progress: Progress) -> Spark | Yarn | StandIn:
        if self._yarn:
            return Yarn(self.folder / "yarn", processes, progress, libraries=self._libraries, core_site=self._core_site)
        if self._kubernetes:
            libraries = (spark_connector(bundled_spark()), *self._libraries)
            return StandIn(
                self.folder / "kubernetes",
                processes,
                progress,
                nodes=2,
                libraries=libraries,
                core_site=self._core_site,
            )
        return Spark(
            self.folder / "spark",
            processes,
            progress,
            masters=self._masters,
            workers=self._workers,
            cores=self._worker_cores,
            memory=self._worker_memory,
            libraries=self._libraries,
            core_site=self._core_site,
        )

    def __enter__(self) -> LocalStack:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _run_in_parallel(starts: list[Callable[[], None]]) -> None:
    """Run functions in parallel until all have returned. Raise the first error without waiting for the others.

    They run in daemon threads, so that Ctrl-C does not wait for a download.
    """
    outcomes: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def run(start: Callable[[], None]) -> None:
        try:
            start()
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread
            outcomes.put(error)
        else:
            outcomes.put(None)

    for start in starts:
        threading.Thread(target=run, args=(start,), daemon=True).start()
    for _ in starts:
        error = outcomes.get()
        if error is not None:
            raise error


def _lock_folder(path: Path) -> IO[str]:
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise StackError(
            f"Another stack is running in {path.parent}.", next_step="Stop it, or use another folder."
        ) from error
    return file
