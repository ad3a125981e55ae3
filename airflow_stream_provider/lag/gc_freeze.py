"""Spare Python's cyclic garbage collector the heap that a process has before it measures its first lag.

A report of thousands of partitions allocates tens of thousands of objects and keeps them for a while. Each time, the
collector scans the whole heap, which in Airflow's processes is large, and finds nothing: docs/benchmarks.md has the
numbers. `gc.freeze()` takes what is there now out of all later scans; the collector stays on for everything newer.
Switching it off during reports saves hardly more, and would leave the whole process without it while Kafka does not
answer.
"""

from __future__ import annotations

import functools
import gc


@functools.cache
def freeze_heap() -> None:
    """Leave the present objects out of all later collections, once in this process.

    Reference counting still frees them. Only what is cyclic garbage at this moment stays; a second call would add to
    that, and does nothing.
    """
    gc.freeze()
