"""Python's cyclic collector, kept from a large report: beside Airflow's heap it took half of the report's CPU time."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_pauses = 0
_was_enabled = False


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Pause it in this process until the last thread that is in here leaves; what is not in a cycle is freed as ever.

    Objects made by the ten thousand, and all of them kept for a while, make the collector go through everything there
    is, again and again, and find nothing.
    """
    global _pauses, _was_enabled
    with _lock:
        if _pauses == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if _pauses == 0 and _was_enabled:
                gc.enable()
