"""The control root in a folder that Airflow and the drivers mount.

In the file of samples, `lag.jsonl`, a line that a killed writer, a full disk or a power cut has left torn is skipped by
every reader, and so is an empty one: each writer begins a line of its own. Nothing is synced: what a power cut takes
counts as not looked at.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from airflow_stream_provider.control.disk import (
    FILE_MODE,
    FOLDER_MODE,
    damaged_file,
    make_folder,
    open_file,
    open_folder,
    read_file,
    replace_file,
    unavailable,
)
from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.root import check_root, local_folder, make_root
from airflow_stream_provider.lifecycle.errors import Damaged
from airflow_stream_provider.lifecycle.ids import NOTE, check_id, check_stream_name

NAME = "lag.jsonl"
# Lines that `shorten` leaves. With one look a minute: eight hours.
KEPT = 500
# Bytes: a longer file is shortened to half of that at the next append. And what a reader loads at most.
MOST = 8 * 2**20
READ_LIMIT = 2 * MOST
# Bytes that are read at a time.
PART = 2**15


class SampleFile:
    """The samples of one stream in its folder; implements `Samples`.

    :param folder: the stream's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, line: bytes) -> None:
        """Add a line; see `Samples.add`.

        :raises ControlUnavailable: it may not have been written, or only a part of it.
        """
        with unavailable(self._folder):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            with open(open_file(self._folder / NAME, flags), "ab", buffering=0) as file:
                handle = file.fileno()
                if os.fstat(handle).st_mode & 0o777 != FILE_MODE:
                    with contextlib.suppress(PermissionError):  # another user of the group made it
                        os.fchmod(handle, FILE_MODE)
                # In one call, so that no other writer comes in between.
                data = b"\n" + line + b"\n"
                if os.write(handle, data) != len(data):
                    raise OSError(errno.ENOSPC, "no space is left for a sample")
                size = os.fstat(handle).st_size
            if size > MOST:
                self.shorten()

    def newest(self) -> Iterator[bytes]:
        """Yield the lines, the last one first; see `Samples.newest`.

        :raises ControlUnavailable: the folder cannot be read now.
        :raises Damaged: the file is no regular file, or larger than any that this package leaves.
        """
        end: int | None = None
        behind = b""
        while end != 0:
            data, end = self._part(end)
            first, *lines = (data + behind).split(b"\n")
            yield from (line for line in reversed(lines) if line)
            behind = first
        if behind:
            yield behind

    def _part(self, end: int | None) -> tuple[bytes, int]:
        """Return what is in front of a place in the file, None: its end; and where that begins."""
        with unavailable(self._folder):
            try:
                with open(open_file(self._folder / NAME), "rb", buffering=0) as file:
                    size = os.fstat(file.fileno()).st_size
                    begin = max(0, (size if end is None else end) - PART)
                    if size - begin > READ_LIMIT:
                        raise damaged_file(self._folder / NAME, f"is larger than {READ_LIMIT} bytes")
                    return os.pread(file.fileno(), (size if end is None else end) - begin, begin), begin
            except FileNotFoundError:
                os.stat(self._folder / "log")  # a folder that is not mounted is no stream without samples
                return b"", 0

    def shorten(self) -> None:
        """Leave the last KEPT lines, or fewer where they are long; a sample that is added meanwhile may be lost.

        :raises ControlUnavailable: the file cannot be read or replaced now.
        """
        kept: list[bytes] = []
        size = 0
        try:
            for line in self.newest():
                size += len(line)
                if len(kept) == KEPT or size > MOST // 2:
                    break
                kept.append(line)
            else:
                return
        except Damaged:
            pass
        temporary = self._folder / "incoming" / f"new.{NAME}.{uuid.uuid4().hex}"
        with unavailable(self._folder):
            replace_file(temporary, self._folder / NAME, b"".join(line + b"\n" for line in reversed(kept)))


# In the root, with the notes; see `ControlRoot.noted`.
WATCHED = ".watched"
NOTE_LIMIT = 2**20
# How the name of a note begins that is being written.
_NEW = ".new."


class FilesRoot:
    """A control root in a folder; implements `ControlRoot`.

    :param url: such as ``file:///data/streams``.
    :raises SpecError: it is not ``file:///an/absolute/folder``.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.folder = local_folder(url)

    def make(self) -> bool:
        """See `ControlRoot.make` and `make_root`."""
        return make_root(self.url)

    def check(self) -> None:
        """See `ControlRoot.check`."""
        check_root(self.folder)

    def where(self, stream: str) -> str:
        """Return ``the folder /data/streams/orders``; see `ControlRoot.where`."""
        return f"the folder {self._folder(stream)}"

    def stream_folder(self, stream: str) -> Path:
        """Return the stream's folder; see `ControlRoot.stream_folder`."""
        return self._folder(stream)

    def driver_arguments(self) -> tuple[str, ...]:
        """Return nothing: drivers mount the folder; see `ControlRoot.driver_arguments`."""
        return ()

    def exists(self, stream: str) -> bool:
        """Whether the stream has a folder here; see `ControlRoot.exists`."""
        check_root(self.folder)
        folder = self._folder(stream)
        with unavailable(folder):
            return folder.is_dir()

    def store(self, stream: str, *, create: bool = False) -> FilesStore:
        """Return the store of a stream; see `ControlRoot.store`.

        :param create: create the folders of a new stream, after a test that of two exclusive creates one succeeds.
        """
        store = FilesStore(self._folder(stream))
        if create:
            store.initialise()
        else:
            store.check()
        return store

    def log_id(self, stream: str) -> str:
        """Return the id that is kept in the stream's folder; see `ControlRoot.log_id`.

        :raises Damaged: what is kept there is no id.
        """
        return FilesStore(self._folder(stream)).log_id()

    def samples(self, stream: str) -> SampleFile:
        """Return the samples of a stream, in its folder."""
        return SampleFile(self._folder(stream))

    def noted(self, *names: str) -> dict[str, bytes]:
        """Return the notes; see `ControlRoot.noted`."""
        with unavailable(self.folder):
            try:
                with open_folder(self.folder / WATCHED) as folder:
                    there = [name for name in os.listdir(folder) if NOTE.fullmatch(name)]
            except FileNotFoundError:
                check_root(self.folder)  # a folder that is not mounted is no root without notes
                return {}
            asked = (name for name in there if not names or name in names)
            return {name: self._note(name) for name in asked if not name.startswith(_NEW)}

    def _note(self, name: str) -> bytes:
        try:
            return read_file(self.folder / WATCHED / name, NOTE_LIMIT)
        except (Damaged, FileNotFoundError):
            return b""

    def note(self, name: str, data: bytes) -> None:
        """Replace a note; see `ControlRoot.note`."""
        with unavailable(self.folder):
            make_folder(self.folder / WATCHED, FOLDER_MODE)
            with open_folder(self.folder / WATCHED):  # which is no link
                temporary = self.folder / WATCHED / f"{_NEW}{uuid.uuid4().hex}"
                replace_file(temporary, self._note_path(name), data)

    def forget(self, name: str) -> None:
        """Remove a note; see `ControlRoot.forget`."""
        path = self._note_path(name)
        with (
            unavailable(self.folder),
            contextlib.suppress(FileNotFoundError),
            open_folder(path.parent) as folder,
        ):
            os.unlink(path.name, dir_fd=folder)

    def _note_path(self, name: str) -> Path:
        return self.folder / WATCHED / check_id(name, NOTE)

    def close(self) -> None:
        """See `ControlRoot.close`: no file stays open."""

    def _folder(self, stream: str) -> Path:
        return self.folder / check_stream_name(stream)
