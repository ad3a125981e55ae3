#!/usr/bin/env python3
"""Run a driver that outlives the process that starts it, or a program that must not.

This file is run as a script, by the standard library alone; others import it for its path.

    detach.py LOCK FOLDER LOG COMMAND...

The first process returns as soon as the command runs. A second process, in a session of its own, waits for the command,
keeps its log small, and writes its exit code to the file `exit`.

    STREAM_PROGRAM=PATH STREAM_PARENT=PID STREAM_UNTIL=SECONDS detach.py ARGUMENT...

The program takes the place of this script, and the kernel keeps what it has set: the program is killed when the thread
that has started it ends, and at the moment, also when it was stopped meanwhile. The moment is by the monotonic clock of
this machine, which cannot be set.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

# A log that has grown to this many bytes is copied to LOG.1, in place of the one before, and begins anew.
LOG_BYTES = 32 * 1024 * 1024
LOOK_SECONDS = 2.0
PR_SET_PDEATHSIG = 1
NOT_STARTED = 70
"""Exit code of a program with an end that was not started."""


def detach(lock: int, folder: Path, log: Path, command: list[str]) -> None:
    """Run the command detached.

    :param lock: file descriptor of the deployment's lock; the command inherits it.
    :param folder: gets the command's exit code as `exit` when it ends.
    :param log: gets the command's output.
    """
    os.setsid()
    ready, started = os.pipe()
    if os.fork():
        os.close(started)
        os.read(ready, 1)
        os._exit(0)
    # A handler instead of SIG_IGN, which the driver would inherit.
    signal.signal(signal.SIGTERM, lambda *_: None)
    # Appended to, so that the next line goes to the beginning of a file that was cut.
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    # The JVM holds the lock too, so the lock stays taken if this process is killed.
    try:
        driver = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=folder, pass_fds=(lock,))
        os.close(started)
        code = wait(driver, log)
    except OSError as error:
        print(f"{command[0]} cannot be run: {error.strerror}.", file=sys.stderr)
        code = 127  # the shell's exit code for a missing command
    temporary = folder / ".exit"
    temporary.write_text(str(code))
    temporary.rename(folder / "exit")


def wait(driver: subprocess.Popen[bytes], log: Path) -> int:
    """Return the driver's exit code when it has ended; meanwhile cut its log when it has grown too large.

    A pipe through this process would lose nothing, but would break when this process is killed, and the driver with it.
    """
    while True:
        try:
            return driver.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if os.fstat(1).st_size > LOG_BYTES:
                with contextlib.suppress(OSError):  # on a full disk nothing is kept
                    shutil.copyfile(log, f"{log}.1")
                os.truncate(1, 0)


def become(program: str, parent: int, until: float) -> None:
    """Become a program that ends with the process `parent`, and at the moment `until`."""
    if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL):
        sys.exit(NOT_STARTED)
    # Its end is reported from now on; it may have come before.
    if os.getppid() != parent:
        sys.exit(NOT_STARTED)
    # The program's start resets neither: the starting process may have ignored or blocked it.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    left = until - time.monotonic()
    if left <= 0:
        sys.exit(NOT_STARTED)
    signal.setitimer(signal.ITIMER_REAL, left)
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    if "STREAM_PROGRAM" in os.environ:
        own = [os.environ.pop(f"STREAM_{name}") for name in ("PROGRAM", "PARENT", "UNTIL")]
        become(own[0], int(own[1]), float(own[2]))
    else:
        detach(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
