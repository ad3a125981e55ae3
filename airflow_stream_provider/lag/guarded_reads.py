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
# A wait that lasts so much longer than asked says that this process was kept from running: nobody else is to blame.
STALLED_SECONDS = 0.5

NEXT = "Nothing has to be done if the next look reaches it. Otherwise the machine is too busy, or its disks too slow."


class ReadHangs(StreamError):
    """A place did not answer in time: most likely its mount hangs."""


class NotReached(StreamError):
    """There was no time left to ask a place: nothing is known of it."""


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

        The time for which this process itself does not run, on a machine that is busy or was suspended, does not count.

        :param seconds: after which none is begun any more: those that were not are `NotReached`.
        :param each: after which one that runs is not waited for any more, but is a `ReadHangs`; default: until
            `seconds` are over.
        """
        found: dict[K, T | Exception] = {}
        until = time.monotonic() + seconds
        more = each if math.isfinite(each) else 0.0
        with self._changed:
            waiting = deque(key for key in reads if key not in self._running)
            mine = len(waiting)
            while len(found) < mine and (now := time.monotonic()) < until + more:
                brisk = sum(now - began < SLOW_SECONDS for began in self._running.values())
                while now < until and waiting and brisk < self._width and len(self._running) < self._most_hanging:
                    brisk += 1
                    self._start(waiting.popleft(), reads, found)
                if all(now - began > each for began in self._running.values()):
                    break  # nothing that runs is waited for, and nothing more is begun
                until += self._wait(now, min(until + more - now, each, SLOW_SECONDS) / 4)
            lasted = min(seconds, each)
            hangs = ReadHangs(
                f"It could not be read within {lasted:.0f} s: its folder does not answer.",
                next_step="Look at the mount of the control folder and of the checkpoint on this machine.",
            )
            unknown = dict.fromkeys(waiting, NotReached("There was no time left to read it.", next_step=NEXT))
            return {key: found.get(key, unknown.get(key, hangs)) for key in reads}

    def _wait(self, now: float, seconds: float) -> float:
        """Wait until something has changed; return the seconds for which this process did not run since `now`."""
        self._changed.wait(seconds)
        late = time.monotonic() - now - seconds
        if late < STALLED_SECONDS:
            return 0.0
        for key in self._running:
            self._running[key] += late
        return late

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
