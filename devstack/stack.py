"""Kafka, Spark and Airflow on this machine as one context manager."""

from __future__ import annotations

import fcntl
import json
import queue
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO

from devstack.airflow import Airflow
from devstack.broker import Broker
from devstack.errors import StackError
from devstack.jars import Progress
from devstack.processes import Processes
from devstack.spark import Spark


class LocalStack:
    """Starts the wanted parts side by side, checks that they serve, and leaves no process behind.

    :param folder: for everything the parts write; their logs are in `logs/`. One stack at a time in a folder
    :param kafka, spark, airflow: which parts to start; Airflow, unless said otherwise, when there is a DAGs folder
    :param dags_folder: for Airflow; default an empty `dags/` in the folder
    :param variables: more environment variables for Airflow's parts and tasks. The connections `spark_default` and
        `kafka_default` lead to this stack's parts unless AIRFLOW_CONN_* says otherwise here
    :param worker_cores, worker_memory: what Spark's worker offers; two applications must fit beside each other
    :param progress: called while jars are fetched, from several threads
    Raises StackError, with everything stopped again, when Java is missing or a part does not come up.
    """

    broker: Broker
    spark: Spark
    airflow: Airflow

    def __init__(
        self,
        folder: Path,
        *,
        kafka: bool = True,
        spark: bool = True,
        airflow: bool | None = None,
        dags_folder: Path | None = None,
        variables: Mapping[str, str] | None = None,
        worker_cores: int = 8,
        worker_memory: str = "6g",
        progress: Progress | None = None,
    ) -> None:
        self.folder = folder.absolute()
        self._kafka = kafka
        self._spark = spark
        self._airflow = dags_folder is not None if airflow is None else airflow
        self._dags_folder = dags_folder
        self._variables = dict(variables or {})
        self._worker_cores = worker_cores
        self._worker_memory = worker_memory
        self._progress = progress
        self._lock: IO[str] | None = None
        self._processes: Processes | None = None
        self._parts: list[Broker | Spark | Airflow] = []

    @property
    def bootstrap_servers(self) -> str:
        """Where Kafka's clients connect."""
        return self.broker.bootstrap_servers

    def start(self) -> None:
        """Start; whatever goes wrong, Ctrl-C included, everything is stopped before it is raised."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _only_one(self.folder / "stack.lock")
        try:
            shutil.rmtree(self.folder / "logs", ignore_errors=True)
            self._processes = Processes(self.folder / "logs")
            self._parts = self._make_parts(self._processes)
            _side_by_side([part.start for part in self._parts])
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop every process of the stack; nothing happens when it is stopped already."""
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

    def _make_parts(self, processes: Processes) -> list[Broker | Spark | Airflow]:
        parts: list[Broker | Spark | Airflow] = []
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
            self.spark = Spark(
                self.folder / "spark", processes, progress, cores=self._worker_cores, memory=self._worker_memory
            )
            variables["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(self.spark.connection)
            parts.append(self.spark)
        if self._airflow:
            dags = self._dags_folder or self.folder / "dags"
            dags.mkdir(exist_ok=True)
            self.airflow = Airflow(
                self.folder / "airflow", processes, dags_folder=dags, variables={**variables, **self._variables}
            )
            parts.append(self.airflow)
        return parts

    def __enter__(self) -> LocalStack:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _side_by_side(starts: list[Callable[[], None]]) -> None:
    """Run all at once and return when all have ended; raise the first error without waiting for the others.

    Daemon threads, because Ctrl-C must not wait for a download.
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


def _only_one(path: Path) -> IO[str]:
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise StackError(
            f"A stack is running in {path.parent} already.", next_step="Stop it, or name another folder."
        ) from error
    return file
