"""A control log in a folder: a local disk, or a network file system with atomic hard links (NFS v3 and newer)."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SeqTaken, SpecError
from airflow_stream_provider.lifecycle.ids import INCARNATION, check_id, check_stream_name

SAMPLES = "lag.json"


class FilesStore:
    """Records as ``log/<20 digits>.json``, heartbeats as ``heartbeats/<incarnation>.json``, samples as ``lag.json``.

    A record is written to a file in ``incoming/``, synced, and linked to its number: the link fails when the number is
    taken, and no reader can see an empty or torn record. Hadoop's local file system gives no such promise and is never
    used here. Mount NFS with ``lookupcache=positive``: by default its client may believe for half a minute that a
    number is free, which is safe (the link is the server's to make) but makes every hand-over that slow.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / "log"
        self._incoming = folder / "incoming"
        self._heartbeats = folder / "heartbeats"

    @classmethod
    def at(cls, url: str, stream: str) -> FilesStore:
        """Return the store of a stream under a ``file:`` URL; raise SpecError when the URL is of another kind."""
        return cls(local_folder(url) / check_stream_name(stream))

    def initialise(self) -> None:
        """Make the folders of a new stream; prove once that exclusive creation works here."""
        with _unavailable(self.folder):
            for folder in (self._heartbeats, self._incoming, self.folder / "releases"):
                folder.mkdir(parents=True, exist_ok=True)
            if not self._log.is_dir():
                self._race()
                self._log.mkdir(exist_ok=True)
            _sync_folder(self.folder)

    def check(self) -> None:
        """Raise ControlUnavailable when the stream's folder is not there."""
        with _unavailable(self.folder):
            found = self._log.is_dir()
        if not found:
            raise ControlUnavailable(
                f"There is no control log in {self.folder}.",
                next_step="Mount the control folder on this machine, or check `control` and `name` in the "
                "stream's YAML.",
                folder=str(self.folder),
            )

    def create(self, seq: int, data: bytes) -> None:
        """Create record `seq`; see `Store.create`."""
        with _unavailable(self.folder):
            self._create(self._path(seq), data)
            self._sweep(seq)

    def read(self, seq: int) -> bytes | None:
        """Return record `seq`, or None when there is none but the one before it is there; see `Store.read`."""
        with _unavailable(self.folder):
            try:
                return self._path(seq).read_bytes()
            except FileNotFoundError:
                # A number is free only beside the record that it would follow: a folder that is not mounted, or was
                # put back from an older copy under a running driver, says nothing about what is free.
                os.stat(self._path(seq - 1) if seq > 1 else self._log)
                return None

    def put_heartbeat(self, incarnation: str, data: bytes) -> None:
        """Replace the incarnation's heartbeat."""
        path = self._heartbeat_path(incarnation)
        # One writer per incarnation, so one name is enough, and a killed writer leaves one file at most.
        temporary = path.with_name(f".{path.name}.new")
        with _unavailable(self.folder):
            # Not synced: a heartbeat that a power cut takes is one that did not beat.
            temporary.write_bytes(data)
            temporary.replace(path)

    def heartbeat(self, incarnation: str) -> bytes | None:
        """Return the incarnation's heartbeat, or None when it never wrote one."""
        with _unavailable(self.folder):
            try:
                return self._heartbeat_path(incarnation).read_bytes()
            except FileNotFoundError:
                os.stat(self._heartbeats)
                return None

    def heartbeats(self) -> list[str]:
        """Return the incarnations that wrote a heartbeat."""
        with _unavailable(self.folder):
            names = (name.removesuffix(".json") for name in os.listdir(self._heartbeats))
            return sorted(name for name in names if INCARNATION.fullmatch(name))

    def put_samples(self, data: bytes) -> None:
        """Replace the samples."""
        temporary = self._incoming / f"{SAMPLES}.{uuid.uuid4().hex}"
        with _unavailable(self.folder):
            try:
                # Not synced, as heartbeats are not.
                temporary.write_bytes(data)
                temporary.replace(self.folder / SAMPLES)
            finally:
                temporary.unlink(missing_ok=True)

    def samples(self) -> bytes | None:
        """Return the samples, or None when there are none yet."""
        with _unavailable(self.folder):
            try:
                return (self.folder / SAMPLES).read_bytes()
            except FileNotFoundError:
                os.stat(self._log)
                return None

    def _path(self, seq: int) -> Path:
        return self._log / f"{seq:020d}.json"

    def _heartbeat_path(self, incarnation: str) -> Path:
        return self._heartbeats / f"{check_id(incarnation, INCARNATION)}.json"

    def _create(self, path: Path, data: bytes) -> None:
        temporary = self._incoming / f"{path.name}.{uuid.uuid4().hex}"
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, path)
            _sync_folder(path.parent)
        except FileExistsError as error:
            raise SeqTaken(f"{path.name} is taken.", next_step="Read the log again.", path=str(path)) from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()

    def _sweep(self, seq: int) -> None:
        """Remove what killed writers left in ``incoming/``: a file whose number is taken can never be linked to it.

        Its writer may be alive and merely slow; it then fails to link, reads its number back and finds it taken.
        """
        with contextlib.suppress(OSError):
            for name in os.listdir(self._incoming):
                number = name.partition(".")[0]
                if number.isdecimal() and int(number) <= seq:
                    (self._incoming / name).unlink()

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
                f"Of two exclusive creates in {self.folder}, {len(won)} won instead of one"
                f"{''.join(f' ({error.strerror})' for error in errors[:1])}.",
                next_step="Use a writable control folder, not full, on a file system with hard links "
                "(local disk, NFS).",
                winners=len(won),
            )


def local_folder(url: str) -> Path:
    """Return the absolute folder of a ``file:`` URL; raise SpecError for anything else."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not os.path.isabs(path):
        raise SpecError(
            f"The control URL {parts.scheme or url!r} is not file:///an/absolute/folder.",
            next_step="Use a folder that Airflow and the Spark drivers both mount.",
        )
    return Path(path)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _unavailable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ControlUnavailable(
            f"The control folder {folder} cannot be used now: {error.strerror or error}.",
            next_step="Check that it is mounted, writable and not full; nothing is lost, the drivers wait for it.",
            folder=str(folder),
            errno=error.errno,
        ) from error
