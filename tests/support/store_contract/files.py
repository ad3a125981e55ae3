"""A folder, for the contract of stores."""

from __future__ import annotations

import errno
import resource
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_stream_provider.control.disk import unavailable
from airflow_stream_provider.control.files import FilesStore
from airflow_stream_provider.control.root import make_root
from tests.support.race import said, started

SLOW_SECONDS = 0.05


class FilesWay(FilesStore):
    """The product's store on real files, as a network file system brings it to one process; implements `Way`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store = self
        self._goes_on, self._arrived, self._answers = threading.Event(), threading.Event(), threading.Event()
        self._goes_on.set()
        self._answers.set()
        self._loses = self._away = self._away_then = False
        self._seconds = 0.0
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
        self._arrived.set()
        self._goes_on.wait()
        time.sleep(self._seconds)
        super()._create(path, data)
        if self._loses:
            self._loses, self._away = False, self._away_then
            raise OSError(errno.ETIMEDOUT, "Connection timed out")

    def _reach(self) -> None:
        self._answers.wait()
        if self._away:
            with unavailable(self.folder):
                raise OSError(errno.ETIMEDOUT, "Connection timed out")

    @contextmanager
    def answer_lost(self, then_away: bool) -> Iterator[None]:
        self._loses, self._away_then = True, then_away
        yield
        self._loses = self._away = False

    @contextmanager
    def held(self) -> Iterator[Callable[[], None]]:
        self._arrived.clear()
        self._goes_on.clear()
        try:
            yield self._wait
        finally:
            self._goes_on.set()

    def _wait(self) -> None:
        assert self._arrived.wait(60)

    @contextmanager
    def stale(self) -> Iterator[None]:
        self._known = max((int(path.stem) for path in self._log.iterdir()), default=0)
        yield
        self._known = None

    @contextmanager
    def hanging(self) -> Iterator[None]:
        self._answers.clear()
        try:
            yield
        finally:
            self._answers.set()

    @contextmanager
    def slow(self) -> Iterator[None]:
        self._seconds = SLOW_SECONDS
        yield
        self._seconds = 0.0


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
        """The kernel cuts writes of this process off, as on a disk that becomes full."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    def _path(self, seq: int) -> Path:
        return self._folder / "log" / f"{seq:020d}.json"
