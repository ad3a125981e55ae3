"""Switch Python's cyclic garbage collector off while a large lag report is made.

A report of thousands of partitions allocates tens of thousands of objects and keeps them for a while. The collector
then scans the whole heap again and again and finds nothing: in a process with Airflow's heap this took half of the CPU
time of a report (benchmarks/lag.py).

The price: `gc.disable()` works on the whole process. In a triggerer, no cyclic garbage is collected for any trigger
while a measurement runs, usually well under a second, but as long as a Kafka that does not answer takes to time out.
Reference counting still frees everything that is not in a cycle, and the collector catches up afterwards.
"""

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
    """Disable the collector in this process until the last thread inside this block leaves it.

    A collector that was already disabled stays so.
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
