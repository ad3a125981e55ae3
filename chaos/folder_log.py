"""Record what a control log in a folder says, before it is replaced: each record once, and each heartbeat in time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from chaos.records import some
from chaos.sightings import Sighting


class FolderLog:
    """Implements `RecordedLog`. Times are those of files, by the clock of the kernel.

    :param folder: the stream's folder under the control root.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: list[tuple[Record, float]] = []
        self.sightings: dict[str, Sighting] = {}
        self._data: list[bytes] = []

    @property
    def looks(self) -> Sequence[Callable[[], None]]:
        """See `RecordedLog.looks`."""
        return self._look_at_log, self._look_at_heartbeats

    def gaps(self) -> list[str]:
        """See `RecordedLog.gaps`."""
        found, read = [], len(self._data)
        there = {int(path.stem): path for path in (self.folder / "log").glob("*.json") if path.stem.isdecimal()}
        self._look_at_log()  # the stream still runs: what is unread now was there before this look
        last = max((*there, read))
        if missing := [seq for seq in range(1, last + 1) if seq not in there]:
            found.append(f"The control log has no record {some(missing)}, and goes to {last}. Find out who removed it.")
        if unread := [seq for seq in there if seq > len(self._data)]:
            found.append(
                f"Nobody has read the records {some(unread)} of the control log, so nothing is judged by them."
            )
        changed = [seq for seq, data in enumerate(self._data, 1) if seq in there and there[seq].read_bytes() != data]
        if changed:
            found.append(f"The records {some(changed)} of the control log were changed. Find out who wrote them.")
        return found

    def _look_at_log(self) -> None:
        while True:
            seq = len(self.records) + 1
            try:
                data, at = _read(self.folder / "log" / f"{seq:020d}.json")
            except FileNotFoundError:
                return
            self.records.append((Record.read(data, seq), at))
            self._data.append(data)

    def _look_at_heartbeats(self) -> None:
        for path in (self.folder / "heartbeats").glob("*.json"):
            # Torn, or replaced since it was listed: the next one can be read.
            with contextlib.suppress(FileNotFoundError, StreamError):
                data, at = _read(path)
                beat = Heartbeat.from_json(data, path.stem)
                self.sightings.setdefault(path.stem, Sighting()).saw(beat, at)


def _read(path: Path) -> tuple[bytes, float]:
    """Return the contents of a file and when they were written."""
    with path.open("rb") as file:
        return file.read(), os.fstat(file.fileno()).st_mtime
