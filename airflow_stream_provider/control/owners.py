"""Which stream owns a checkpoint: a claim in the control store, where the first one wins.

Two drivers that create one file on an object store may both succeed (S3A of Hadoop 3.4.1: 10 of 10), so the storage of
the checkpoint cannot decide.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from pathlib import Path
from typing import Protocol

from airflow_stream_provider.control.disk import make_folder, read_file, sync_folder, unavailable, write_new
from airflow_stream_provider.control.root import check_root
from airflow_stream_provider.lifecycle.errors import CheckpointError, Damaged

FOLDER = ".owners"
# Bytes. A claim has a location and a name.
LIMIT = 2**16


class Owners(Protocol):
    """The claims of a control store: they are made once, and never change.

    A location is its normal form (`checkpoint.normal_form`), so that all its spellings are one. Every method raises
    ControlUnavailable if the store cannot be read or written now.
    """

    def owner(self, location: str) -> str | None:
        """Return the name of the stream that has claimed a location; None if none has."""

    def claim(self, location: str, stream: str) -> str:
        """Claim a location for a stream, durably; return the stream that owns it from now on: of several the first."""

    def kept_in(self, location: str) -> str:
        """Return the place of a location's claim, for people who want to remove it."""


def claimed(owner: str | None, claim: str) -> str:
    """Return the owner that was read behind a claim.

    :param claim: what was written, for people.
    :raises CheckpointError: there is none.
    """
    if owner is None:
        raise CheckpointError(
            f"The claim {claim} was removed while it was made.",
            next_step="Only people remove claims: try again.",
            claim=claim,
        )
    return owner


class FileOwners:
    """The claims in a control folder; implements `Owners`. Each is a file that is created exclusively.

    `topic_owners` has those in Kafka.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = root / FOLDER

    def owner(self, location: str) -> str | None:
        """See `Owners.owner`.

        :raises CheckpointError: the claim is damaged.
        """
        path = self._path(location)
        check_root(self._root)
        with unavailable(self._root):
            try:
                claim = json.loads(read_file(path, LIMIT))
                if claim["location"] != location:
                    raise ValueError(location)
                return str(claim["stream"])
            except FileNotFoundError:
                return None
            except (Damaged, ValueError, KeyError, TypeError) as error:
                raise CheckpointError(
                    f"The claim {path} does not name the stream that owns {location}.",
                    next_step="Find out which stream writes that checkpoint. Remove the file once none does.",
                    path=str(path),
                ) from error

    def claim(self, location: str, stream: str) -> str:
        """See `Owners.claim`.

        :raises CheckpointError: the claim that is there is damaged.
        """
        path = self._path(location)
        check_root(self._root)
        with unavailable(self._root):
            make_folder(self._folder)
            temporary = self._folder / f".{uuid.uuid4().hex}"
            try:
                text = json.dumps({"stream": stream, "location": location}) + "\n"
                write_new(temporary, text.encode(), sync=True)
                with contextlib.suppress(FileExistsError):
                    os.link(temporary, path)
                    sync_folder(self._folder)
            finally:
                with contextlib.suppress(OSError):
                    temporary.unlink()
        return claimed(self.owner(location), str(path))

    def kept_in(self, location: str) -> str:
        """See `Owners.kept_in`."""
        return str(self._path(location))

    def _path(self, location: str) -> Path:
        return self._folder / f"{hashlib.sha256(location.encode()).hexdigest()}.json"
