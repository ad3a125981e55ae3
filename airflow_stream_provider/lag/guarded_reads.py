"""Read many places side by side with one deadline, so that a place that hangs (a dead mount) delays nothing else."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

from airflow_stream_provider.lifecycle.errors import StreamError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

# Reads that run side by side; one that takes longer than SLOW_SECONDS does not count any more.
WIDTH = 8
SLOW_SECONDS = 2.0
# Threads that may hang at the same time; a place that hangs is not read again before its read returns.
MOST_HANGING = 200


class ReadHangs(StreamError):
    """A place did not answer in time: most likely its mount hangs."""


class GuardedReads(Generic[K, T]):
    """Runs reads in daemon threads, which never keep the process from ending.

    :param width: how many run side by side.
    :param most_hanging: how many may hang before no other is begun.
    """

    def __init__(self, width: int = WIDTH, most_hanging: int = MOST_HANGING) -> None:
        self._width = width
        self._most_hanging = most_hanging
        self._changed = threading.Condition()
        self._running: dict[K, float] = {}

    def run(self, reads: Mapping[K, Callable[[], T]], seconds: float, each: float = math.inf) -> dict[K, T | Exception]:
        """Return what each read returned or raised.

        :param seconds: after which a read that has not returned is a `ReadHangs`.
        :param each: after which one that runs is not waited for any more; default: `seconds` counts alone.
        """
        found: dict[K, T | Exception] = {}
        until = time.monotonic() + seconds
        with self._changed:
            waiting = deque(key for key in reads if key not in self._running)
            mine = len(waiting)
            while len(found) < mine and (now := time.monotonic()) < until:
                brisk = sum(now - began < SLOW_SECONDS for began in self._running.values())
                while waiting and brisk < self._width and len(self._running) < self._most_hanging:
                    brisk += 1
                    self._start(waiting.popleft(), reads, found)
                if all(now - began > each for began in self._running.values()):
                    break  # nothing that runs is waited for, and nothing more is begun
                self._changed.wait(min(until - now, each, SLOW_SECONDS) / 4)
            lasted = min(seconds, each)
            hangs = ReadHangs(
                f"It could not be read within {lasted:.0f} s: its folder does not answer.",
                next_step="Look at the mount of the control folder and of the checkpoint on this machine.",
            )
            return {key: found.get(key, hangs) for key in reads}

    def _start(self, key: K, reads: Mapping[K, Callable[[], T]], found: dict[K, T | Exception]) -> None:
        self._running[key] = time.monotonic()

        def read() -> None:
            try:
                answer: T | Exception = reads[key]()
            except Exception as error:  # noqa: BLE001 - it is the answer for this place alone
                answer = error
            with self._changed:
                found[key] = answer
                del self._running[key]
                self._changed.notify_all()

        threading.Thread(target=read, name=f"read {key}"[:60], daemon=True).start()
