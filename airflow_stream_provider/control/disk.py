"""Read and write the files of a control folder, whose other writers may be mistaken, killed or hostile.

Folders get mode 2770 and files 0660, whatever the umask is: Airflow's user and the drivers' user share the folder by
its group (docs/operations.md), which the setgid bit passes on.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from airflow_stream_provider.lifecycle.errors import ControlUnavailable, Damaged

FOLDER_MODE = 0o2770
FILE_MODE = 0o660


def open_file(path: Path) -> int:
    """Open a regular file to read it, and return its descriptor.

    :raises Damaged: it is a symbolic link, a pipe or the like.
    :raises OSError: it does not exist, or cannot be read.
    """
    try:
        # Without O_NONBLOCK a pipe with this name would block for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _damaged(path, "is not a regular file") from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _damaged(path, "is not a regular file")
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
            raise _damaged(path, f"is larger than {limit} bytes")
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


def _damaged(path: Path, what: str) -> Damaged:
    return Damaged(
        f"{path} {what}.",
        next_step="Nothing of this package writes such a file: find out who did, and remove it.",
        path=str(path),
    )
