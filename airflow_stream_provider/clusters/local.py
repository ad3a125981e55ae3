"""Run drivers on this machine, detached from the Airflow worker that starts them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import ClassVar

import psutil

from airflow_stream_provider.clusters import processes
from airflow_stream_provider.clusters import processes as local_spark
from airflow_stream_provider.clusters.cluster import (
    DriverState,
    DriverView,
    FoundDrivers,
    Remains,
    SubmitUnclear,
    Traits,
    UnmanagedJob,
)
from airflow_stream_provider.clusters.job import Job
from airflow_stream_provider.clusters.log_tail import READ_BYTES, tail
from airflow_stream_provider.clusters.own_folders import driver_folder, log_folder, take_lock
from airflow_stream_provider.clusters.spark_sizes import ResourceRequest
from airflow_stream_provider.clusters.whose import Whose, deployment_run, names_deployment
from airflow_stream_provider.lifecycle.errors import ClusterError

_KILLED = {-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGKILL, 128 + signal.SIGTERM}
# So many logs of drivers that have ended are kept for each stream.
_KEPT_LOGS = 20


class LocalCluster:
    """Drivers as spark-submit processes on this machine; implements `Cluster`.

    The submission id is the path of a folder, ``<control>/<stream>/drivers/<deployment>.<8 hex>``; where the control
    log is in no folder, one of this user's (`own_folders.driver_folder`). It holds a symbolic link ``log`` to the
    driver's output (see `own_folders.log_folder`; at most 64 MiB) and, once the driver has ended, its exit code as
    ``exit``. The driver's processes carry this path in an environment variable.

    Drivers run as the user of the Airflow worker and can read what it can read: this cluster is not for scripts that
    are not trusted.

    :param master: Spark's master string, such as ``local[2]``.
    """

    traits: ClassVar[Traits] = Traits(
        name="this machine",
        seconds_after_term=processes.GRACE,
        reserves_ids=False,
        relaunched_by="nobody",
        gone_means="its processes are not there",
        lost_machine="its tasks run there, or nowhere",
    )

    def __init__(self, master: str) -> None:
        self._master = master

    def check(self, job: Job) -> None:
        """Check that Spark and Java are installed and that the driver's memory is free; see `Cluster.check`."""
        job.properties()
        local_spark.home()
        local_spark.warn_of_two_versions()
        local_spark.check_java()
        asked, free = ResourceRequest.from_conf(job.conf).driver_memory, psutil.virtual_memory().available // 2**20
        if asked > free:
            raise ClusterError(
                f"This machine has no room for {job.app_name}: {free} MiB are free, the driver needs {asked} MiB.",
                next_step="Free memory, or lower spark.driver.memory in `conf`. Nothing was started.",
                free_memory=free,
                asked_memory=asked,
            )

    def reserve(self, job: Job) -> str:
        """Return an empty text: the folder of a driver is made when it starts."""
        return ""

    def submit(self, job: Job, reserved: str = "") -> str:
        """Start the job's driver and return the path of its folder as submission id."""
        properties = job.properties()
        spark = local_spark.home()
        local_spark.check_java()
        logs = log_folder(job.stream)
        # Near the stream's log, where it is found and outlives this Airflow worker.
        home = Path(job.stream_folder).resolve() / "drivers" if job.stream_folder else driver_folder(job.stream)
        lock = _lock(job, home)
        try:
            _prune(logs)
            folder = home / f"{job.deployment}.{uuid.uuid4().hex[:8]}"
            folder.mkdir(parents=True)
            (folder / "host").write_text(socket.gethostname())
            log = logs / f"{folder.name}.log"
            (folder / "log").symlink_to(log)
            command = [
                *(str(spark / "bin" / "spark-submit"), "--master", self._master),
                *(("--py-files", ",".join(job.files)) if job.files else ()),
                *(word for key, value in properties.items() for word in ("--conf", f"{key}={value}")),
                *(job.launcher, *job.arguments),
            ]
            script = str(Path(__file__).with_name("detach.py"))
            detach = [sys.executable, script, str(lock), str(folder), str(log), *command]
            # detach.py leaves the task's session, so the driver survives when Airflow kills the task's processes.
            subprocess.run(
                detach,
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=local_spark.environment(spark, folder, job.environment),
                pass_fds=(lock,),
            )
            return str(folder)
        except OSError as error:
            raise ClusterError(
                f"The driver of {job.deployment} cannot be started here: {error.strerror} ({error.filename}).",
                next_step=f"Check that this user may write to {home} and that the disk is not full.",
            ) from error
        finally:
            os.close(lock)

    def find(self, whose: Whose, since: float, conf: Mapping[str, str] | None = None) -> FoundDrivers:
        """Return the deployment's live drivers on this machine. Drivers that have ended are not listed."""
        commands: dict[str, list[list[str]]] = {}
        marked = list(processes.marked())
        for process, submission in marked:
            if _deployment(submission) == whose.deployment:
                commands.setdefault(submission, []).append(processes.command(process))
        found = {submission: whose.runs_any(each) for submission, each in commands.items()}
        alive = tuple(sorted(submission for submission, ours in found.items() if ours))
        missed = None in found.values() or _unmarked(whose, {process.pid for process, _ in marked})
        return FoundDrivers(alive, certain=bool(alive) or not missed)

    def running(self, stream: str, log: str) -> Mapping[str, str]:
        """Return the drivers on this machine, by the command lines of their processes."""
        commands: dict[str, list[list[str]]] = {}
        for process, submission in processes.marked():
            commands.setdefault(submission, []).append(processes.command(process))
        found = {submission: deployment_run(each, stream, log) for submission, each in commands.items()}
        return {submission: deployment for submission, deployment in found.items() if deployment}

    def status(self, submission: str) -> DriverState:
        """Return the driver's state, from its processes and its stored exit code."""
        return self._state(submission, None)

    def _state(self, submission: str, alive: bool | None) -> DriverState:
        """Return the state; `alive`: whether it has processes, None = to be found out."""
        folder = Path(submission)
        if not _is_here(folder):
            return DriverState.UNKNOWN if _is_known(folder) else DriverState.LOST
        if alive or (alive is None and processes.of(submission)):
            return DriverState.RUNNING
        code = _exit_code(folder)
        if code is None:
            return DriverState.LOST
        if code in _KILLED:
            return DriverState.KILLED
        return DriverState.FAILED if code else DriverState.FINISHED

    def overview(self, submissions: Collection[str]) -> Mapping[str, DriverView]:
        """Return the drivers as their processes and stored exit codes show them; the processes are listed once."""
        alive = {submission for _, submission in processes.marked()}
        return {each: DriverView(self._state(each, each in alive), self.links(each)) for each in submissions}

    def belongs(self, id: str, whose: Whose) -> bool | None:
        """Return whether a driver is of a deployment, by the name of its folder and its processes' command lines."""
        commands = [processes.command(process) for process in processes.of(id)]
        if not commands and not Path(id).is_dir():
            return None
        return whose.runs_any(commands) if _deployment(id) == whose.deployment else False

    def kill(self, submission: str, applications: Collection[str] = ()) -> None:
        """Kill the driver: its JVM and all Python processes below it; return when they are gone.

        The JVM gets SIGTERM and 10 s to end. After that all processes get SIGKILL.

        :raises ClusterError: the driver runs on another machine.
        """
        folder = Path(submission)
        if _is_known(folder) and not _is_here(folder):
            raise _elsewhere(folder)
        processes.end(submission)

    def remains(
        self,
        submission: str,
        whose: Whose,
        applications: Collection[str] = (),
        hosts: Collection[str] | None = None,
    ) -> Remains:
        """Return the driver's live processes. In local mode the executors are part of its JVM."""
        folder = Path(submission)
        if _is_known(folder) and not _is_here(folder):
            return Remains((_elsewhere(folder).message,))
        return Remains(tuple(f"Process {process.pid} is alive." for process in processes.of(submission)))

    def unmanaged(self, id: str) -> UnmanagedJob | None:
        """Return None: processes of this machine have no id that tells one from the next. A person ends the job."""
        return None

    def forget(self, over: Collection[Whose]) -> None:
        """Do nothing: `submit` removes old logs."""

    def links(self, submission: str) -> Mapping[str, str]:
        """Return the path of the driver's log on its machine."""
        log = Path(submission) / "log"
        return {"driver log": str(log.readlink() if log.is_symlink() else log)}

    def log_tail(self, submission: str) -> str:
        """Return the end of the driver's log, which has what its JVM and its Python write."""
        try:
            with open(Path(submission) / "log", "rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - READ_BYTES))
                return tail(log=log.read(READ_BYTES).decode(errors="replace"))
        except (OSError, ValueError):
            return ""


def _deployment(submission: str) -> str:
    return Path(submission).name.rpartition(".")[0]


def _exit_code(folder: Path) -> int | None:
    try:
        return int((folder / "exit").read_text())
    except FileNotFoundError:
        return None


def _unmarked(whose: Whose, marked: Collection[int]) -> bool:
    """Return whether a process may be of the deployment and shows no mark: another user's, or one that only starts."""
    for process in psutil.process_iter(["cmdline"]):
        own = process.info["cmdline"] or []
        if process.pid not in marked and names_deployment(own, whose.deployment):
            try:
                # The driver's Python does not say its control log; the JVM above it does.
                above = process.parents()
            except psutil.NoSuchProcess:
                continue
            except (psutil.Error, OSError):  # they are another user's, and hidden (hidepid of /proc)
                above = []
            if whose.runs_any([own, *map(processes.command, above)]) is not False:
                return True
    return False


def _is_here(folder: Path) -> bool:
    return _host(folder) == socket.gethostname()


def _is_known(folder: Path) -> bool:
    return folder.is_dir() or bool(_host(folder))


def _host(folder: Path) -> str:
    """Return the machine of a driver; empty: not known."""
    try:
        return (folder / "host").read_text()
    except FileNotFoundError:
        # A folder of `driver_folder` is on that machine only, and says so by its name.
        return folder.parent.name.partition("@")[2]


def _elsewhere(folder: Path) -> ClusterError:
    host = _host(folder)
    return ClusterError(
        f"The driver {folder.name} runs on {host}, but this task runs on {socket.gethostname()}.",
        next_step=f"Run this task on {host}: a local cluster is one machine only.",
    )


def _lock(job: Job, home: Path) -> int:
    """Take the deployment's lock on this machine. The driver inherits it and holds it until it ends.

    The lock covers the moment between fork and exec, in which the list of processes does not show the driver yet. It
    is not in the control folder, because file locks on network file systems are not inherited.

    :raises SubmitUnclear: another process holds the lock.
    :raises ClusterError: the folder of the locks cannot be used.
    """
    name = uuid.uuid5(uuid.NAMESPACE_URL, f"{home}/{job.deployment}/{job.log}").hex
    lock = take_lock(name)
    if lock is None:
        raise SubmitUnclear(
            f"A driver of {job.deployment} is running or just starting on this machine.",
            next_step="Nothing to do: the driver is searched for before anything is submitted again.",
            deployment=job.deployment,
        )
    return lock


def _prune(logs: Path) -> None:
    """Remove the oldest logs of drivers that have ended."""
    alive = {Path(submission).name for _, submission in processes.marked()}
    ended = [log for log in logs.glob("*.log") if log.stem not in alive]
    ages: dict[Path, float] = {}
    for log in ended:
        with contextlib.suppress(FileNotFoundError):  # another submission removes them, too
            ages[log] = log.stat().st_mtime
    for log in sorted(ages, key=ages.__getitem__)[:-_KEPT_LOGS]:
        log.unlink(missing_ok=True)
        log.with_name(f"{log.name}.1").unlink(missing_ok=True)
