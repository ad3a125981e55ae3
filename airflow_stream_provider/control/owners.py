"""Which stream owns a checkpoint: a claim in the control store, where the first one wins.

Two drivers that create one file on an object store may both succeed (S3A of Hadoop 3.4.1: 10 of 10), so the storage of
the checkpoint cannot decide.

In Kafka, a claim is a message in the topic of the control root, with a key of its own, so compaction keeps it. Kafka
orders them: the first claim of a location that was not removed counts, for every reader alike, before and after
compaction.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from airflow_stream_provider.control.disk import link_new, make_folder, read_file, unavailable
from airflow_stream_provider.control.root import check_root
from airflow_stream_provider.control.topic import Message, Topic, read_all
from airflow_stream_provider.lifecycle.errors import (
    CheckpointError,
    ControlLogDamaged,
    ControlUnavailable,
    Damaged,
)

FOLDER, OWNER = ".owners", "owner"
_KEY = re.compile(rf"{OWNER}/([0-9a-f]{{64}})/[0-9a-f]{{32}}")
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


def _claim_of(location: str, stream: str) -> bytes:
    return json.dumps({"stream": stream, "location": location}).encode()


def _owner_by(data: bytes, location: str, claim: str, removal: str) -> str:
    """Return the stream that a claim names.

    :param claim: where it is, for people, like `removal`: how it is removed.
    :raises CheckpointError: it is not one of this location.
    """
    try:
        found = json.loads(data)
        if found["location"] != location:
            raise ValueError(location)
        return str(found["stream"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"The claim {claim} does not name the stream that owns {location}.",
            next_step=f"Find out which stream writes that checkpoint. Once none does, remove {removal}.",
            claim=claim,
        ) from error


def _claimed(owner: str | None, claim: str) -> str:
    """Return the owner that was read behind a claim; `claim`: what was written, for people."""
    if owner is None:
        raise CheckpointError(
            f"The claim {claim} was removed while it was made.",
            next_step="Only people remove claims: try again.",
            claim=claim,
        )
    return owner


def _hash(location: str) -> str:
    return hashlib.sha256(location.encode()).hexdigest()


class FileOwners:
    """The claims in a control folder; implements `Owners`. Each is a file that is created exclusively."""

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
                data = read_file(path, LIMIT)
            except FileNotFoundError:
                return None
            except Damaged:
                data = b""
        return _owner_by(data, location, str(path), "the file")

    def claim(self, location: str, stream: str) -> str:
        """See `Owners.claim`.

        :raises CheckpointError: the claim that is there is damaged.
        """
        path = self._path(location)
        check_root(self._root)
        with unavailable(self._root):
            make_folder(self._folder)
            with contextlib.suppress(FileExistsError):
                link_new(self._folder / f".{uuid.uuid4().hex}", path, _claim_of(location, stream))
        return _claimed(self.owner(location), str(path))

    def kept_in(self, location: str) -> str:
        """See `Owners.kept_in`."""
        return str(self._path(location))

    def _path(self, location: str) -> Path:
        return self._folder / f"{_hash(location)}.json"


class TopicOwners:
    """The claims in a topic; implements `Owners`. Thread-safe.

    :param open: opens the topic, at the first question: a stream whose checkpoints are in a folder asks none.
    """

    def __init__(self, open: Callable[[], Topic]) -> None:
        self._open = open
        self._topic: Topic | None = None
        self._next = 0
        # By location's hash, what each claim says by its key, in the order of the topic.
        self._claims: dict[str, dict[str, bytes]] = {}
        self._lock = threading.Lock()
        # The last question that was asked in vain: when that was known, and why.
        self._in_vain: tuple[float, ControlUnavailable] | None = None

    def owner(self, location: str) -> str | None:
        """See `Owners.owner`.

        :raises CheckpointError: the claim is damaged.
        """
        with self._turn():
            self._read(self._opened())
            return self._owner(location)

    def claim(self, location: str, stream: str) -> str:
        """See `Owners.claim`: it writes, and reads as far as what it has written.

        :raises CheckpointError: the claim that is there is damaged.
        """
        with self._turn():
            topic = self._opened()
            self._read(topic)
            owner = self._owner(location)
            if owner is not None:
                return owner
            key = f"{OWNER}/{_hash(location)}/{uuid.uuid4().hex}"
            offset = topic.write(key.encode(), _claim_of(location, stream), {})
            self._read(topic, offset + 1)
            # A driver's client writes and reads by name: behind both it is sure that the topic is still the same.
            topic.check_same()
            owner = self._owner(location)
        return _claimed(owner, f"{key} in {topic.name}")

    def kept_in(self, location: str) -> str:
        """See `Owners.kept_in`: all that there are, as the next one counts when the first is removed."""
        with self._lock:
            keys = self._claims.get(_hash(location), {})
            where = f" of {self._topic.name}" if self._topic else ""
            return f"the message{'s' if len(keys) > 1 else ''} {' and '.join(keys)}{where} (docs/control.md says how)"

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Ask one question at a time; a caller that has waited for one that was in vain gets its answer.

        A driver with many queries asks for all of them at once, and must soon know that it has asked in vain.
        """
        came = time.monotonic()
        with self._lock:
            if self._in_vain is not None and came < self._in_vain[0]:
                error = self._in_vain[1]
                raise type(error)(error.message, next_step=error.next_step, **error.fields)
            try:
                yield
            except ControlUnavailable as error:
                self._in_vain = (time.monotonic(), error)
                raise

    def _opened(self) -> Topic:
        if self._topic is None:
            self._topic = self._open()
        return self._topic

    def _owner(self, location: str) -> str | None:
        for key, value in self._claims.get(_hash(location), {}).items():
            removal = f"{self._topic.name if self._topic else 'the topic'}'s message of this key (docs/control.md)"
            return _owner_by(value, location, key, removal)
        return None

    def _read(self, topic: Topic, least: int = 0) -> None:
        try:
            self._next = read_all(topic, self._next, self._take, least)
        except ControlLogDamaged:
            if not self._next:
                raise
            # Its end is lost, which this reader has read: it goes on like a reader that opens the topic now.
            self._claims.clear()
            self._next = 0
            self._next = read_all(topic, 0, self._take, least)

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            key = (message.key or b"").decode("ascii", "replace")
            found = _KEY.fullmatch(key)
            if found is None:
                continue
            claims = self._claims.setdefault(found[1], {})
            if message.value is None:
                claims.pop(key, None)
            else:
                # A message that was sent again under a key that is known changes nothing.
                claims.setdefault(key, message.value if len(message.value) <= LIMIT else b"")
