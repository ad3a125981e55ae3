"""Read and write the files of a control folder, whose other writers may be mistaken, killed or hostile.

Folders get mode 2770 and files 0660, whatever the umask is: Airflow's user and the drivers' user share the folder by
its group (docs/control.md), which the setgid bit passes on.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

from airflow_stream_provider.lifecycle.errors import ControlUnavailable, Damaged

logger = logging.getLogger(__name__)

FOLDER_MODE = 0o2770
FILE_MODE = 0o660


def open_file(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file, and return its descriptor.

    :param flags: as of `os.open`; default: to read it.
    :raises Damaged: it is a symbolic link, a pipe or the like.
    :raises OSError: it does not exist, or cannot be read or written.
    """
    try:
        # Without O_NONBLOCK a pipe with this name would block for ever.
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise damaged_file(path, "is not a regular file") from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise damaged_file(path, "is not a regular file")
    return handle


def read_file(path: Path, limit: int) -> bytes:
    """Return the contents of a regular file.

    :param limit: bytes; a larger file is not loaded.
    :raises Damaged: it is larger, or a symbolic link, a pipe or the like.
    :raises OSError: it does not exist, or cannot be read.
    """
    handle = open_file(path)
    try:
        found = os.fstat(handle)
        chunks, left = [], limit + 1
        # It may grow meanwhile.
        while left and found.st_size <= limit and (chunk := os.read(handle, min(left, 2**16))):
            chunks.append(chunk)
            left -= len(chunk)
        if found.st_size > limit or not left:
            raise damaged_file(path, f"is larger than {limit} bytes")
        return b"".join(chunks)
    finally:
        os.close(handle)


def write_new(path: Path, data: bytes, *, mode: int = FILE_MODE, sync: bool = False) -> None:
    """Create a file exclusively.

    :param sync: return only when it is on the disk.
    :raises FileExistsError: something with this name exists, also a symbolic link.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as file:
        os.fchmod(handle, mode)
        file.write(data)
        file.flush()
        if sync:
            os.fsync(handle)


def link_new(temporary: Path, path: Path, data: bytes) -> None:
    """Create a file exclusively and durably, so that no reader ever sees a part of it.

    :param temporary: a new name on the same disk.
    :raises FileExistsError: something with this name exists.
    """
    try:
        write_new(temporary, data, sync=True)
        os.link(temporary, path)
        sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def replace_file(temporary: Path, path: Path, data: bytes) -> None:
    """Replace a file at once; it is not synced: what is lost in a power cut counts as not written.

    :param temporary: a new name on the same disk.
    """
    try:
        write_new(temporary, data)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def make_folder(path: Path, mode: int = FOLDER_MODE) -> None:
    """Create a folder; one that exists is left as it is.

    :raises OSError: its parent does not exist, or something else has this name, such as a symbolic link.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise
    else:
        path.chmod(mode)


@contextlib.contextmanager
def open_folder(path: Path | str, inside: int | None = None) -> Iterator[int]:
    """Open a folder, to list and remove what is in it: a link that takes its place meanwhile redirects nothing.

    :param path: its last part must be a folder and no link; the parts before it are trusted.
    :param inside: descriptor of an open folder in which a relative path begins.
    :return: its descriptor, for the `dir_fd` of functions of `os`.
    :raises OSError: there is no such folder, it cannot be read, or something else has this name.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inside)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise NotADirectoryError(error.errno, f"{path} is a link or a file where a folder belongs") from error
        raise
    try:
        yield handle
    finally:
        os.close(handle)


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
        with contextlib.suppress(FileNotFoundError):
            if now - os.lstat(name, dir_fd=folder).st_mtime > seconds:
                names.append(name)
    return names


def remove(name: str, folder: int) -> None:
    """Remove a file, a link or a whole folder from an open folder; what cannot be removed is logged.

    For Airflow's side alone: it needs Python 3.11.
    """
    try:
        if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        logger.warning("%s cannot be removed: %s", name, error)


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def unavailable(folder: Path) -> Iterator[None]:
    """Raise ControlUnavailable in place of an OSError."""
    try:
        yield
    except OSError as error:
        raise ControlUnavailable(
            f"The control folder {folder} cannot be used now: {error.strerror or error}.",
            next_step="Check that it is mounted, writable and not full. Nothing is lost: the drivers wait for it.",
            folder=str(folder),
            errno=error.errno,
        ) from error


def damaged_file(path: Path, what: str) -> Damaged:
    """Return the error for a file that no process of this package has written; `what` is wrong with it."""
    return Damaged(
        f"{path} {what}.",
        next_step="Nothing of this package writes such a file: find out who did, and remove it.",
        path=str(path),
    )
