"""Store a control log in a folder, on a local disk or on a network file system with atomic hard links (NFS v3 up)."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

from airflow_stream_provider.control.disk import (
    idle,
    link_new,
    make_folder,
    now,
    open_folder,
    read_file,
    remove,
    replace_file,
    sync_folder,
    unavailable,
)
from airflow_stream_provider.control.root import check_root
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, Damaged, SeqTaken
from airflow_stream_provider.lifecycle.heartbeat import HEARTBEAT_LIMIT
from airflow_stream_provider.lifecycle.ids import INCARNATION, check_id
from airflow_stream_provider.lifecycle.record import MAX_BYTES, Kind, Record

TOPIC_IDS = "topics.json"
SAVED_STATE = "state.jsonl"

# Bytes; far beyond what is ever written, and little enough to be loaded. A larger file is damaged.
STATE_LIMIT = 16 * 2**20

LOG_ID = "id"

_RECORD = re.compile(r"[0-9]{20}\.json")
_ID = re.compile(rb"[0-9a-f]{32}")


class FilesStore:
    """A store in a folder; implements `Store`.

    Records are ``log/<20 digits>.json``, heartbeats ``heartbeats/<incarnation>.json``, the ids of topics
    ``topics.json``, the saved state ``state.jsonl``, the id of the log ``id``.

    A record is written to a file in ``incoming/``, synced, and hard-linked to its number. The link fails if the number
    is taken, and no reader can see an empty or torn record. Hadoop's local file system does not guarantee this and is
    never used here.

    Mount NFS with ``lookupcache=positive``. By default an NFS client may cache for half a minute that a number does
    not exist. That is safe, because the server makes the link, but it delays every hand-over by that time.

    :param folder: the stream's folder; its parent is the control root (see `control.root`).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / "log"
        self._incoming = folder / "incoming"
        self._heartbeats = folder / "heartbeats"

    def initialise(self) -> None:
        """Create the folders of a new stream, and test once that exclusive creation works on this file system.

        :raises ControlUnavailable: there is no control root, the folder cannot be written, or exclusive creation does
            not work.
        """
        check_root(self.folder.parent)
        with unavailable(self.folder):
            for folder in (self.folder, self._heartbeats, self._incoming, self.folder / "releases"):
                make_folder(folder)
            if not self._log.is_dir():
                self._race()
                make_folder(self._log)
            sync_folder(self.folder)

    def check(self) -> None:
        """Check that the stream's folder exists in a control root, and that none of its folders is a link.

        :raises ControlUnavailable: it does not, one is, or it cannot be read.
        """
        check_root(self.folder.parent)
        with unavailable(self.folder):
            found = self._log.is_dir()
            folders = (self.folder, self._log, self._incoming, self._heartbeats, self.folder / "releases")
            link = next((folder for folder in folders if folder.is_symlink()), None)
        if link:
            raise ControlUnavailable(
                f"{link} is a symbolic link, and a folder of this stream belongs there.",
                next_step="Nothing of this package makes such a link: find out who did, and put the folder back.",
                folder=str(link),
            )
        if not found:
            raise ControlUnavailable(
                f"There is no control log in {self.folder}.",
                next_step="Deploy the stream first, or correct `control` or `name` in the YAML.",
                folder=str(self.folder),
            )

    def create(self, seq: int, data: bytes) -> None:
        """Create record `seq`; see `Store.create`."""
        with unavailable(self.folder):
            self._create(self._path(seq), data)
            self._sweep(seq)

    def read(self, seq: int) -> bytes | None:
        """Return record `seq`, or None if it does not exist but the log's folder does; see `Store.read`."""
        try:
            return self._read(self._path(seq), MAX_BYTES)
        except Damaged:
            return b""  # unreadable to everybody

    def next_number(self, seq: int) -> int | None:
        """Return the lowest number above `seq` that a record has, or None; see `Store.next_number`.

        An NFS client that has cached that a number does not exist forgets it by this.
        """
        with unavailable(self.folder):
            # By name, as the digits of all are so many: the log may have hundreds of thousands.
            last = self._path(seq).name
            later = [name for name in os.listdir(self._log) if name > last and _RECORD.fullmatch(name)]
            return int(min(later).partition(".")[0]) if later else None

    def origin(self) -> str:
        """Return the nonce of the first record; see `Store.origin`."""
        first = Record.read(self.read(1) or b"", 1)
        return "" if first.kind == Kind.UNREADABLE else first.nonce

    def log_id(self) -> str:
        """Return the id of this log, 32 hex digits; made when it is asked for first, and never changed.

        :raises Damaged: what is kept is no id.
        """
        path = self.folder / LOG_ID
        if self._read(path) is None:
            with unavailable(self.folder), contextlib.suppress(SeqTaken):  # another process was faster
                self._create(path, uuid.uuid4().hex.encode())
        found = self._read(path) or b""
        if not _ID.fullmatch(found):
            raise Damaged(
                f"{path} does not hold 32 hex digits, the id of the control log.",
                next_step="Restore it from its back-up. If there is none, remove it: the next release is published in "
                "a new folder of the storage then, and those of before stay where they are (docs/storage.md).",
                path=str(path),
            )
        return found.decode()

    def put_heartbeat(self, incarnation: str, data: bytes) -> None:
        """Replace an incarnation's heartbeat; see `Store.put_heartbeat`."""
        self._replace(self._heartbeat_path(incarnation), data)

    def heartbeat(self, incarnation: str) -> bytes | None:
        """Return an incarnation's heartbeat, or None if it never wrote one."""
        return self._read(self._heartbeat_path(incarnation), HEARTBEAT_LIMIT)

    def heartbeats(self) -> list[str]:
        """Return the incarnations that have a heartbeat, sorted."""
        with unavailable(self.folder):
            names = (name.removesuffix(".json") for name in os.listdir(self._heartbeats))
            return sorted(name for name in names if INCARNATION.fullmatch(name))

    def idle_heartbeats(self, seconds: float) -> list[str]:
        """Return the incarnations whose heartbeat was last written so long ago, by the clock of the folder.

        Files that killed writers have left in ``incoming/`` go, once they are so old.
        """
        with self._opened() as (heartbeats, incoming):
            time = now(incoming)
            for name in idle(incoming, time, seconds):
                remove(name, incoming)
            names = (name.removesuffix(".json") for name in idle(heartbeats, time, seconds))
            return [name for name in names if INCARNATION.fullmatch(name)]

    def remove_heartbeat(self, incarnation: str) -> None:
        """Remove an incarnation's heartbeat; there may be none. One that cannot be removed is logged."""
        with self._opened() as (heartbeats, _):
            remove(self._heartbeat_path(incarnation).name, heartbeats)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[int, int]]:
        """Open the folders of heartbeats and of what is being written.

        They are never followed when they are links: a writer of the control root could have anything removed that
        Airflow's user may remove.
        """
        with contextlib.ExitStack() as opened:
            opened.enter_context(unavailable(self.folder))
            folder = opened.enter_context(open_folder(self.folder))
            heartbeats = opened.enter_context(open_folder("heartbeats", folder))
            yield heartbeats, opened.enter_context(open_folder("incoming", folder))

    def put_topic_ids(self, data: bytes) -> None:
        """Replace the ids of the topics that are read; see `Store.put_topic_ids`."""
        self._replace(self.folder / TOPIC_IDS, data)

    def topic_ids(self) -> bytes | None:
        """Return the ids of the topics that are read, or None if none were noted yet."""
        return self._read(self.folder / TOPIC_IDS, MAX_BYTES)

    def put_saved_state(self, data: bytes) -> None:
        """Replace the saved state; see `Store.put_saved_state`."""
        self._replace(self.folder / SAVED_STATE, data)

    def saved_state(self) -> bytes | None:
        """Return the saved state, or None if there is none yet."""
        return self._read(self.folder / SAVED_STATE)

    def _read(self, path: Path, limit: int = STATE_LIMIT) -> bytes | None:
        with unavailable(self.folder):
            try:
                return read_file(path, limit)
            except FileNotFoundError:
                # A folder that is not mounted must not look like a log that ends here. One that was put back from an
                # older copy does: ControlLog finds that the record before is missing or another one.
                os.stat(path.parent if path.parent != self.folder else self._log)
                return None

    def _path(self, seq: int) -> Path:
        return self._log / f"{seq:020d}.json"

    def _heartbeat_path(self, incarnation: str) -> Path:
        return self._heartbeats / f"{check_id(incarnation, INCARNATION)}.json"

    def _replace(self, path: Path, data: bytes) -> None:
        # No number at its beginning: `_sweep` removes those that have one.
        temporary = self._incoming / f"new.{path.name}.{uuid.uuid4().hex}"
        with unavailable(self.folder):
            replace_file(temporary, path, data)

    def _create(self, path: Path, data: bytes) -> None:
        try:
            link_new(self._incoming / f"{path.name}.{uuid.uuid4().hex}", path, data)
        except FileExistsError as error:
            raise SeqTaken(
                f"{path.name} exists already.", next_step="Read the log again and decide again.", path=str(path)
            ) from error

    def _sweep(self, seq: int) -> None:
        """Remove files of killed writers from ``incoming/``, up to a number that is taken.

        If the writer of such a file is alive and only slow, its link fails; it reads the record and finds the number
        taken.
        """
        here = self._incoming.name
        with contextlib.suppress(OSError), open_folder(self.folder) as folder, open_folder(here, folder) as incoming:
            for name in os.listdir(incoming):
                number = name.partition(".")[0]
                if number.isdecimal() and int(number) <= seq:
                    os.unlink(name, dir_fd=incoming)

    def _race(self) -> None:
        target = self._incoming / f".race-{uuid.uuid4().hex}"
        won: list[int] = []
        errors: list[OSError] = []
        start = threading.Barrier(2)

        def contend(number: int) -> None:
            start.wait()
            try:
                self._create(target, str(number).encode())
                won.append(number)
            except SeqTaken:
                pass
            except OSError as error:
                errors.append(error)

        contenders = [threading.Thread(target=contend, args=(number,)) for number in range(2)]
        for contender in contenders:
            contender.start()
        for contender in contenders:
            contender.join()
        target.unlink(missing_ok=True)
        if len(won) != 1 or errors:
            raise ControlUnavailable(
                f"Of two exclusive creates of one file in {self.folder}, {len(won)} succeeded instead of one"
                f"{''.join(f' ({error.strerror})' for error in errors[:1])}.",
                next_step="Use a writable control folder with free space, on a file system with hard links "
                "(local disk, NFS).",
                winners=len(won),
            )
