"""For how long each heartbeat has stood still, by the observer's own monotonic clock (rule 4)."""

from __future__ import annotations

import time
from collections.abc import Callable

from airflow_stream_provider.planning.snapshot import Snapshot


class HeartbeatAges:
    """Remembers when each counter was first seen as it is; no clock is compared between machines.

    An observer that could not look meanwhile has not seen anything stand still: call `forget` then.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}

    def forget(self) -> None:
        """Start all over: the control log could not be read, so nothing is known of the time between."""
        self._seen.clear()

    def seconds(self, snapshot: Snapshot, incarnation: str) -> float:
        """Return for how long this incarnation's counter has been as it is in the snapshot; 0 at the first look."""
        counter, now = snapshot.counter(incarnation), self._clock()
        known = self._seen.get(incarnation)
        if known is None or known[0] != counter:
            self._seen[incarnation] = (counter, now)
            return 0.0
        return now - known[1]
