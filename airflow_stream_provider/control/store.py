"""The interfaces of a storage for control logs: one stream's, what the watch keeps of it, and all streams'
under one control URL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class Store(Protocol):
    """A stream's records and heartbeats.

    Records are numbered, created once and never changed. Each incarnation has one heartbeat, and the stream has one
    object of topics' ids and one saved state; all are replaced as a whole.

    Every method raises ControlUnavailable if it cannot read or write now, and every method that reads raises Damaged,
    before it loads anything, if what is there is too large or no regular file. None always means that the store is
    readable and the object does not exist.
    """

    def create(self, seq: int, data: bytes) -> None:
        """Create record `seq` exclusively and durably.

        :raises SeqTaken: the number exists.
        """

    def read(self, seq: int) -> bytes | None:
        """Return record `seq`, or None if it does not exist.

        Something that is no regular file, or larger than MAX_BYTES, is b"": a record that cannot be read.
        """

    def next_number(self, seq: int) -> int | None:
        """Return the lowest number above `seq` that a record has, or None if there is none.

        It lists all names: one call for each opening of a log.
        """

    def origin(self) -> str:
        """Return the nonce of the first record, which tells this log from any other one under its control URL.

        Empty: there is no record, or the first one cannot be read.
        """

    def put_heartbeat(self, incarnation: str, data: bytes) -> None:
        """Replace an incarnation's heartbeat atomically: no reader sees a part of it."""

    def heartbeat(self, incarnation: str) -> bytes | None:
        """Return an incarnation's heartbeat, or None if it never wrote one."""

    def heartbeats(self) -> list[str]:
        """Return the incarnations that have a heartbeat."""

    def put_saved_state(self, data: bytes) -> None:
        """Replace the saved state (see `lifecycle.saved_state`) atomically."""

    def saved_state(self) -> bytes | None:
        """Return the saved state, or None if there is none yet."""

    def put_topic_ids(self, data: bytes) -> None:
        """Replace the ids of the topics that are read (see `lag.targets`) atomically."""

    def topic_ids(self) -> bytes | None:
        """Return the ids of the topics that are read, or None if none were noted yet."""


class Samples(Protocol):
    """The samples that the watch keeps of one stream: one JSON object a look. Errors as those of `Store`."""

    def add(self, line: bytes) -> None:
        """Add a sample: one JSON object, without line feeds."""

    def newest(self) -> Iterator[bytes]:
        """Yield the samples, the newest first; what is not taken is not read. One may be torn."""

    def shorten(self) -> None:
        """Leave the newest only; one that is added meanwhile may be lost."""


class ControlRoot(Protocol):
    """The control logs under one control URL.

    Every method raises ControlUnavailable if the root is not there, or cannot be used now: one that is out of reach
    never looks like one without streams.
    """

    url: str

    def make(self) -> bool:
        """Make it a control root, once and by a person; return False when it was one.

        :raises SpecError: nothing can be made of this URL that would be safe.
        """

    def check(self) -> None:
        """Check that it is a control root, and can be read."""

    def where(self, stream: str) -> str:
        """Return where the log of a stream is or would be, for people: ``the folder /data/streams/orders``."""

    def stream_folder(self, stream: str) -> Path | None:
        """Return the stream's folder, in which releases and local drivers can be kept; None: there is none."""

    def driver_arguments(self) -> tuple[str, ...]:
        """Return what the launcher must be told to reach it, beside the control URL; never a secret."""

    def exists(self, stream: str) -> bool:
        """Whether the stream was ever deployed."""

    def store(self, stream: str, *, create: bool = False) -> Store:
        """Return the store of a stream, checked.

        :param create: make what a new stream needs. Default False: then the stream must exist.
        """

    def log_id(self, stream: str) -> str:
        """Return the id of the control log of a stream that exists, 32 hex digits: no other log has it.

        It is there before the first record, unlike `Store.origin`.
        """

    def samples(self, stream: str) -> Samples:
        """Return what the watch keeps of a stream that exists."""

    def noted(self, *names: str) -> dict[str, bytes]:
        """Return the notes: by the name of a stream, how it is watched; by a dot and the id of a watch, its memory.

        A note that cannot be read is empty. One outlives the log of its stream, which tells that this has gone.

        :param names: these notes alone, as far as they are there; default: all.
        """

    def note(self, name: str, data: bytes) -> None:
        """Replace a note atomically; see `noted`."""

    def forget(self, name: str) -> None:
        """Remove a note; there may be none."""

    def close(self) -> None:
        """Close what is open; the next use of the root opens it again."""
