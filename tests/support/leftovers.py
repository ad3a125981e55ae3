"""That a block of code closes all it opens, in a process where other tests' clients may still run."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Iterator

from devstack.drivers import wait_for


def _open() -> tuple[int, int]:
    return len(os.listdir("/proc/self/fd")), threading.active_count()


@contextlib.contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Fail if the block leaves descriptors or threads open for good, those that the garbage collector would close too.

    A client that another test left open may connect anew in between, so the numbers need not match at once.
    """
    gc.collect()
    gc.disable()
    try:
        before = _open()
        yield
        wait_for(
            f"at most {before[0]} descriptors and {before[1]} threads",
            lambda: all(now <= then for now, then in zip(_open(), before, strict=True)),
            60.0,
        )
    finally:
        gc.enable()
