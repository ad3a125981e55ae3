"""Where a checkpoint is, and whether a stream may live there."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

from airflow_stream_provider.lifecycle.errors import CheckpointError

# What Spark calls a checkpoint that the query names no place for.
TEMPORARY = re.compile(r"temporary-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def local_path(location: str | os.PathLike[str]) -> Path:
    """Return the folder a checkpoint location names: an absolute path or a `file:` URL.

    Spark writes the location as it was given, or as `file:/path`; both and `file:///path` are the same folder.

    :raises CheckpointError: the location is empty, relative, or on another file system than the local one.
    """
    text = os.fspath(location)
    if not text.strip():
        raise CheckpointError(
            "The checkpoint location is empty.",
            next_step="Set the option checkpointLocation of the query to a folder that outlives the driver.",
        )
    parts = urlsplit(text)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        path = Path(unquote(parts.path))
    elif parts.scheme and "/" not in parts.scheme and text.startswith(f"{parts.scheme}:"):
        # The seam for other stores: this module is the only one that turns a location into files.
        raise CheckpointError(
            f"The checkpoint {text} is on {parts.scheme}:, only local and mounted folders can be read.",
            next_step="Use an absolute path or a file: URL on storage that all drivers mount.",
            location=text,
        )
    else:
        path = Path(text)
    if not path.is_absolute():
        raise CheckpointError(
            f"The checkpoint location {text} is relative: every driver would start in another folder.",
            next_step="Use an absolute path or a file: URL.",
            location=text,
        )
    return path


def check_location(location: str | os.PathLike[str]) -> Path:
    """Refuse a location where no stream can be handed over; leaves nothing behind.

    :raises CheckpointError: empty, relative, on an unknown file system, temporary (Spark makes
        `temporary-<uuid>` when no checkpointLocation is set and deletes it with the query), or not writable.
    """
    path = local_path(location)
    if any(TEMPORARY.fullmatch(part) for part in path.parts):
        raise CheckpointError(
            f"The checkpoint {path} is temporary: Spark deletes it when the query ends.",
            next_step="Set the option checkpointLocation of the query to a folder that outlives the driver.",
            location=str(path),
        )
    existing = path
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise CheckpointError(
            f"The checkpoint {path} cannot be a folder: {existing} is a file.",
            next_step="Choose another checkpointLocation.",
            location=str(path),
        )
    try:
        # Only a real write tells: access rights say nothing about a read-only mount or a full disk.
        with tempfile.TemporaryFile(dir=existing) as probe:
            probe.write(b"0")
            probe.flush()
    except OSError as error:
        raise CheckpointError(
            f"The checkpoint {path} cannot be written: {error.strerror or error} (tried in {existing}).",
            next_step="Give the driver's user write access, or choose another checkpointLocation.",
            location=str(path),
        ) from error
    return path
