"""For how long each heartbeat has stood still, by the observer's own monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Callable

from airflow_stream_provider.planning.snapshot import Snapshot


class HeartbeatAges:
    """Remembers when each heartbeat counter was first seen; never compares the clocks of two machines.

    An age ends when the heartbeats began to be read, and begins after they were read for the first time: an observer
    that is held up between reading and judging makes it shorter, never longer. An observer that could not look in
    between has not seen any heartbeat stand still: it starts with a new instance then.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}

    def seconds(self, snapshot: Snapshot, incarnation: str) -> float:
        """Return for how many seconds the counter of an incarnation has not changed; 0 at the first look."""
        counter = snapshot.counter(incarnation)
        known = self._seen.get(incarnation)
        if known is None or known[0] != counter:
            self._seen[incarnation] = (counter, self._clock())
            return 0.0
        read = self._clock() if snapshot.read_at is None else snapshot.read_at
        return max(0.0, read - known[1])


def silence_limit(lease_seconds: float) -> float:
    """Return for how many seconds a heartbeat may stand still before its driver counts as lost.

    Two leases: by then a driver that cannot renew its lease has halted itself.
    """
    return 2 * lease_seconds
