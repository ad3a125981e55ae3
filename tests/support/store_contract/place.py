"""What the suite has to be told of a store: how it is opened, and how to do to it what may befall it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.store import Store


class Way(Protocol):
    """A store as one process has opened it, and what may come between it and what is stored."""

    @property
    def store(self) -> Store:
        """The store."""

    def answer_lost(self, then_away: bool) -> AbstractContextManager[None]:
        """Let the next write arrive, and its writer not hear of it.

        :param then_away: nothing else is answered either, until the end.
        """

    def held(self) -> AbstractContextManager[Callable[[], None]]:
        """Let the next write be on its way until the end; the value waits until there is one."""

    def stale(self) -> AbstractContextManager[None]:
        """Let what is read be what there was at the beginning."""

    def hanging(self) -> AbstractContextManager[None]:
        """Let nothing be answered, and nothing fail."""

    def slow(self) -> AbstractContextManager[None]:
        """Let every write take a while."""


class Place(Protocol):
    """One log of a new stream in a store of one kind."""

    @property
    def cannot(self) -> Mapping[str, str]:
        """Why this store cannot suffer something, by the name of the method of `Way` or `Place`."""

    def open(self) -> Way:
        """Open it as one more process does."""

    def copies(self, seq: int) -> int:
        """Return how often a record of this number is stored, those included that do not count."""

    def race(self, writers: int, wins: int) -> list[dict[str, Any]]:
        """Let so many processes append so many records each; return what each says, as `tests.support.race` does."""

    def gap(self, seq: int, data: bytes) -> None:
        """Store a record where the one before it is missing."""

    def lose_beginning(self) -> None:
        """Lose the first record."""

    def lose_end(self) -> None:
        """Lose the last record, and what was written after it."""

    def copy(self) -> Any:
        """Return a back-up of all there is."""

    def put_back(self, copied: Any) -> None:
        """Put a back-up in the place of what there is."""

    def make_anew(self) -> None:
        """Remove the log, and make it as for a new stream."""

    def away(self) -> AbstractContextManager[None]:
        """Let it be out of reach of all."""

    def full(self) -> AbstractContextManager[None]:
        """Let there be no room for a record of a thousand bytes."""

    def close(self) -> None:
        """Close whatever was opened."""


def log_of(way: Way) -> ControlLog:
    """Return the stream's log as one process reads and writes it."""
    return ControlLog(way.store, "orders")


def fates(writers: Iterable[Mapping[str, Any]]) -> list[tuple[int, str]]:
    """Return who says to have won which number, by number."""
    return sorted((int(seq), str(each["name"])) for each in writers for seq in each["won"])
