"""Kill everything a stack started, once the process that started it is gone, however it went.

Run as `python reaper.py MARK` with a pipe as standard input that only the stack's owner holds open: it ends when the
owner closes it, exits or is killed. Every process of the stack has inherited the mark in its environment, also those
that left their process group or lost their parent (Spark's drivers and executors, Airflow's tasks).
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
    """The live processes that carry the mark; those of other users are passed over."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(VARIABLE) == mark:
                yield process


def sweep(mark: str) -> None:
    """Kill all that carry the mark until two looks in a row find none: one may have been forking during the first."""
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
    """Wait for the owner's end, then sweep."""
    owner = os.getppid()
    # A child that the owner has forked holds the pipe open too, so its end alone does not tell.
    while os.getppid() == owner:
        readable, _, _ = select.select([sys.stdin], [], [], 1.0)
        if readable and not os.read(sys.stdin.fileno(), 1024):
            break
    sweep(sys.argv[1])


if __name__ == "__main__":
    main()
