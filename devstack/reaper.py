"""Kill all processes of a stack when the process that started it has ended, for whatever reason.

Run it as `python reaper.py MARK`, with a pipe as standard input whose other end only the stack's owner holds: the pipe
ends when the owner closes it, exits or is killed. All processes of the stack inherit the mark in their environment,
also those that left their process group or lost their parent, such as Spark's drivers and executors, and Airflow's
tasks.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator

import psutil

VARIABLE = "AIRFLOW_STREAM_STACK"
SWEEP_SECONDS = 30.0


def marked(mark: str) -> Iterator[psutil.Process]:
    """Yield the live processes with the mark. Processes of other users are skipped."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(VARIABLE) == mark:
                yield process


def sweep(mark: str) -> None:
    """Kill all processes with the mark, until two searches in a row find none.

    A single search is not enough, because a process may fork during it. Gives up after 30 s.
    """
    deadline = time.monotonic() + SWEEP_SECONDS
    empty = 0
    while empty < 2 and time.monotonic() < deadline:
        found = list(marked(mark))
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        empty = 0 if found else empty + 1
        time.sleep(0.05)


def main() -> None:
    """Wait until the owner has ended, then kill its processes."""
    owner = os.getppid()
    # A forked child of the owner also holds the pipe, so the owner's pid is checked too.
    while os.getppid() == owner:
        readable, _, _ = select.select([sys.stdin], [], [], 1.0)
        if readable and not os.read(sys.stdin.fileno(), 1024):
            break
    sweep(sys.argv[1])


if __name__ == "__main__":
    main()
