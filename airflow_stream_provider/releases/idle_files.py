"""Find files in an open folder that were not written for long, and remove them."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import uuid
from contextlib import suppress

log = logging.getLogger(__name__)


def now(folder: int) -> float:
    """Return the time by the clock that dates the files of this open folder, in seconds since 1970."""
    probe = f".time.{uuid.uuid4().hex}"
    handle = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        return os.fstat(handle).st_mtime
    finally:
        os.close(handle)
        os.unlink(probe, dir_fd=folder)


def idle(folder: int, now: float, seconds: float) -> list[str]:
    """Return the names in an open folder that were not written for so many seconds."""
    names = []
    for name in sorted(os.listdir(folder)):
        with suppress(FileNotFoundError):
            if now - os.lstat(name, dir_fd=folder).st_mtime > seconds:
                names.append(name)
    return names


def remove(name: str, folder: int) -> None:
    """Remove a file, a link or a whole folder from an open folder; what cannot be removed is logged."""
    try:
        if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        log.warning("%s cannot be removed: %s", name, error)
