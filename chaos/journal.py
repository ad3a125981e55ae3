"""The journal of a run: what was done to the stream and when, one JSON object a line, flushed at once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Journal:
    """Appends to the journal; several threads may.

    :param path: the file; a new one replaces that of an earlier run.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = path.open("w")
        self._lock = threading.Lock()

    def note(self, what: str, **fields: Any) -> dict[str, Any]:
        """Append an entry with the present time, in seconds since 1970, and return it."""
        entry = {"at": time.time(), "what": what, **fields}
        with self._lock:
            self._file.write(json.dumps(entry, sort_keys=True) + "\n")
            self._file.flush()
        return entry

    def problem(self, says: str) -> None:
        """Append a problem: a sentence. It makes the run fail."""
        self.note("problem", says=says)

    def entries(self) -> list[dict[str, Any]]:
        """Return all entries so far, oldest first."""
        return read_journal(self.path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a journal, oldest first; a line that a killed run has left half-written is left out."""
    entries: list[dict[str, Any]] = []
    for line in path.read_text().splitlines():
        try:
            entry: Mapping[str, Any] = json.loads(line)
        except ValueError:
            continue
        entries.append(dict(entry))
    return entries
