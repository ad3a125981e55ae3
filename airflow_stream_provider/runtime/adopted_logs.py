"""Watches the logs of the checkpoints that a job without a stream writes, from the rehearsal until this driver claims
them: it may take over once they stand still.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.lifecycle.errors import CheckpointError

POLL_SECONDS = 0.5
# Logs that have stood still for so long are listed anew: an NFS client may know an older listing.
ANEW_SECONDS = 2.0
# The finding of a look counts for so long: a storage may hang.
FRESH_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Seen:
    """The knowledge of one checkpoint.

    :param moved: monotonic time of the look that found it moved; its first one counts as such.
    :param looked: monotonic time before the last look that found it unmoved.
    :param patience: seconds for which it must stand still.
    """

    ends: checkpoints.LogEnds
    moved: float
    looked: float
    patience: float

    @property
    def still(self) -> float:
        return max(0.0, self.looked - self.moved)


class AdoptedLogs:
    """The logs of the checkpoints that are to be adopted. `look` is a job of the side thread: a storage may hang.

    :param clock: a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        # Held while the watched logs change: a look that is under way must not bring back what was let go.
        self._changing = threading.Lock()

    def watch(self, location: str) -> None:
        """Look at a checkpoint from now on.

        :raises CheckpointError: it has no batch, or cannot be read.
        """
        ends = checkpoints.boundary(location)
        if ends.offsets is None:
            raise CheckpointError(
                f"There is no batch in the checkpoint {location}: the job that is to be adopted does not use it, or "
                "has read nothing yet: this release would read its input from the start.",
                next_step="Give the release the script and the arguments that the job runs with. Nothing was touched.",
                location=location,
            )
        now = self._clock()
        self._seen[location] = _Seen(ends, now, now, checkpoints.patience(location))

    def let_go(self, location: str) -> None:
        """Look at it no more: this driver writes it now."""
        with self._changing:
            self._seen.pop(location, None)

    def refuse_if_moved(self, location: str, seconds: float) -> bool:
        """Return whether a checkpoint is watched; one that is must not have been written lately.

        :param seconds: how long at most it is looked at, where it was written since this driver has answered.
        :raises CheckpointError: a job writes it.
        """
        seen = self._seen.get(location)
        if seen is None:
            return False
        left = min(seconds, max(0.0, seen.patience - seen.still))
        checkpoints.refuse_if_being_written(location, left, since=seen.ends)
        return True

    @property
    def moving(self) -> str:
        """Which checkpoint does not stand still yet, or cannot be seen to; empty: all of them do."""
        now = self._clock()
        for location, seen in list(self._seen.items()):
            if now - seen.looked > FRESH_SECONDS:
                return f"The logs of {location} could not be looked at for {now - seen.looked:.0f} s."
            if seen.still < seen.patience:
                return f"The logs of {location} were written {seen.still:.0f} s ago; {seen.patience:.0f} s are waited."
        return ""

    @property
    def says(self) -> str:
        """How far the job is, for a person; empty once this driver has claimed all of them."""
        return " ".join(
            f"The job to adopt has committed batch {seen.ends.commit} of {location}"
            + ("" if seen.ends.completed else f", batch {seen.ends.offsets} is under way")
            + f"; its logs stand still for {seen.still:.0f} s."
            for location, seen in list(self._seen.items())
        )

    def look(self) -> None:
        """Look at each of them once; what cannot be read now is not seen to stand still."""
        for location, seen in list(self._seen.items()):
            began = self._clock()
            try:
                if seen.still >= ANEW_SECONDS:
                    checkpoints.list_anew(location)
                ends = checkpoints.boundary(location)
                moved = ends != seen.ends
                after = (
                    _Seen(ends, self._clock(), self._clock(), checkpoints.patience(location))
                    if moved
                    else replace(seen, looked=began)
                )
            except CheckpointError as error:
                log.warning("Whether the job to adopt still writes is not known: %s", error)
                continue
            with self._changing:
                if location in self._seen:
                    self._seen[location] = after
