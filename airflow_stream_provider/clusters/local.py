"""Run drivers on this machine, detached from the Airflow worker that starts them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import psutil
from typing_extensions import override

from airflow_stream_provider.clusters import detach, processes
from airflow_stream_provider.clusters.cluster import (
    Cluster,
    DriverState,
    DriverView,
    FoundDrivers,
    Remains,
    SubmitUnclear,
)
from airflow_stream_provider.clusters.job import Job
from airflow_stream_provider.clusters.log_tail import READ_BYTES, tail
from airflow_stream_provider.clusters.spark_sizes import ResourceRequest
from airflow_stream_provider.clusters.whose import Whose, deployment_run, names_deployment
from airflow_stream_provider.lifecycle.errors import ClusterError

_KILLED = {-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGKILL, 128 + signal.SIGTERM}
# So many logs of drivers that have ended are kept for each stream.
_KEPT_LOGS = 20
_NAME = "airflow-stream-provider"


class LocalCluster(Cluster):
    """Drivers as spark-submit processes on this machine.

    The submission id is the path of a folder, ``<control>/<stream>/drivers/<deployment>.<8 hex>``; where the control
    log is in no folder, ``<state>/submissions/<stream>@<host>/<deployment>.<8 hex>``. It holds a symbolic link ``log``
    to the driver's output, ``<state>/drivers/<stream>/<deployment>.<8 hex>.log`` (at most 64 MiB) and, once the driver
    has ended, its exit code as ``exit``. ``<state>`` is ``$XDG_STATE_HOME/airflow-stream-provider``, by default below
    ``~/.local/state``: logs that fill the control folder's disk would pause every stream there. The driver's processes
    carry the path in an environment variable.

    Drivers run as the user of the Airflow worker and can read what it can read: this cluster is not for scripts that
    are not trusted.

    :param master: Spark's master string, such as ``local[2]``.
    """

    def __init__(self, master: str) -> None:
        self._master = master

    @override
    def answer(self) -> str:
        home = processes.home()
        processes.check_java()
        return f"This machine has Java, and Spark in {home}."

    @override
    def check(self, job: Job) -> None:
        """Check that Spark and Java are installed and that the driver's memory is free."""
        job.properties()
        processes.home()
        processes.warn_of_two_versions()
        processes.check_java()
        asked, free = ResourceRequest.from_conf(job.conf).driver_memory, psutil.virtual_memory().available // 2**20
        if asked > free:
            raise ClusterError(
                f"This machine has no room for {job.app_name}: {free} MiB are free, the driver needs {asked} MiB.",
                next_step="Free memory, or lower spark.driver.memory in `conf`. Nothing was started.",
                free_memory=free,
                asked_memory=asked,
            )

    @override
    def submit(self, job: Job, note: Callable[[str], str] = str) -> str:
        """Start the job's driver and return the path of its folder as submission id."""
        properties = job.properties()
        spark = processes.home()
        processes.check_java()
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / _NAME
        logs, home = state / "drivers" / job.stream, state / "submissions" / f"{job.stream}@{socket.gethostname()}"
        if job.stream_folder:
            # Near the stream's log, where it is found and outlives this Airflow worker.
            home = Path(job.stream_folder).resolve() / "drivers"
        lock = None
        try:
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
            logs.mkdir(parents=True, exist_ok=True)
            lock = _take_lock(job, home)
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
            # detach.py leaves the task's session, so the driver survives when Airflow kills the task's processes.
            subprocess.run(
                [sys.executable, detach.__file__, str(lock), str(folder), str(log), *command],
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=processes.environment(spark, folder, job.environment),
                pass_fds=(lock,),
            )
            return str(folder)
        except OSError as error:
            raise ClusterError(
                f"The driver of {job.deployment} cannot be started here: {error.strerror} ({error.filename}).",
                next_step=f"Check that this user may write to {home} and {logs} (XDG_STATE_HOME), and for locks to "
                "XDG_RUNTIME_DIR, and that the disk is not full.",
            ) from error
        finally:
            if lock is not None:
                os.close(lock)

    @override
    def find(self, whose: Whose, since: float, conf: Mapping[str, str] | None = None) -> FoundDrivers:
        """Return the deployment's live drivers on this machine. Drivers that have ended are not listed."""
        marked = list(processes.marked())
        found = {
            submission: whose.runs_any(commands)
            for submission, commands in processes.commands(marked).items()
            if _deployment(submission) == whose.deployment
        }
        alive = tuple(sorted(submission for submission, ours in found.items() if ours))
        missed = None in found.values() or _unmarked(whose, {process.pid for process, _ in marked})
        return FoundDrivers(alive, certain=bool(alive) or not missed)

    @override
    def running(self, stream: str, log: str) -> Mapping[str, str]:
        """Return the drivers on this machine, by the command lines of their processes."""
        drivers = processes.commands(processes.marked()).items()
        found = {submission: deployment_run(commands, stream, log) for submission, commands in drivers}
        return {submission: deployment for submission, deployment in found.items() if deployment}

    @override
    def look(self, ids: Collection[str], whose: Whose | None = None) -> Mapping[str, DriverView]:
        """Return the drivers as their processes and stored exit codes show them; the processes are listed once.

        The name of a driver's folder and its processes' command lines say whose it is.
        """
        drivers = processes.commands(processes.marked())
        if not drivers.keys() >= {*ids}:
            # During the first look a process may fork and end before it is seen.
            drivers |= processes.commands(processes.marked())

        def view(id: str) -> DriverView:
            folder, commands, ours = Path(id), drivers.get(id, []), None
            if whose is not None and (commands or folder.is_dir()):
                ours = whose.runs_any(commands) if _deployment(id) == whose.deployment else False
            log = folder / "log"
            return DriverView(
                _state(folder, bool(commands)), {"driver log": str(log.readlink() if log.is_symlink() else log)}, ours
            )

        return {each: view(each) for each in ids}

    @override
    def kill(self, submission: str, applications: Collection[str] = ()) -> None:
        """Kill the driver: its JVM and all Python processes below it; return when they are gone.

        The JVM gets SIGTERM and 10 s to end. After that all processes get SIGKILL.

        :raises ClusterError: the driver runs on another machine.
        """
        elsewhere = _elsewhere(Path(submission))
        if elsewhere is not None:
            raise elsewhere
        processes.end(submission)

    @override
    def remains(
        self, submission: str, whose: Whose, applications: Collection[str] = (), hosts: Collection[str] | None = None
    ) -> Remains:
        """Return the driver's live processes. In local mode the executors are part of its JVM."""
        elsewhere = _elsewhere(Path(submission))
        if elsewhere is not None:
            return Remains((elsewhere.message,))
        return Remains(tuple(f"Process {process.pid} is alive." for process in processes.of(submission)))

    @override
    def log_tail(self, submission: str) -> str:
        try:
            with open(Path(submission) / "log", "rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - READ_BYTES))
                return tail(log=log.read(READ_BYTES).decode(errors="replace"))
        except (OSError, ValueError):
            return ""


def _deployment(submission: str) -> str:
    return Path(submission).name.rpartition(".")[0]


def _state(folder: Path, alive: bool) -> DriverState:
    """Return the state of a driver; `alive`: whether it has processes here."""
    if _host(folder) != socket.gethostname():
        return DriverState.LOST if _elsewhere(folder) is None else DriverState.UNKNOWN
    if alive:
        return DriverState.RUNNING
    try:
        code = int((folder / "exit").read_text())
    except FileNotFoundError:
        return DriverState.LOST
    if code in _KILLED:
        return DriverState.KILLED
    return DriverState.FAILED if code else DriverState.FINISHED


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


def _host(folder: Path) -> str:
    """Return the machine of a driver; empty: not known."""
    try:
        return (folder / "host").read_text()
    except FileNotFoundError:
        # A folder of this user's state is on that machine only, and says so by its name.
        return folder.parent.name.partition("@")[2]


def _elsewhere(folder: Path) -> ClusterError | None:
    """Return the error about a driver of another machine; None: it is of this one, or nothing is known of it."""
    host = _host(folder)
    if host == socket.gethostname() or not (host or folder.is_dir()):
        return None
    return ClusterError(
        f"The driver {folder.name} runs on {host}, but this task runs on {socket.gethostname()}.",
        next_step=f"Run this task on {host}: a local cluster is one machine only.",
    )


def _take_lock(job: Job, home: Path) -> int:
    """Take the deployment's lock on this machine. The driver inherits it and holds it until it ends.

    The lock covers the moment between fork and exec, in which the list of processes does not show the driver yet. It
    ends with the machine, and is not in the control folder: file locks on network file systems are not inherited.

    :raises SubmitUnclear: another process holds the lock.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(runtime if os.path.isdir(runtime) else tempfile.gettempdir()) / f"{_NAME}-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = uuid.uuid5(uuid.NAMESPACE_URL, f"{home}/{job.deployment}/{job.log}").hex
    lock = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise SubmitUnclear(
            f"A driver of {job.deployment} is running or just starting on this machine.",
            next_step="Nothing to do: the driver is searched for before anything is submitted again.",
            deployment=job.deployment,
        ) from None
    return lock


def _prune(folder: Path) -> None:
    """Remove the oldest logs of drivers that have ended."""
    alive = {Path(submission).name for _, submission in processes.marked()}
    with contextlib.suppress(FileNotFoundError):  # another submission removes them, too
        ended = [log for log in folder.glob("*.log") if log.stem not in alive]
        for log in sorted(ended, key=lambda log: log.stat().st_mtime)[:-_KEPT_LOGS]:
            log.unlink(missing_ok=True)
            log.with_name(f"{log.name}.1").unlink(missing_ok=True)
