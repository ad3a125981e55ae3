"""Start the processes of a stack, each in its own session and with its own log, and stop all of them at the end."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from devstack import reaper
from devstack.errors import StackError

JAVA_NEEDED = 17
POLL_SECONDS = 0.1
TAIL_LINES = 20
STOP_SECONDS = 10.0

running: weakref.WeakSet[Processes] = weakref.WeakSet()


@dataclass
class Process:
    """One process of the stack.

    :param name: its name in messages.
    :param log: file of its standard output and error.
    :param popen: the process.
    :param again: starts the same command again.
    """

    name: str
    log: Path
    popen: subprocess.Popen[bytes]
    again: Callable[[], Process]

    @property
    def pid(self) -> int:
        """Its pid, which is also the id of its process group and session."""
        return self.popen.pid

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self.popen.poll() is None

    def tail(self) -> str:
        """Return the last 20 lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its process group, whose other processes may outlive it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


class Processes:
    """Starts processes. At `close()`, or when this Python process ends, all of them and their children are killed.

    Several threads may use it. After `close()` every start and every wait raises StackError.

    :param logs: folder for the processes' logs.
    """

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.mark = uuid.uuid4().hex
        self._started: list[Process] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        logs.mkdir(parents=True, exist_ok=True)
        # In its own session, so that Ctrl-C in the terminal does not reach it.
        self._keeper = subprocess.Popen(
            [sys.executable, reaper.__file__, self.mark], stdin=subprocess.PIPE, start_new_session=True
        )
        running.add(self)

    def last(self) -> list[Process]:
        """Return the process that was started last under each name."""
        with self._lock:
            return list({process.name: process for process in self._started}.values())

    def start(self, name: str, command: Sequence[str], *, env: Mapping[str, str | None], folder: Path) -> Process:
        """Start a command. Its output goes to `logs/NAME.log`.

        :param env: variables to add to our environment; None removes a variable.
        :param folder: working folder of the command.
        :raises StackError: this object is closed.
        """
        variables: dict[str, str | None] = {**os.environ, **env, reaper.VARIABLE: self.mark}
        log = self.logs / f"{name}.log"
        with self._lock, log.open("ab") as output:
            self.check_open()
            popen = subprocess.Popen(
                command,
                cwd=folder,
                env={key: value for key, value in variables.items() if value is not None},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            again = partial(self.start, name, command, env=env, folder=folder)
            process = Process(name, log, popen, again)
            self._started.append(process)
        return process

    def named(self, name: str) -> Process:
        """Return the process that was started last under a name.

        :raises StackError: none was.
        """
        found = {process.name: process for process in self.last()}
        if name not in found:
            names = ", ".join(sorted(found))
            raise StackError(f"No process {name!r} was started.", next_step=f"Choose one of {names}.", name=name)
        return found[name]

    def restart(self, name: str) -> Process:
        """Start the process of a name again, as a supervisor does; what is left of it is killed first.

        :raises StackError: none was started, or this object is closed.
        """
        process = self.named(name)
        process.signal(signal.SIGKILL)
        process.popen.wait()
        return process.again()

    def run(
        self, name: str, command: Sequence[str], *, env: Mapping[str, str | None], folder: Path, seconds: float
    ) -> None:
        """Run a command to its end.

        :param seconds: how long it may take.
        :raises StackError: it fails, or takes longer.
        """
        process = self.start(name, command, env=env, folder=folder)
        self.wait_for(f"{name} to end", lambda: not process.alive, seconds)
        if process.popen.returncode != 0:
            raise _ended(process)

    def wait_for(self, what: str, ready: Callable[[], object], seconds: float, *alive: Process) -> None:
        """Wait until `ready()` is true.

        :param what: what is waited for, for the error message.
        :param alive: processes that must not end meanwhile.
        :raises StackError: it takes longer than `seconds`, a process of `alive` ended, or this object is closed.
        """
        deadline = time.monotonic() + seconds
        while True:
            # Before ready(): if our process could not bind its port, another process may answer there.
            for process in alive:
                if not process.alive:
                    raise _ended(process)
            if ready():
                return
            if time.monotonic() > deadline:
                logs = ", ".join(str(process.log) for process in alive) or str(self.logs)
                raise StackError(f"Waited {seconds:.0f} s for {what}.", next_step=f"Read {logs}.")
            self._closed.wait(POLL_SECONDS)
            self.check_open()

    def abandon(self) -> None:
        """Make every start and wait, also of other threads, raise StackError from now on."""
        self._closed.set()

    def close(self) -> None:
        """Stop all running processes, then kill the children that they left."""
        self.abandon()
        running.discard(self)
        with self._lock:
            started = list(self._started)
        try:
            stop(*started)
        finally:
            assert self._keeper.stdin is not None
            self._keeper.stdin.close()
            self._keeper.wait()

    def check_open(self) -> None:
        """Check that the stack is not being stopped.

        :raises StackError: it is.
        """
        if self._closed.is_set():
            raise StackError("The stack is being stopped.", next_step="Start it again.")


def stop(*processes: Process | None) -> None:
    """Send SIGTERM to all process groups, and SIGKILL to those that are left after 10 s."""
    given = [process for process in processes if process is not None]
    deadline = time.monotonic() + STOP_SECONDS
    for process in given:
        process.signal(signal.SIGTERM)
    for process in given:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.popen.wait(max(0.0, deadline - time.monotonic()))
        process.signal(signal.SIGKILL)
        process.popen.wait()


def java() -> str:
    """Return the path of Java: the one in JAVA_HOME, otherwise the one on PATH.

    :raises StackError: there is none, or it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    next_step = f"Install Java {JAVA_NEEDED} or later and put it on PATH, or set JAVA_HOME."
    if found is None:
        raise StackError("Java was not found.", next_step=next_step)
    try:
        answer = subprocess.run([found, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    except OSError as error:
        raise StackError(f"Java cannot be run: {error}.", next_step=next_step) from error
    version = re.search(r'version "(\d+)', answer)
    if version is None or int(version.group(1)) < JAVA_NEEDED:
        first = answer.strip().partition("\n")[0]
        raise StackError(f"Java {JAVA_NEEDED} or later is needed, but {found} is: {first}.", next_step=next_step)
    return found


def _ended(process: Process) -> StackError:
    return StackError(
        f"{process.name} ended with exit code {process.popen.returncode}. Its last lines:\n{process.tail()}\n",
        next_step=f"Read {process.log}.",
    )
