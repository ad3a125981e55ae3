"""Starts a driver that outlives its starter, and waits for its exit code. Run as a script, never imported by us.

    detach.py LOCK FOLDER COMMAND...

The first process returns as soon as the command runs; a second one, which belongs to nobody, writes `exit` when the
command ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


def main(lock: int, folder: Path, command: list[str]) -> None:
    """Run the command detached, with its output in `log` and, at the end, its exit code in `exit`."""
    os.setsid()
    ready, started = os.pipe()
    if os.fork():
        os.close(started)
        os.read(ready, 1)
        os._exit(0)
    # A handler, not SIG_IGN: the driver would inherit that.
    signal.signal(signal.SIGTERM, lambda *_: None)
    with open(folder / "log", "ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    # The JVM holds the lock too, so that it stays taken should this process be killed.
    try:
        driver = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=folder, pass_fds=(lock,))
        os.close(started)
        code = driver.wait()
    except OSError as error:
        print(f"{command[0]} cannot be run: {error.strerror}.", file=sys.stderr)
        code = 127  # the shell's code for a command that is not there
    temporary = folder / ".exit"
    temporary.write_text(str(code))
    temporary.rename(folder / "exit")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
