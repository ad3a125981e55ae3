"""The control root in a folder that Airflow and the drivers mount."""

from __future__ import annotations

import os
from pathlib import Path

from airflow_stream_provider.control.disk import FOLDER_MODE, make_folder, open_folder, unavailable
from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.root import check_root, local_folder, make_root
from airflow_stream_provider.control.sample_file import SampleFile
from airflow_stream_provider.lifecycle.ids import check_stream_name

# In the root, with an empty file for each stream that the watch has seen. No stream's name begins with a dot.
WATCHED = ".watched"


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

    def seen(self) -> frozenset[str]:
        """Return the streams that were noted; see `ControlRoot.seen`."""
        with unavailable(self.folder):
            try:
                with open_folder(self.folder / WATCHED) as folder:
                    return frozenset(os.listdir(folder))
            except FileNotFoundError:
                return frozenset()

    def note(self, stream: str) -> None:
        """Note that a stream has a folder here; see `ControlRoot.note`."""
        with unavailable(self.folder):
            make_folder(self.folder / WATCHED, FOLDER_MODE)
            with open_folder(self.folder / WATCHED) as folder:
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                os.close(os.open(stream, flags, 0o660, dir_fd=folder))

    def close(self) -> None:
        """See `ControlRoot.close`: no file stays open."""

    def _folder(self, stream: str) -> Path:
        return self.folder / check_stream_name(stream)
