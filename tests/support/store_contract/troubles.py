"""What may come between a process and what is stored, as events that its writes and reads wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

SLOW_SECONDS = 0.05


class Troubles:
    """Part of a `Way`: whoever passes writes and reads on asks it what befalls them. At first nothing does."""

    WAIT_SECONDS: ClassVar[float] = 60.0

    def __init__(self) -> None:
        self._goes_on, self._arrived, self._answers = threading.Event(), threading.Event(), threading.Event()
        self._goes_on.set()
        self._answers.set()
        self._loses = self._away = self._away_then = False
        self._seconds = 0.0

    def _arrive(self) -> None:
        """Let a write arrive: it waits here as long as writes are held."""
        self._arrived.set()
        self._goes_on.wait()

    def _answer_is_lost(self) -> bool:
        """Whether the answer of this write is the one to be lost; afterwards it is away, if it was to be."""
        lost = self._loses
        if lost:
            self._loses, self._away = False, self._away_then
        return lost

    @contextmanager
    def answer_lost(self, then_away: bool) -> Iterator[None]:
        self._loses, self._away_then = True, then_away
        yield
        self._loses = self._away = False

    @contextmanager
    def held(self) -> Iterator[Callable[[], None]]:
        self._arrived.clear()
        self._goes_on.clear()
        try:
            yield self._wait
        finally:
            self._goes_on.set()

    def _wait(self) -> None:
        assert self._arrived.wait(self.WAIT_SECONDS)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        self._answers.clear()
        try:
            yield
        finally:
            self._answers.set()

    @contextmanager
    def slow(self) -> Iterator[None]:
        self._seconds = SLOW_SECONDS
        yield
        self._seconds = 0.0
