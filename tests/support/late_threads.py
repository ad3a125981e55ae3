"""Begins every thread two seconds late, as on a machine with too much to do: `pytest -p tests.support.late_threads`."""

from __future__ import annotations

import threading
import time

SECONDS = 2.0
_start = threading.Thread.start


def late(thread: threading.Thread) -> None:
    """Start a thread later."""
    run = thread.run

    def later() -> None:
        time.sleep(SECONDS)
        run()

    thread.run = later  # type: ignore[method-assign]  # the delay is in the thread: who starts it goes on at once
    _start(thread)


# Libraries start threads too, and all of them by this method.
threading.Thread.start = late  # type: ignore[assignment, method-assign]
