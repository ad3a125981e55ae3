"""Find the processes that a fault hits: drivers by their deployment, executors by their application, parts by name."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable

import psutil

from chaos.events import Events
from chaos.plan import STORAGE
from chaos.states import RELEASED
from devstack import reaper
from devstack.errors import StackError
from devstack.stack import LocalStack

PARTS = {
    "master": "spark-master",
    "broker": "kafka",
    "scheduler": "airflow-scheduler",
    "triggerer": "airflow-triggerer",
}
EXECUTOR = "CoarseGrainedExecutorBackend"
# The title of a task of Airflow, which ends with its id. Its parent names the executor, too.
TASK = re.compile(r"airflow worker -- [0-9a-f-]{36}\s*")


class Targets:
    """The processes of the run's stack.

    :param stack: the running stack.
    :param storage: the process that is the storage; None: the disk is.
    """

    def __init__(self, stack: LocalStack, storage: psutil.Process | None = None) -> None:
        self._stack = stack
        self._storage = storage
        self._foreign: set[psutil.Process] = set()
        self._lines: list[tuple[psutil.Process, str]] = []
        # A process that is being killed is there for some milliseconds more.
        self._killed: set[psutil.Process] = set()

    def look(self) -> None:
        """Read the command lines of the stack's processes; cheap enough for several times a second."""
        mark, own = self._stack.processes.mark, os.getpid()
        foreign, self._lines = set(), []
        for process in psutil.process_iter():
            try:
                if process in self._foreign:
                    foreign.add(process)
                elif process.environ().get(reaper.VARIABLE) == mark:
                    self._lines.append((process, " ".join(process.cmdline())))
                elif process.ppid() != own:  # a child of ours may be about to become one of the stack
                    foreign.add(process)
            except psutil.Error:
                continue
        self._foreign = foreign

    def part(self, target: str, events: Events) -> str:
        """Return the name of the process of a part of the stack; empty for a target that is none."""
        if target != "worker":
            return PARTS.get(target, "")
        names = self._stack.spark.worker_names
        beat = events.beats.get(events.incarnation("holder")) or events.beats.get(events.incarnation("standby"))
        if beat is not None and beat.jvm_pid:
            try:
                parent = psutil.Process(beat.jvm_pid).ppid()
            except psutil.Error:
                parent = 0
            names = [name for name in names if self._stack.processes.named(name).pid == parent] or names
        return names[0]

    def find(self, target: str, events: Events) -> list[psutil.Process]:
        """Return the live processes of a target; [] when there is none now."""
        if target in ("holder", "standby"):
            return self._alive(self._driver(events.deployment(target)))
        if target in ("holder_python", "standby_python"):
            found = self._driver(events.deployment(target))
            return self._alive(process for process in found if "java" not in self._name(process))
        if target == "executor":
            application = self._application(events)
            lines = self._lines if application else []
            return self._with_children(p for p, line in lines if EXECUTOR in line and application in line)
        if target == "task":
            return self._tasks()
        if target == STORAGE:
            return self._alive([self._storage] if self._storage else [])
        try:
            process = psutil.Process(self._stack.processes.named(self.part(target, events)).pid)
        except (psutil.Error, StackError):
            return []
        # The tasks of Airflow run below its scheduler; the drivers below a worker are targets of their own.
        return self._alive([process]) if target == "worker" else self._with_children([process])

    def kill(self, processes: Iterable[psutil.Process]) -> None:
        """Kill processes, which from now on are no target any more."""
        found = set(processes)
        self._killed |= found
        send(found, signal.SIGKILL)

    def incarnation(self, target: str, events: Events) -> str:
        """Return the incarnation of a driver, or that an executor works for; empty for other targets."""
        if target == "executor":
            return self._served(events)
        return events.incarnation(target) if target.startswith(("holder", "standby")) else ""

    def serves(self, name: str) -> bool:
        """Whether a part of the stack listens on a port; those of Airflow have none, and do once they live."""
        try:
            process = psutil.Process(self._stack.processes.named(name).pid)
            if name.startswith("airflow"):
                return bool(self._alive([process]))
            ports = {each.laddr.port for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN}
            # The broker listens for its own controller long before it does for clients.
            return self._stack.broker.port in ports if name == PARTS["broker"] else bool(ports)
        except (psutil.Error, StackError):
            return False

    def _driver(self, deployment: str) -> list[psutil.Process]:
        if not deployment:
            return []
        return [p for p, line in self._lines if deployment in line and EXECUTOR not in line]

    @staticmethod
    def _served(events: Events) -> str:
        # Who has released runs nothing more: then it is the executor of the one that comes.
        order = ("standby", "holder") if events.name == RELEASED else ("holder", "standby")
        names = (events.incarnation(target) for target in order)
        return next((name for name in names if name in events.beats and events.beats[name].application_id), "")

    def _application(self, events: Events) -> str:
        served = self._served(events)
        return events.beats[served].application_id if served else ""

    def _tasks(self) -> list[psutil.Process]:
        try:
            scheduler = psutil.Process(self._stack.processes.named("airflow-scheduler").pid)
            return self._alive(p for p in scheduler.children(recursive=True) if TASK.fullmatch(" ".join(p.cmdline())))
        except (psutil.Error, StackError):
            return []

    @staticmethod
    def _name(process: psutil.Process) -> str:
        try:
            return str(process.name())
        except psutil.Error:
            return "java"

    def _with_children(self, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for process in processes:
            try:
                found += [process, *process.children(recursive=True)]
            except psutil.Error:
                continue
        return self._alive(found)

    def _alive(self, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for process in processes:
            try:
                if process not in self._killed and process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to processes; those that have ended are left out."""
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.Error:
            continue
