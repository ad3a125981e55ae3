"""Drivers as processes of this machine, each in a folder of its own."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from airflow_stream_provider.clusters import (
    Cluster,
    DriverState,
    DriverView,
    FoundDrivers,
    Job,
    Remains,
    SubmitUnclear,
    Whose,
)
from airflow_stream_provider.clusters.log_tail import READ_BYTES, tail
from airflow_stream_provider.clusters.whose import deployment_run
from airflow_stream_provider.lifecycle.errors import ClusterError

# The first thing that it does is to say its process group; the last, how the driver has ended.
SCRIPT = 'trap : TERM; echo $$ >group.new; mv group.new group; "$@" >log 2>&1; echo $? >exit.new; mv exit.new exit'
PASSED_ON = ("PATH", "HOME", "JAVA_HOME")
KILL_SECONDS = 10.0  # from SIGTERM to SIGKILL


class OwnCluster(Cluster):
    """Drivers as processes of this machine.

    :param folder: with a folder for each driver.
    :param spark: where Spark is.
    """

    def __init__(self, folder: Path, spark: Path) -> None:
        self._folder = folder
        self._spark_submit = spark / "bin" / "spark-submit"

    def check(self, job: Job) -> None:
        job.properties()  # refuses secrets
        if not self._spark_submit.is_file():
            raise ClusterError(f"There is no {self._spark_submit}.", next_step="Install Spark. Nothing was started.")

    def submit(self, job: Job, note: Callable[[str], str] = str) -> str:
        conf = [word for key, value in job.properties().items() for word in ("--conf", f"{key}={value}")]
        files = ["--py-files", ",".join(job.files)] if job.files else []
        command = [str(self._spark_submit), "--master", "local[1]", *files, *conf, job.launcher, *job.arguments]
        id = f"{job.deployment}.{job.log}"  # one folder for each deployment of each log
        folder = self._folder / id
        folder.mkdir(parents=True, exist_ok=True)
        with self._lock(id, fcntl.LOCK_EX) as lock:
            if lock is None:
                raise SubmitUnclear(f"{id} runs, or is just starting.", next_step="Nothing to do: it is searched for.")
            if not (folder / "group").exists():  # otherwise it has run, and has ended
                (folder / "command.new").write_text(json.dumps(command))
                (folder / "command.new").rename(folder / "command")
                own = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
                subprocess.run(
                    ["setsid", "--fork", "sh", "-c", SCRIPT, "driver", *command],  # no child of the task
                    start_new_session=True,  # `setsid --fork` returns before the driver has left the task's group
                    check=True,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={**own, **job.environment, "AIRFLOW_STREAM_SUBMISSION": id},
                    pass_fds=[lock],
                )
        return id

    def find(self, whose: Whose, since: float, conf: Mapping[str, str] | None = None) -> FoundDrivers:
        alive, over, certain = [], [], True
        for id, command in self._commands():
            ours, state = whose.runs(command), self._state(id)
            if ours and state is DriverState.RUNNING:
                alive.append(id)
            elif ours and state.terminal and state is not DriverState.LOST:
                over.append(id)
            elif ours is not False and not state.terminal:  # it only starts, or does not say of which log it is
                certain = False
        return FoundDrivers(tuple(alive), tuple(over), certain)

    def running(self, stream: str, log: str) -> Mapping[str, str]:
        alive = ((id, command) for id, command in self._commands() if self._is_held(id))
        found = {id: deployment_run([command], stream, log) for id, command in alive}
        return {id: deployment for id, deployment in found.items() if deployment}

    def look(self, ids: Collection[str], whose: Whose | None = None) -> Mapping[str, DriverView]:
        owners = {} if whose is None else {name: whose.runs(command) for name, command in self._commands()}
        return {
            each: DriverView(self._state(each), {"driver log": str(self._log(each))}, owners.get(Path(each).name))
            for each in ids
        }

    def _state(self, submission: str) -> DriverState:
        folder = self._folder / Path(submission).name
        if not (folder / "command").exists():
            return DriverState.LOST
        if self._is_held(submission):
            return DriverState.RUNNING if (folder / "group").exists() else DriverState.QUEUED
        if not (folder / "exit").exists():
            return DriverState.LOST
        code = int((folder / "exit").read_text())
        if code in (128 + signal.SIGTERM, 128 + signal.SIGKILL):
            return DriverState.KILLED
        return DriverState.FAILED if code else DriverState.FINISHED

    def kill(self, submission: str, applications: Collection[str] = ()) -> None:
        file = self._folder / Path(submission).name / "group"
        for sign in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + KILL_SECONDS
            if file.exists() and self._is_held(submission):  # so the number is still its own
                with suppress(ProcessLookupError):  # it has ended meanwhile
                    os.killpg(int(file.read_text()), sign)
            while self._is_held(submission) and time.monotonic() < deadline:
                time.sleep(0.05)

    def remains(
        self, submission: str, whose: Whose, applications: Collection[str] = (), hosts: Collection[str] | None = None
    ) -> Remains:
        ids = {submission, *self.find(whose, 0).alive}  # its executors are part of its JVM
        return Remains(tuple(f"A process of {each} is alive." for each in sorted(ids) if self._is_held(each)))

    def forget(self, over: Collection[Whose]) -> None:
        for id, command in self._commands():
            if self._state(id).terminal and any(whose.runs(command) for whose in over):
                shutil.rmtree(self._folder / id)

    def log_tail(self, submission: str) -> str:
        try:
            return tail(log=self._log(submission).read_text(errors="replace")[-READ_BYTES:])
        except OSError:
            return ""

    def _log(self, submission: str) -> Path:
        return self._folder / Path(submission).name / "log"

    def _commands(self) -> Iterator[tuple[str, list[str]]]:
        for file in sorted(self._folder.glob("*/command")):
            yield file.parent.name, json.loads(file.read_text())

    def _is_held(self, id: str) -> bool:
        """Return whether a driver, or who starts it, holds the lock. Lookers share it, and do not hinder each other."""
        with self._lock(Path(id).name, fcntl.LOCK_SH) as lock:
            return lock is None

    @contextmanager
    def _lock(self, id: str, kind: int) -> Iterator[int | None]:
        """Take the lock of a driver's folder; None: somebody else has it."""
        try:
            file = os.open(self._folder / id, os.O_RDONLY)
        except FileNotFoundError:
            yield -1
            return
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
            yield file
        except BlockingIOError:
            yield None
        finally:
            os.close(file)
