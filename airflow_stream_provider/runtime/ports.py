"""The values and errors that pass between the agent and its surroundings, and the clock of both.

Nothing here, nor in `agent.py`, needs pyspark or a JVM: the model check runs the agent without them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.record import Boundary


class BoundaryMissed(StreamError):
    """The query reached no batch boundary within the deadline, or its engine has none; the query is still running.

    Or it has stopped, and its storage did not say where.
    """


class LeaseOver(StreamError):
    """The lease had run out before it was renewed; the JVM halts within 0.2 s."""


@dataclass(frozen=True)
class QueryEnd:
    """Where a query stopped, according to the logs in its checkpoint.

    :param completed: every planned batch is committed. False means an interrupted batch: its sink may have taken
        part of it, and the next start runs it again.
    :param batch: the last committed batch id; None when there is none.
    :param running_tasks: tasks of an interrupted batch that were still running when the wait for them ended; their
        writes may still arrive. A query's own thread that still runs counts as one.
    :param checkpoint: its location, as the script gave it.
    :param id: Spark's id of the query; empty: not known.
    """

    completed: bool
    batch: int | None
    running_tasks: int = 0
    checkpoint: str = ""
    id: str = ""

    @property
    def quiet(self) -> bool:
        """Whether nothing of this query can still write: another driver may go on where it stopped."""
        return self.completed or not self.running_tasks

    @property
    def boundary(self) -> Boundary:
        """The boundary as the control log names it."""
        return Boundary.COMPLETED if self.completed else Boundary.INTERRUPTED


class Clock(Protocol):
    """The clock of a machine, or a simulated one. All values are seconds."""

    def monotonic(self) -> float:
        """Return a time that never goes back; only differences mean something."""

    def time(self) -> float:
        """Return the wall clock, in seconds since 1970."""

    def sleep(self, seconds: float, /) -> None:
        """Block the calling thread."""


class MachineClock:
    """The clock of this machine, which goes on while the machine is suspended; implements `Clock`.

    Linux stops its monotonic clock, which is also Java's, meanwhile; elsewhere there is no other. A virtual machine
    that its host pauses may see no time pass on either: see `lease_watchdog`.
    """

    def monotonic(self) -> float:
        """Return the time since the machine was booted, suspended or not."""
        return time.clock_gettime(_BOOT_CLOCK)

    def time(self) -> float:
        """Return the wall clock."""
        return time.time()

    def sleep(self, seconds: float, /) -> None:
        """Block the calling thread."""
        time.sleep(seconds)


_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
