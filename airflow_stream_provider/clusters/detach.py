"""Run a driver detached from the process that starts it, and store its exit code.

This file is run as a script and is never imported:

    detach.py LOCK FOLDER COMMAND...

The first process returns as soon as the command runs. A second process, in a session of its own, waits for the command
and writes its exit code to the file `exit`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


def main(lock: int, folder: Path, command: list[str]) -> None:
    """Run the command detached.

    :param lock: file descriptor of the deployment's lock; the command inherits it.
    :param folder: gets the command's output as `log` and, when it ends, its exit code as `exit`.
    """
    os.setsid()
    ready, started = os.pipe()
    if os.fork():
        os.close(started)
        os.read(ready, 1)
        os._exit(0)
    # A handler instead of SIG_IGN, which the driver would inherit.
    signal.signal(signal.SIGTERM, lambda *_: None)
    with open(folder / "log", "ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    # The JVM holds the lock too, so the lock stays taken if this process is killed.
    try:
        driver = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=folder, pass_fds=(lock,))
        os.close(started)
        code = driver.wait()
    except OSError as error:
        print(f"{command[0]} cannot be run: {error.strerror}.", file=sys.stderr)
        code = 127  # the shell's exit code for a missing command
    temporary = folder / ".exit"
    temporary.write_text(str(code))
    temporary.rename(folder / "exit")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
