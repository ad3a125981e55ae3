"""Reads that may hang, for a process that must go on answering: in daemon threads, a few of each place at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from airflow_stream_provider.control.daemon_thread import in_daemon_thread
from airflow_stream_provider.lag.guarded_reads import ReadHangs

T = TypeVar("T")

# Threads of one place: so many may hang, and those of other places answer all the same.
WIDTH = 4
# Threads of all places, however many these are; one that takes longer than SLOW_SECONDS does not count any more.
BRISK, SLOW_SECONDS = 32, 2.0
# A read that had no turn for so long is begun for nobody: whoever asked for it was told so long ago.
TURN_SECONDS = 60.0


class BoundedReads:
    """For one event loop."""

    def __init__(self) -> None:
        self._slots: dict[Hashable, asyncio.Semaphore] = {}
        self._brisk = asyncio.Semaphore(BRISK)
        self._running: dict[Hashable, asyncio.Task[Any]] = {}

    async def read(self, place: Hashable, key: Hashable, call: Callable[[], T], seconds: float) -> T:
        """Return what a call returns; whoever asks for the same meanwhile gets the same answer.

        :param place: what may hang, such as a control root.
        :param key: what is read of it. One that hangs is not read again before it returns.
        :param seconds: after which it is not waited for any more.
        :raises ReadHangs: that took longer.
        """
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(self._run(place, call, seconds))
            task.add_done_callback(lambda done: self._forget(key, done))
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            raise _hangs(seconds)
        found: T = task.result()
        return found

    async def _run(self, place: Hashable, call: Callable[[], T], seconds: float) -> T:
        asked = time.monotonic()
        async with self._slots.setdefault(place, asyncio.Semaphore(WIDTH)):
            async with self._brisk:
                if time.monotonic() - asked > TURN_SECONDS:
                    raise _hangs(seconds)
                began = time.monotonic()
                reading = asyncio.ensure_future(in_daemon_thread("airflow-stream-page", call))
                await asyncio.wait({reading}, timeout=SLOW_SECONDS)
            found = await reading
        # What was read before a mount came back is of long ago.
        if time.monotonic() - began > seconds:
            raise _hangs(seconds)
        return found

    def _forget(self, key: Hashable, done: asyncio.Task[Any]) -> None:
        self._running.pop(key, None)
        if not done.cancelled():
            done.exception()  # nobody may be waiting for it any more


def _hangs(seconds: float) -> ReadHangs:
    return ReadHangs(
        f"It did not answer the API server within {seconds:.0f} s.",
        next_step="Load the page again: of many streams, some may only have had no turn. If that stays so, look at the "
        "mount, or at Kafka, from the API server; `airflow streams` asks from where it is run.",
    )
