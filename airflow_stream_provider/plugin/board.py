"""One reader of the streams for all open pages; it reads on only while a page is open."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, TypeVar, cast

from airflow_stream_provider.control.bounded import ManyPlaces, NoAnswer
from airflow_stream_provider.hooks.control import control_root
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.plugin import shapes
from airflow_stream_provider.plugin.looks import OpenStream, Visible
from airflow_stream_provider.spec.fields import TopicAddress
from airflow_stream_provider.spec.stream import StreamSpec

T = TypeVar("T")

log = logging.getLogger(__name__)

# Seconds between two readings of all streams that are looked at; of many, reading takes at most so much of the time.
EVERY_SECONDS, BUSY = 2.0, 0.25
# A stream is read on for so long after somebody asked for it last.
LOOKED_SECONDS = 20.0
# Seconds that the first one to look waits for the streams, and after which a read of some of them is given up.
FIRST_SECONDS, READ_SECONDS = 5.0, 15.0
# Streams of one control root that one call reads: a thread for each would cost more than the reads.
AT_ONCE = 50
# Connections to a Kafka with control logs are read again after so long: this process lives for long.
REOPEN_SECONDS = 30.0


@dataclass
class _Line:
    """A stream that somebody looks at, with its line in the list as it was read last."""

    stream: OpenStream
    said: dict[str, Any]
    version: int = 0
    asked: float = 0.0
    reading: bool = False
    # Other answers about it, each with the time until which it is for others, too, or is not asked for again.
    answers: dict[Hashable, tuple[float, Any]] = field(default_factory=dict)
    latest: dict[str, tuple[float, Any]] = field(default_factory=dict)


class Board:
    """The lines of all streams that somebody looks at, and shared answers about single ones.

    It lives in one event loop. Everything that may hang runs in threads (`control/bounded.py`).
    """

    def __init__(self) -> None:
        self.reads = ManyPlaces(_hangs)
        self.version = 0
        # An API server may have several processes, each with a board of its own.
        self._id = secrets.token_hex(4)
        self._lines: dict[str, _Line] = {}
        self._task: asyncio.Task[None] | None = None
        self._reopened: dict[str, float] = {}
        self._renewing: set[asyncio.Task[None]] = set()

    async def rows(self, visible: Sequence[Visible], since: str) -> dict[str, Any]:
        """Return the lines of these streams that changed after a version; the first time, wait some seconds for them.

        :param since: the version of an earlier answer. That of another process, and anything else, is none.
        """
        board, _, number = since.partition(".")
        after = int(number) if board == self._id and number.isdecimal() else 0
        lines = {each.form: self._line(each) for each in visible if each.stream.spec is not None}
        new = [line for line in lines.values() if not line.version]
        until = time.monotonic() + FIRST_SECONDS
        while any(not line.version for line in new) and time.monotonic() < until:
            await asyncio.sleep(0.05)
        said = [
            {"id": each.form, **self._said(each)}
            for each in visible
            if each.form not in lines or not lines[each.form].version or lines[each.form].version > after
        ]
        version = f"{self._id}.{self.version}"
        return {"version": version, "at": time.time(), "all": [each.form for each in visible], "streams": said}

    def _line(self, shown: Visible) -> _Line:
        spec = shown.stream.spec
        assert spec is not None
        line = self._lines.get(shown.form)
        if line is None or line.stream.spec != spec:
            line = self._lines[shown.form] = _Line(OpenStream(spec), shapes.unread(spec.name))
        line.asked = time.monotonic()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._go_on())
        return line

    def _said(self, shown: Visible) -> dict[str, Any]:
        if shown.stream.spec is None:
            return shapes.unread(shown.stream.name, shown.stream.problem)
        found = self._lines[shown.form].said
        both = f"{shown.stream.problem} {found['problem']}".strip()
        return {**found, "problem": both}

    async def _go_on(self) -> None:
        """Read the lines again and again, until no page has asked for them for a while."""
        while True:
            began = time.monotonic()
            self._lines = {id: each for id, each in self._lines.items() if each.asked > began - LOOKED_SECONDS}
            if not self._lines:
                return
            await self.reopen([each.stream.spec for each in self._lines.values()], REOPEN_SECONDS)
            due = sorted(
                (each for each in self._lines.values() if not each.reading), key=lambda each: each.stream.spec.control
            )
            parts = [
                chunk
                for _, some in groupby(due, key=lambda each: each.stream.spec.control)
                for chunk in _chunks(list(some), AT_ONCE)
            ]
            # A read that hangs keeps its own streams from being read, and no others.
            tasks = [asyncio.create_task(self._read(part)) for part in parts]
            if tasks:
                await asyncio.wait(tasks, timeout=EVERY_SECONDS)
            spent = time.monotonic() - began
            await asyncio.sleep(max(EVERY_SECONDS - spent, spent * (1 - BUSY) / BUSY if spent < EVERY_SECONDS else 0.5))

    async def _read(self, lines: list[_Line]) -> None:
        for line in lines:
            line.reading = True
        first = lines[0].stream.spec
        key = first.control, "lines", first.name
        try:
            found = await self.reads.call(first.control, key, partial(_read_all, lines), READ_SECONDS)
        except NoAnswer as error:
            found = [(line, str(error)) for line in lines]
        finally:
            for line in lines:
                line.reading = False
        # Not all of them need be among these lines: an earlier read that hung may have had others beside the first.
        for line, said in found:
            if isinstance(said, str):
                # The last picture stays, and says what it is.
                said = {**line.said, "tone": "unknown", "problem": said}
            changed = {**line.said, "read_at": None} != {**said, "read_at": None}
            line.said = said
            if changed or not line.version:
                self.version += 1
                line.version = self.version

    async def reopen(self, specs: Iterable[StreamSpec], kept: float = 0.0) -> None:
        """Have the connections of control logs in Kafka read again, as they may have changed.

        :param kept: but not those that were read so many seconds ago.
        """
        now = time.monotonic()
        urls = {spec.control for spec in specs if TopicAddress.parse(spec.control) is not None}
        due = [url for url in urls if now - self._reopened.get(url, -math.inf) >= kept]
        calls = (self.reads.call(url, url, partial(control_root, url, fresh=True), FIRST_SECONDS) for url in due)
        # The read of a stream says what is wrong.
        await asyncio.gather(*calls, return_exceptions=True)
        self._reopened.update(dict.fromkeys(due, now))

    def latest(
        self, shown: Visible, what: str, read: Callable[[OpenStream], T], seconds: float, same: float
    ) -> T | None:
        """Return what was read of a stream last; None: nothing yet. It is read again in the background.

        :param same: seconds after which it is read again; see `known` for the others.
        """
        line, now = self._line(shown), time.monotonic()
        until, kept = line.latest.get(what, (0.0, None))
        if now >= until:
            line.latest[what] = (now + same, kept)

            async def renew() -> None:
                found = await self.known(shown, what, read, seconds)
                if not isinstance(found, str):
                    line.latest[what] = (time.monotonic() + same, found)

            task = asyncio.create_task(renew())
            self._renewing.add(task)
            task.add_done_callback(self._renewing.discard)
        return cast("T | None", kept)

    async def known(
        self, shown: Visible, what: Hashable, read: Callable[[OpenStream], T], seconds: float, same: float = 0.0
    ) -> T | str:
        """Return what is read of a stream, or a sentence on why it is not known.

        :param what: is read; those who ask for the same meanwhile get the same answer.
        :param same: also those who ask within so many seconds after it.
        """
        spec = shown.stream.spec
        if spec is None:
            return "It cannot be looked at: it is not known where its control log is."
        line = self._line(shown)
        # Reads that wait for Kafka or a checkpoint do not keep others from reading control logs.
        place, key = (spec.control, str(what).partition(":")[0]), (shown.form, spec.control, what)
        until, kept = line.answers.get(what, (0.0, None))
        if same and time.monotonic() < until:
            return cast(T, kept)
        try:
            found = await self.reads.call(place, key, partial(read, line.stream), seconds)
        except Exception as error:  # noqa: BLE001 - a control folder may break this in ways not thought of
            return _why(error, f"the {what} of {shown.form}")
        if same:
            now = time.monotonic()
            line.answers = {k: each for k, each in line.answers.items() if each[0] > now}
            line.answers[what] = (now + same, found)
        return found


def _read_all(lines: Iterable[_Line]) -> list[tuple[_Line, dict[str, Any] | str]]:
    found: list[tuple[_Line, dict[str, Any] | str]] = []
    for line in lines:
        try:
            found.append((line, line.stream.row()))
        except Exception as error:  # noqa: BLE001 - as in `Board.known`; it hides no other stream
            found.append((line, _why(error, line.stream.spec.name)))
    return found


def _why(error: Exception, what: str) -> str:
    """Return why something cannot be read. An unexpected error's text may hold secrets: it is for the log alone."""
    if isinstance(error, StreamError):
        return str(error)
    log.error("The page cannot read %s.", what, exc_info=error)
    return f"It cannot be read ({type(error).__name__}); the API server's log says more."


def _chunks(found: list[_Line], size: int) -> list[list[_Line]]:
    return [found[at : at + size] for at in range(0, len(found), size)]


def _hangs(seconds: float) -> NoAnswer:
    return NoAnswer(
        f"It did not answer the API server within {seconds:.0f} s.",
        next_step="Load the page again: of many streams, some may only have had no turn. If that stays so, look at the "
        "mount, or at Kafka, from the API server; `airflow streams` asks from where it is run.",
    )
