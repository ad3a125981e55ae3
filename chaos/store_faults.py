"""Let the control folder, or the checkpoints, fail for every process of the run.

The control folder is a small tmpfs in the run's own mount namespace, mounted at two places. Faults are made at the
first; the checker reads it at the second.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from airflow_stream_provider.checkpoint.logs import numeric_names
from airflow_stream_provider.lifecycle.errors import Damaged
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from devstack.dead_mount import FUSE, mount_dead, unmount_dead
from devstack.errors import StackError

FILLER = "filler"
BUSY_SECONDS = 5.0
# So many batches does a copy lack that is put in the place of a checkpoint.
OLDER_BY = 3


@dataclass
class ControlFolder:
    """The control folder of the run.

    :param folder: where drivers and Airflow use it.
    :param safe: where it can always be read and written.
    :param elsewhere: where it is moved to while it is away.
    :param megabytes: its size.
    """

    folder: Path
    safe: Path
    elsewhere: Path
    megabytes: int = 64
    _server: int | None = field(default=None, init=False)

    def mount(self) -> None:
        """Mount it at both places. Needs a user and mount namespace of our own.

        :raises StackError: this machine has no FUSE for us, without which nothing can hang.
        """
        try:
            os.close(os.open(FUSE, os.O_RDWR))
        except OSError as error:
            raise StackError(f"{FUSE} cannot be used: {error}.", next_step="Run this as a user who may.") from error
        for path in (self.folder, self.safe, self.elsewhere):
            path.mkdir(parents=True, exist_ok=True)
        _mount("-t", "tmpfs", "-o", f"size={self.megabytes}m,mode=0770", "tmpfs", str(self.folder))
        _mount("--bind", str(self.folder), str(self.safe))

    def fail(self, kind: str) -> None:
        """Begin a fault: hang, full, read_only or away."""
        {"hang": self._hang, "full": self._fill, "read_only": self._forbid, "away": self._move}[kind]()

    def heal(self, kind: str) -> None:
        """End a fault of this kind. Does nothing when there is none."""
        if kind == "hang" and self._server is not None:
            unmount_dead(self.folder, self._server)
            self._server = None
        elif kind == "full":
            (self.safe / FILLER).unlink(missing_ok=True)
        elif kind == "read_only":
            _mount("-o", "remount,bind,rw", str(self.folder))
        elif kind == "away" and os.path.ismount(self.elsewhere):
            _mount("--move", str(self.elsewhere), str(self.folder))

    def tear_heartbeats(self, incarnation: str) -> None:
        """Cut the heartbeat of an incarnation in the middle, once."""
        for path in self.safe.glob(f"*/heartbeats/{incarnation}.json"):
            try:
                data = path.read_bytes()
                Heartbeat.from_json(data, incarnation)
                os.truncate(path, len(data) // 2)
            except (OSError, Damaged):
                continue  # it is torn, or is just being replaced

    def _hang(self) -> None:
        self._server = mount_dead(self.folder)

    def _fill(self) -> None:
        with (self.safe / FILLER).open("wb", buffering=0) as filler:
            for size in (1 << 20, 4096, 1):
                try:
                    while filler.write(b"\0" * size):
                        pass
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def _forbid(self) -> None:
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return _mount("-o", "remount,bind,ro", str(self.folder))
            except OSError:
                # Somebody is writing a file at this moment.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _move(self) -> None:
        _mount("--move", str(self.folder), str(self.elsewhere))


class Checkpoints:
    """The queries' checkpoints, in folders of this machine; they are moved away, or replaced by older copies.

    :param folders: those of the queries. One that is not there yet stays as it is.
    :param aside: a folder on the same disk, for what is moved away; made when it is needed.
    """

    def __init__(self, folders: Iterable[Path], aside: Path) -> None:
        self._folders = tuple(folders)
        self._aside = aside

    def fail(self, kind: str) -> None:
        """Begin a fault: checkpoint_away or checkpoint_older."""
        self._aside.mkdir(parents=True, exist_ok=True)
        for folder in self._folders:
            if not folder.is_dir():
                continue
            kept, copy = self._aside / folder.name, self._aside / f"{folder.name}.older"
            if kind == "checkpoint_older":
                _copy_of_before(folder, copy)
            folder.rename(kept)
            if kind == "checkpoint_older":
                copy.rename(folder)

    def heal(self) -> None:
        """Put back what was moved away; what a driver has written in its place since is added to it."""
        for folder in self._folders:
            kept, since = self._aside / folder.name, self._aside / f"{folder.name}.since"
            while kept.is_dir():
                if folder.is_dir():
                    since.mkdir(exist_ok=True)
                    folder.rename(since / str(time.time_ns()))
                try:
                    kept.rename(folder)
                except OSError as error:
                    if error.errno != errno.ENOTEMPTY:  # a driver has just made it anew
                        raise
            for path in [each for each in since.glob("*/**/*") if each.is_file()]:
                target = folder.joinpath(*path.relative_to(since).parts[1:])
                if not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    path.rename(target)
            shutil.rmtree(since, ignore_errors=True)


def _copy_of_before(folder: Path, copy: Path) -> None:
    """Copy a checkpoint without its last batches, as a back-up has it, while somebody may write it."""
    shutil.rmtree(copy, ignore_errors=True)
    commits = numeric_names(folder / "commits")
    last = commits[-OLDER_BY - 1] if len(commits) > OLDER_BY else -1

    def left_out(parent: str, names: list[str]) -> set[str]:
        log = Path(parent).name in ("offsets", "commits")
        return {name for name in names if name.startswith(".") or (log and name.isdigit() and int(name) > last)}

    with contextlib.suppress(shutil.Error):  # of files that were removed meanwhile
        shutil.copytree(folder, copy, ignore=left_out)


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"mount {' '.join(arguments)}: {done.stderr.strip()}")
