"""Turn checkpoint locations into folders, and refuse locations that a stream cannot use."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from airflow_stream_provider.lifecycle.errors import CheckpointError

# The name of the checkpoint that Spark creates for a query without checkpointLocation.
TEMPORARY = re.compile(r"temporary-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_FILE = re.compile(r"file:(?://(?:localhost)?(?=/)|(?!//))(?P<path>.*)", re.IGNORECASE | re.DOTALL)


def local_path(location: str | os.PathLike[str]) -> Path:
    """Return the folder of a checkpoint location.

    Spark reports the location as it was given or as ``file:/path``. Both, and ``file:///path``, are the same folder. As
    in Hadoop's Path, nothing in it is escaped: ``%20``, ``#`` and ``?`` are parts of a name.

    :param location: an absolute path or a ``file:`` URL.
    :raises CheckpointError: the location is empty, relative, or not on a local or mounted file system.
    """
    text = os.fspath(location)
    if not text.strip():
        raise CheckpointError(
            "The checkpoint location is empty.",
            next_step="Set the option checkpointLocation of the query to a folder that outlives the driver.",
        )
    parts = urlsplit(text)
    local = _FILE.fullmatch(text)
    if local:
        path = Path(re.sub("^/+", "/", local["path"]))
    elif parts.scheme and "/" not in parts.scheme and text.startswith(f"{parts.scheme}:"):
        # Other storages would be added here: only this module turns a location into files.
        raise CheckpointError(
            f"The checkpoint {text} is on {parts.scheme}:, but only local and mounted folders are supported.",
            next_step="Use an absolute path or a file: URL on storage that all drivers mount.",
            location=text,
        )
    else:
        path = Path(text)
    if not path.is_absolute():
        raise CheckpointError(
            f"The checkpoint location {text} is relative, so each driver would use another folder.",
            next_step="Use an absolute path or a file: URL.",
            location=text,
        )
    return path


def normal_form(location: str) -> str:
    """Return the one spelling by which locations are compared: `local_path`; what is no local folder, as it is given.

    A release may write a checkpoint in another way than the one before it.
    """
    try:
        return str(local_path(location))
    except CheckpointError:
        return location.rstrip("/")


def check_file_system(location: str | os.PathLike[str], default: str) -> None:
    """Check that Spark looks for a location where this package does.

    :param default: Hadoop's `fs.defaultFS`, the file system of a location without a scheme.
    :raises CheckpointError: it does not.
    """
    if urlsplit(default).scheme not in ("", "file") and not urlsplit(os.fspath(location)).scheme:
        raise CheckpointError(
            f"The checkpoint {location} is on {default}, because that is Spark's fs.defaultFS, but only local and "
            "mounted folders are supported.",
            next_step="Use a file: URL on storage that all drivers mount.",
            location=os.fspath(location),
        )


def check_location(location: str | os.PathLike[str]) -> Path:
    """Check that a stream at this location can be handed over. Nothing is left there.

    :raises CheckpointError: the location is not valid (see `local_path`), not writable, or temporary: without
        checkpointLocation Spark creates ``temporary-<uuid>`` and deletes it with the query.
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
        # Writes a file, because access rights do not show a read-only mount or a full disk.
        with tempfile.TemporaryFile(dir=existing) as probe:
            probe.write(b"0")
            probe.flush()
    except OSError as error:
        raise CheckpointError(
            f"The checkpoint {path} is not writable: {error.strerror or error} (tried in {existing}).",
            next_step="Give the driver's user write access, or choose another checkpointLocation.",
            location=str(path),
        ) from error
    return path
