"""The two numbered logs of a checkpoint: what Spark planned (`offsets/`) and what it finished (`commits/`)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_stream_provider.checkpoint.location import local_path
from airflow_stream_provider.lifecycle.errors import CheckpointError


@dataclass(frozen=True)
class LogEnds:
    """Where both logs end: the batch planned last and the batch committed last, None for an empty log."""

    offsets: int | None
    commit: int | None

    @property
    def completed(self) -> bool:
        """Whether the checkpoint is at a batch boundary: every planned batch is committed."""
        return self.offsets == self.commit


@dataclass(frozen=True)
class OffsetEntry:
    """One file of `offsets/`: up to where each source is to be read in that batch.

    :param version: format of the file, 1 or 2.
    :param conf: the Spark conf that Spark forces on whoever restarts from here.
    :param sources: by source name, the source's own JSON for the end of the batch, None where it has no offset.
        Format 1 has no names but the order in the plan: "0", "1" and so on, as the folders in `sources/`.
    """

    version: int
    conf: Mapping[str, str]
    sources: Mapping[str, str | None]


def numeric_names(folder: str | os.PathLike[str]) -> list[int]:
    """Return the batch ids in a log folder, sorted; [] when the folder does not exist.

    Only integer names count: Spark keeps hidden `.N.crc` and `.N.<uuid>.tmp` files beside them.

    :raises CheckpointError: the folder is there and cannot be listed.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(folder, error) from error
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def boundary(location: str | os.PathLike[str]) -> LogEnds:
    """Judge quickly, from the names of the log files alone, whether a checkpoint is at a batch boundary.

    On a running query the answer is a true snapshot of one moment between two commits.

    :raises CheckpointError: the location is not a local folder, or cannot be read.
    """
    root = local_path(location)
    commits = numeric_names(root / "commits")
    while True:
        offsets = numeric_names(root / "offsets")
        again = numeric_names(root / "commits")
        if again[-1:] == commits[-1:]:
            return LogEnds(offsets[-1] if offsets else None, commits[-1] if commits else None)
        commits = again


def read_offsets(path: Path) -> OffsetEntry:
    """Read one file of `offsets/`.

    :raises CheckpointError: it is damaged, or of a format newer than 2.
    :raises FileNotFoundError: it is gone; Spark keeps the last 100 or so.
    """
    version, lines = _read(path, newest=2)
    metadata = _json_object(path, lines[0]) if lines and lines[0].strip() else {}
    conf = metadata.get("conf") or {}
    if not isinstance(conf, dict):
        raise damaged(path, f"its conf is {type(conf).__name__}, not an object")
    if version == 1:
        named = [(str(index), line) for index, line in enumerate(lines[1:])]
    else:
        named = [(name, value) for name, colon, value in (line.partition(":") for line in lines[1:]) if colon]
        if len(named) != len(lines[1:]):
            raise damaged(path, "a source's line has no name")
    return OffsetEntry(version, conf, {name: None if value == "-" else value for name, value in named})


def read_commit_version(path: Path) -> int:
    """Return the format of a file of `commits/`: 1, 2 (state has unique ids) or 3 (named sinks, Spark 4.2 and later).

    :raises CheckpointError: it is damaged, or of a newer format.
    :raises FileNotFoundError: it is gone.
    """
    return _read(path, newest=3)[0]


def kafka_offsets(text: str | None) -> dict[str, dict[int, int]] | None:
    """Return {topic: {partition: next offset to read}} if a source's JSON is Kafka's; None for any other source."""
    try:
        value = json.loads(text or "null")
    except ValueError:
        return None
    if not isinstance(value, dict) or not all(isinstance(partitions, dict) for partitions in value.values()):
        return None
    try:
        return {
            topic: {int(number): _whole(offset) for number, offset in partitions.items()}
            for topic, partitions in value.items()
        }
    except ValueError:
        return None


def damaged(path: Path, found: str) -> CheckpointError:
    """Return the error for a file of a checkpoint that cannot be what Spark wrote."""
    return CheckpointError(
        f"The checkpoint file {path} is damaged: {found}.",
        next_step="Stop the stream and restore the checkpoint from a back-up. If this is the newest file "
        "of offsets/ and "
        "commits/ has none of its number, removing it and its hidden .crc file is enough: Spark plans the batch anew.",
        path=str(path),
    )


def unreadable(path: str | os.PathLike[str], error: OSError) -> CheckpointError:
    """Return the error for a part of a checkpoint that the system does not let us read."""
    return CheckpointError(
        f"{path} cannot be read: {error.strerror or error}.",
        next_step="Check that the checkpoint's storage is mounted here, and this user's access to it.",
        path=str(path),
    )


def text(path: Path) -> str:
    """Return a file's text.

    :raises CheckpointError: it is none. :raises OSError: it cannot be read, or has been purged (FileNotFoundError).
    """
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise damaged(path, "it is not text") from error


def _read(path: Path, newest: int) -> tuple[int, list[str]]:
    lines = text(path).split("\n")
    first, rest = lines[0].strip(), lines[1:]
    while rest and not rest[-1]:
        rest.pop()
    if not (first[:1] == "v" and first[1:].isascii() and first[1:].isdigit()):
        raise damaged(path, f"it starts with {first[:20]!r}, not with a version" if first else "it is empty")
    version = int(first[1:])
    if not 1 <= version <= newest:
        raise CheckpointError(
            f"The checkpoint file {path} has format {first}, newer than v{newest}, the newest known.",
            next_step="Update airflow-stream-provider.",
            path=str(path),
        )
    return version, rest


def _json_object(path: Path, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise damaged(path, f"{text[:40]!r} is not JSON") from error
    if not isinstance(value, dict):
        raise damaged(path, f"{text[:40]!r} is not a JSON object")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(value)
    return value
