"""Kafka, Spark and Airflow on this machine as one context manager."""

from __future__ import annotations

import fcntl
import json
import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO

from airflow_stream_provider.local.airflow import Airflow
from airflow_stream_provider.local.broker import Broker
from airflow_stream_provider.local.errors import StackError
from airflow_stream_provider.local.jars import Progress
from airflow_stream_provider.local.processes import Processes
from airflow_stream_provider.local.spark import Spark


class LocalStack:
    """Starts the wanted parts side by side, checks that they serve, and leaves no process behind.

    :param folder: for everything the parts write; their logs are in `logs/`. One stack at a time in a folder
    :param dags_folder: default an empty `dags/` in the folder
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
        airflow: bool = True,
        dags_folder: Path | None = None,
        variables: Mapping[str, str] | None = None,
        worker_cores: int = 8,
        worker_memory: str = "6g",
        progress: Progress | None = None,
    ) -> None:
        self.folder = folder.absolute()
        self._wanted = {"kafka": kafka, "spark": spark, "airflow": airflow}
        self._dags_folder = dags_folder
        self._variables = dict(variables or {})
        self._worker_cores = worker_cores
        self._worker_memory = worker_memory
        self._progress = progress
        self._lock: IO[str] | None = None
        self._processes: Processes | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Where Kafka's clients connect."""
        return self.broker.bootstrap_servers

    def start(self) -> None:
        """Start; whatever goes wrong, Ctrl-C included, everything is stopped before it is raised."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _only_one(self.folder / "stack.lock")
        try:
            processes = self._processes = Processes(self.folder / "logs")
            starts: list[Callable[[], None]] = []
            if self._wanted["kafka"]:
                self.broker = Broker(self.folder / "kafka", processes)
                starts.append(lambda: self.broker.start(self._progress))
            if self._wanted["spark"]:
                self.spark = Spark(
                    self.folder / "spark", processes, cores=self._worker_cores, memory=self._worker_memory
                )
                starts.append(lambda: self.spark.start(self._progress))
            if self._wanted["airflow"]:
                self.airflow = Airflow(
                    self.folder / "airflow",
                    processes,
                    dags_folder=self._dags_folder or _made(self.folder / "dags"),
                    variables={**self._connections(), **self._variables},
                )
                starts.append(self.airflow.start)
            _side_by_side(starts)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop every process of the stack; nothing happens when it is stopped already."""
        if self._processes is not None:
            self._processes.close()
            self._processes = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _connections(self) -> dict[str, str]:
        found = {}
        if self._wanted["kafka"]:
            extra = {"bootstrap.servers": self.bootstrap_servers}
            found["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "extra": extra})
        if self._wanted["spark"]:
            found["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(self.spark.connection)
        return found

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


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _only_one(path: Path) -> IO[str]:
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise StackError(
            f"A stack is running in {path.parent} already.", todo="Stop it, or name another folder."
        ) from error
    return file
