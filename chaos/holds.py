"""Who held the stream, and when: by the control log, and by what the drivers themselves said."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.record import Boundary, Kind, Record
from airflow_stream_provider.lifecycle.state import StreamState
from chaos.batches import Batch

# The kernel dates files by a clock that ticks every 10 ms at the slowest.
TICK_SECONDS = 0.02


@dataclass(frozen=True)
class Hold:
    """One hold. Times are those of the records' files, in seconds since 1970.

    :param until: when it ended; infinite while it goes on.
    :param end: the record that ended it; None while it goes on.
    """

    incarnation: str
    since: float
    until: float = math.inf
    end: Record | None = None

    @property
    def cut_off(self) -> bool:
        """Whether its driver did not stop at a batch boundary, because it was killed, halted, or failed.

        An interrupted boundary counts on SIGTERM only: who is asked for a hand-over may not let go inside a batch.
        """
        if self.end is None or self.end.kind not in (Kind.FENCED, Kind.FAILED, Kind.RELEASED):
            return False
        return self.end.kind != Kind.RELEASED or (self.open_ended and self.end.get("request") is None)

    def ran(self, batch: Batch) -> bool:
        """Whether the hold and the time in which a batch was open have a moment in common."""
        return batch.planned <= self.until and (batch.committed is None or self.since <= batch.committed)

    @property
    def open_ended(self) -> bool:
        """Whether its driver said that something of it may still write."""
        return self.end is not None and self.end.get("boundary") == Boundary.INTERRUPTED.value


def holds(records: Iterable[tuple[Record, float]]) -> list[Hold]:
    """Return all holds by the rules of the log, oldest first.

    :param records: all records from the first on, each with the time of its file.
    """
    found: list[Hold] = []
    state = StreamState()
    for record, at in records:
        before, state = state.holder, fold([record], state)
        if before != state.holder:
            if before is not None:
                found[-1] = Hold(before, found[-1].since, at, record)
            if state.holder is not None:
                found.append(Hold(state.holder, at))
    return found


def at_once(spans: Mapping[str, Sequence[tuple[float, float]]]) -> tuple[int, tuple[str, ...]]:
    """Return the largest number of drivers that ran the queries at one moment, and which they were.

    :param spans: when each driver said that it did, as first and last time, in seconds since 1970. Who said so once may
        have been frozen while it wrote that, and does not count.
    """
    most: tuple[str, ...] = ()
    for since in (a for of in spans.values() for a, _ in of):
        then = tuple(name for name, of in spans.items() if any(a <= since < b for a, b in of))
        most = max(most, then, key=len)
    return len(most), most


def committed_by_nobody(batches: Iterable[Batch], found: Sequence[Hold]) -> list[Batch]:
    """Return the batches that were committed while no driver held the stream.

    After a hold that ended inside a batch its driver may write until it is fenced: until the next hold.
    """
    after = [*(hold.since for hold in found[1:]), math.inf]
    allowed = [
        (hold.since - TICK_SECONDS, next_since if hold.open_ended else hold.until + TICK_SECONDS)
        for hold, next_since in zip(found, after, strict=True)
    ]
    return [
        batch
        for batch in batches
        if batch.committed is not None and not any(a <= batch.committed <= b for a, b in allowed)
    ]
