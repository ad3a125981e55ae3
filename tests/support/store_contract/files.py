"""A folder, for the contract of stores."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_stream_provider.control.disk import unavailable
from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.root import make_root
from tests.support.file_limit import short_writes
from tests.support.race import said, started
from tests.support.store_contract.troubles import Troubles


class FilesWay(Troubles, FilesStore):
    """The product's store on real files, as a network file system brings it to one process; implements `Way`."""

    def __init__(self, folder: Path) -> None:
        Troubles.__init__(self)
        FilesStore.__init__(self, folder)
        self.store = self
        self._known: int | None = None

    def read(self, seq: int) -> bytes | None:
        self._reach()
        # A client of NFS may remember for a while that a number does not exist.
        return None if self._known is not None and seq > self._known else super().read(seq)

    def create(self, seq: int, data: bytes) -> None:
        self._reach()
        super().create(seq, data)

    def put_heartbeat(self, incarnation: str, data: bytes) -> None:
        self._reach()
        super().put_heartbeat(incarnation, data)

    def _create(self, path: Path, data: bytes) -> None:
        self._arrive()
        time.sleep(self._seconds)
        super()._create(path, data)
        if self._answer_is_lost():
            raise OSError(errno.ETIMEDOUT, "Connection timed out")

    def _reach(self) -> None:
        self._answers.wait()
        if self._away:
            with unavailable(self.folder):
                raise OSError(errno.ETIMEDOUT, "Connection timed out")

    @contextmanager
    def stale(self) -> Iterator[None]:
        self._known = max((int(path.stem) for path in self._log.iterdir()), default=0)
        yield
        self._known = None


class FilesPlace:
    """A folder of this machine; implements `Place`.

    :param folder: an empty one.
    """

    # A folder can suffer all of it.
    cannot: Mapping[str, str] = {}

    def __init__(self, folder: Path) -> None:
        self._root, self._backup = folder / "control", folder / "backup"
        self._folder = self._root / "orders"
        make_root(self._root.as_uri())
        FilesStore(self._folder).initialise()

    def open(self) -> FilesWay:
        return FilesWay(self._folder)

    def close(self) -> None:
        """Nothing is open."""

    def copies(self, seq: int) -> int:
        return int(self._path(seq).exists())

    def race(self, writers: int, wins: int) -> list[dict[str, Any]]:
        return said(started(writers, wins, writers * wins, self._root.as_uri(), "orders"))

    def gap(self, seq: int, data: bytes) -> None:
        FilesStore(self._folder).create(seq, data)

    def lose_beginning(self) -> None:
        self._path(1).unlink()

    def lose_end(self) -> None:
        max((self._folder / "log").iterdir()).unlink()

    def copy(self) -> Path:
        return Path(shutil.copytree(self._folder, self._backup))

    def put_back(self, copied: Path) -> None:
        shutil.rmtree(self._folder)
        shutil.copytree(copied, self._folder)

    def make_anew(self) -> None:
        shutil.rmtree(self._folder)
        FilesStore(self._folder).initialise()

    @contextmanager
    def away(self) -> Iterator[None]:
        """It is not mounted."""
        self._root.rename(self._backup)
        self._root.mkdir()
        yield
        self._root.rmdir()
        self._backup.rename(self._root)

    @contextmanager
    def full(self) -> Iterator[None]:
        """The kernel cuts writes of this process off."""
        with short_writes():
            yield

    def _path(self, seq: int) -> Path:
        return self._folder / "log" / f"{seq:020d}.json"
