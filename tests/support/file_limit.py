"""A limit of the kernel on the size of files that this process writes."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def short_writes() -> Iterator[None]:
    """Limit files to 500 bytes: a longer write is incomplete, as on a disk that becomes full.

    Not a fixture: pytest's own output may go to a file, which must not be cut off.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
