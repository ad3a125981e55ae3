"""Checkpoints in local and mounted folders, without a JVM."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import IO

from airflow_stream_provider.checkpoint.files import FileFacts, Place
from airflow_stream_provider.control.disk import open_file, read_file, sync_folder, write_new
from airflow_stream_provider.lifecycle.errors import CheckpointError, Damaged

SMALL = 64 * 2**20
"""Bytes of the largest file that is read whole: many times what Spark's logs have for a batch of 10,000 partitions."""


class LocalFiles:
    """The operating system's files, for places that are a `Path`; implements `Files`, which describes the methods."""

    def names(self, folder: Place, *, large: bool = False) -> list[str]:
        return os.listdir(_path(folder))

    def walk(self, folder: Place, skip: Container[str] = ()) -> Iterable[tuple[Place, list[str]]]:
        for parent, folders, names in os.walk(_path(folder)):
            folders[:] = [name for name in folders if name not in skip]
            for name in folders:
                _check_no_link(Path(parent, name))  # os.walk would pass over it
            if names:
                yield Path(parent), names

    def facts(self, paths: Sequence[Place]) -> list[FileFacts | None]:
        return [_facts(_path(path)) for path in paths]

    def read(self, path: Place) -> bytes:
        try:
            return read_file(_path(path), SMALL)
        except Damaged as error:
            raise _no_file(path, error.message) from error

    def open(self, path: Place) -> IO[bytes]:
        try:
            return open(open_file(_path(path)), "rb")
        except Damaged as error:
            raise _no_file(path, error.message) from error

    def write(self, path: Place, data: bytes) -> None:
        _path(path).parent.mkdir(parents=True, exist_ok=True)
        _path(path).write_bytes(data)

    def replace(self, path: Place, data: bytes) -> None:
        old = _path(path)
        new = old.with_name(f".{old.name}.{uuid.uuid4()}.tmp")  # a name that Spark passes over
        try:
            write_new(new, data, mode=old.stat().st_mode & 0o777, sync=True)
            # First: Spark reads a file without its checksums, and refuses one that has others.
            old.with_name(f".{old.name}.crc").unlink(missing_ok=True)
            os.replace(new, old)
        except OSError:
            new.unlink(missing_ok=True)
            raise
        sync_folder(old.parent)

    def make_private(self, folder: Place) -> None:
        if not _path(folder).parent.exists():
            self.make_private(folder.parent)
        _path(folder).mkdir(mode=0o700, exist_ok=True)

    def copy(self, root: Place, files: Iterable[Place], to: Place) -> int:
        top = _path(root)
        return sum(_copy(file, _path(to) / file.relative_to(top)) for file in map(_path, files))

    def remove(self, folder: Place) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(_path(folder))

    def check_writable(self, path: Place) -> None:
        existing = _path(path)
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        if not existing.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "it is a file", str(existing))
        # Writes a file, because access rights do not show a read-only mount or a full disk.
        try:
            with tempfile.TemporaryFile(dir=existing) as probe:
                probe.write(b"0")
                probe.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(existing)) from error

    def list_anew(self, folder: Place) -> None:
        # Spark does not look at such names.
        path = _path(folder) / f".look-{uuid.uuid4().hex}"
        with contextlib.suppress(OSError):
            path.touch()
            path.unlink()


def _path(place: Place) -> Path:
    assert isinstance(place, Path)
    return place


def _no_file(path: Place, what: str) -> CheckpointError:
    return CheckpointError(
        what,
        next_step="Spark writes no such file into a checkpoint: find out who did, and put the file itself there.",
        path=str(path),
    )


def _facts(path: Path) -> FileFacts | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return FileFacts(found.st_size, found.st_mtime, stat.S_ISDIR(found.st_mode))


def _check_no_link(path: Path) -> None:
    if path.is_symlink():
        raise CheckpointError(
            f"{path} is a symbolic link; Spark makes none in a checkpoint.",
            next_step="Put the folder or file itself there.",
            path=str(path),
        )


def _copy(file: Path, to: Path) -> int:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)
    # With Hadoop's checksum file, so that a rehearsal finds damaged files; without it files are read unchecked.
    hidden = f".{file.name}.crc"
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(file.with_name(hidden), to.with_name(hidden))
    return to.stat().st_size
