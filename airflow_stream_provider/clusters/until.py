#!/usr/bin/env python3
"""Become a program that outlives neither the process that started it nor a moment.

This file is run as a script and is never imported. The program takes its place, and the kernel keeps what it has set:
the program is killed when the thread that has started it ends, and at the moment, also when it was stopped meanwhile.

    STREAM_PROGRAM=PATH STREAM_PARENT=PID STREAM_UNTIL=SECONDS until.py ARGUMENT...

The moment is by the monotonic clock of this machine, which cannot be set. Exit code 70: the program was not started.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
NOT_STARTED = 70


def main() -> None:
    """Set both, and run the program."""
    program = os.environ.pop("STREAM_PROGRAM")
    parent, until = int(os.environ.pop("STREAM_PARENT")), float(os.environ.pop("STREAM_UNTIL"))
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
    main()
