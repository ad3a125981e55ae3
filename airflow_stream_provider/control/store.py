"""The interface of a storage for control logs."""

from __future__ import annotations

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

    folder: Path
    """The stream's folder; its releases are in ``releases/``, and the watch keeps its samples there."""

    def create(self, seq: int, data: bytes) -> None:
        """Create record `seq` exclusively and durably.

        :raises SeqTaken: the number exists.
        """

    def read(self, seq: int) -> bytes | None:
        """Return record `seq`, or None if it does not exist.

        Something that is no regular file, or larger than MAX_BYTES, is b"": a record that nobody can read.
        """

    def next_number(self, seq: int) -> int | None:
        """Return the lowest number above `seq` that a record has, or None if there is none.

        It lists all names: one call for each opening of a log.
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
        """Replace the ids of the topics that are read (see `lag.topic_ids`) atomically."""

    def topic_ids(self) -> bytes | None:
        """Return the ids of the topics that are read, or None if none were noted yet."""
