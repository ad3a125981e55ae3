"""Knows whether SIGTERM has reached this Python process, whatever handler the script has for it.

The JVM has a hook of its own. But a host that shuts down sends SIGTERM to both processes, and a person may send it to
Python alone: a script then stops its queries and ends, and must not be taken for one whose work is done.

YARN sends it to all processes of a container, and SIGKILL 250 ms later, or whatever its administrator has set. A Python
that ended at once could not release the stream in that time, so there it goes on unless the script has a handler.
"""

from __future__ import annotations

import os
import signal
from typing import Any


class Sigterm:
    """Notes SIGTERM before the script's handler is called.

    `came`: whether it has come. `leaving`: set when the process is about to end; the script's handlers are not called
    any more, since they could end the process before the stream is released.
    """

    def __init__(self) -> None:
        self.came = False
        self.leaving = False

    def install(self) -> None:
        """Patch `signal.signal` before the script runs. Without a handler Python ends at once, but not on YARN."""
        original = signal.signal
        if os.environ.get("CONTAINER_ID"):
            # Not SIG_IGN, which whatever the script starts would inherit.
            going_on = self._noted(lambda number, frame: None)
            original(signal.SIGTERM, going_on)

            def as_ever() -> None:
                if signal.getsignal(signal.SIGTERM) is going_on:
                    original(signal.SIGTERM, signal.SIG_DFL)

            # Processes that the script forks have no stream to release: SIGTERM must end them.
            os.register_at_fork(after_in_child=as_ever)

        def noting(signalnum: int, handler: Any) -> Any:
            own = signalnum == signal.SIGTERM and callable(handler)
            return original(signalnum, self._noted(handler) if own else handler)

        noting.__doc__ = original.__doc__
        signal.signal = noting

    def _noted(self, handler: Any) -> Any:
        def handle(number: int, frame: Any) -> Any:
            self.came = True
            return None if self.leaving else handler(number, frame)

        return handle
