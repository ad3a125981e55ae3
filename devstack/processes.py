"""The processes of one stack: each in a session and with a log of its own, none left behind."""

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devstack import reaper
from devstack.errors import StackError

JAVA_NEEDED = 17
POLL_SECONDS = 0.1
TAIL_LINES = 20
STOP_SECONDS = 10.0


@dataclass
class Process:
    """One process of the stack and its log (standard output and error)."""

    name: str
    log: Path
    popen: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        """Also the id of its process group and session."""
        return self.popen.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.popen.poll() is None

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its process group, which may outlive it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


class Processes:
    """Starts processes, and has all of them and their descendants gone at `close()` or when this Python ends.

    Threads may start side by side. Once closed it starts nothing, and every `wait_for` ends with an error.

    :param logs: folder for one log per process
    """

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.mark = uuid.uuid4().hex
        self._started: list[Process] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        logs.mkdir(parents=True, exist_ok=True)
        # In a session of its own: Ctrl-C on the terminal must not reach it.
        self._keeper = subprocess.Popen(
            [sys.executable, reaper.__file__, self.mark], stdin=subprocess.PIPE, start_new_session=True
        )

    def start(self, name: str, command: Sequence[str], *, env: Mapping[str, str | None], folder: Path) -> Process:
        """Start a command in a folder; its log is `logs/NAME.log`.

        :param env: added to our own environment; None removes a variable
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
            process = Process(name, log, popen)
            self._started.append(process)
        return process

    def run(
        self, name: str, command: Sequence[str], *, env: Mapping[str, str | None], folder: Path, seconds: float
    ) -> None:
        """Start a command and wait for its success; raise StackError when it fails or takes longer."""
        process = self.start(name, command, env=env, folder=folder)
        self.wait_for(f"{name} to end", lambda: not process.alive, seconds)
        if process.popen.returncode != 0:
            raise _ended(process)

    def wait_for(self, what: str, ready: Callable[[], object], seconds: float, *alive: Process) -> None:
        """Return once `ready()` is true; raise StackError after that many seconds or when one of `alive` has ended."""
        deadline = time.monotonic() + seconds
        while True:
            # Before ready(): a port that answers may be somebody else's when ours could not bind it.
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
        """Let every start and wait of other threads end with an error from now on."""
        self._closed.set()

    def close(self) -> None:
        """Stop every process that still runs, then kill whatever they left."""
        self.abandon()
        with self._lock:
            started = list(self._started)
        try:
            stop(*started)
        finally:
            assert self._keeper.stdin is not None
            self._keeper.stdin.close()
            self._keeper.wait()

    def check_open(self) -> None:
        """Raise StackError once the stack is being stopped, so that what goes on in other threads ends."""
        if self._closed.is_set():
            raise StackError("The stack is being stopped.", next_step="Start it again.")


def stop(*processes: Process | None) -> None:
    """Ask the process groups to end, all at once, and kill what is left of them after STOP_SECONDS."""
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
    """Return the Java to run, JAVA_HOME's or the one on PATH; raise StackError when it is missing or older than 17."""
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
        raise StackError(f"Java {JAVA_NEEDED} or later is needed, {found} says: {first}.", next_step=next_step)
    return found


def _ended(process: Process) -> StackError:
    return StackError(
        f"{process.name} ended with exit code {process.popen.returncode}. Its last lines:\n{process.tail()}\n",
        next_step=f"Read {process.log}.",
    )
