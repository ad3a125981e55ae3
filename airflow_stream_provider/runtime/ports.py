"""The interfaces of the agent to its surroundings, and the values and errors that pass between the two.

In a driver the surroundings are Spark, threads and the wall clock; in the model check they are a simulation. Nothing
here, nor in `agent.py`, needs pyspark or a JVM.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from airflow_stream_provider.checkpoint import Seen
from airflow_stream_provider.lifecycle.due_rewind import DueRewind
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Boundary
from airflow_stream_provider.lifecycle.rewind import WantedRewind


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


class LabelledQuery(Protocol):
    """One query of the script, as far as the agent knows it."""

    label: str


class Queries(Protocol):
    """All queries of the script; `query_group.QueryGroup` in a driver.

    The agent starts and stops them in one background thread at a time; it pauses and resumes them in its own thread.
    """

    @property
    def ready(self) -> bool:
        """Whether the script has built all queries that it is going to build before it waits."""

    @property
    def trouble(self) -> str:
        """One line on a query that has failed and is tried again later; empty when there is none."""

    @property
    def paused(self) -> bool:
        """Whether every query is held still: no new batch, no commit."""

    def describe(self) -> list[dict[str, Any]]:
        """Return what the `standby` record says of each query."""

    def progress(self) -> Sequence[QueryProgress]:
        """Ask how far each query is."""

    def ended(self) -> Mapping[str, QueryEnd]:
        """Return by label where the queries stopped, all of which have ended; without those of unreadable logs."""

    def has_committed(self) -> bool:
        """Whether a query has committed a batch in this driver, in any hold; ask while no other driver may commit."""

    def hold(self) -> Sequence[Any]:
        """Start at once what the script adds from now on, and return the queries to `start`."""

    def follow(self, progress: Sequence[QueryProgress]) -> None:
        """Let the script see how far its queries are in the driver that holds, after this one has."""

    def let_go(self) -> None:
        """Start nothing that the script adds from now on; return once a start that is under way has ended."""

    def start(self, queries: Sequence[Any], seen: Mapping[str, Seen]) -> None:
        """Start these queries side by side on their real checkpoints, and others of the script from now on.

        :param seen: by checkpoint, what anybody of the stream has seen of it; it must be there.
        :raises StreamError: one cannot start, or its checkpoint is another one or an older copy.
        """

    def check_seen(self, seen: Mapping[str, Seen]) -> None:
        """Check that each checkpoint is the one that was seen; note what it shows for `describe`.

        :raises StreamError: one is another one, or an older copy.
        """

    def check_rewind(self, wanted: WantedRewind) -> None:
        """Check that the queries can go back; they may run meanwhile, in another driver.

        :raises StreamError: one of them cannot, or there is none of that name.
        """

    def rewind(self, queries: Sequence[Any], due: DueRewind, seen: Mapping[str, Seen]) -> str:
        """Let queries that are not started yet begin at earlier records; all of them, or none unless a storage fails.

        :param seen: as in `start`.
        :return: which ones go back, and how far, for a person; empty: none has to.
        :raises StreamError: one of them cannot go back.
        """

    def stop(self, seconds: float) -> tuple[Mapping[str, QueryEnd], BoundaryMissed | None]:
        """Stop all queries side by side at their batch boundaries; return where each stopped, by label.

        The second value is the error of one that reached no boundary within so many seconds and is still running, or
        that stopped at an unknown place.
        """

    def interrupt(self) -> Mapping[str, QueryEnd]:
        """Stop whatever is still running, inside a batch if need be; what does not end in a few seconds runs on.

        :return: where that stands by its checkpoints, as far as it is known.
        """

    def restart_in_place(self) -> None:
        """Start again what has stopped when `stop` returned an error, and what the script added since."""

    def pause(self, seconds: float) -> None:
        """Hold every query still until `resume`; raise BoundaryMissed, holding none, when one takes too long."""

    def resume(self) -> None:
        """Let the paused queries go on."""

    def unable(self) -> tuple[LabelledQuery, Exception] | None:
        """Return a query that cannot run in this driver any more, with the reason: its SparkContext was stopped."""

    def tend(self) -> tuple[Sequence[Any], tuple[str, Exception] | None]:
        """Return the failed queries to `restart` now, and why this driver ends as failed, with the error."""

    def restart(self, queries: Sequence[Any]) -> None:
        """Start failed queries again, in the same driver."""


class Process(Protocol):
    """The driver's operating system process; `driver_process.DriverProcess` in a driver."""

    @property
    def facts(self) -> Heartbeat:
        """The process and its Spark application, as in a heartbeat."""

    @property
    def waits_for(self) -> str:
        """Why this driver may not take over now though it is asked to; empty: it may."""

    def postpone(self, sent: float) -> None:
        """Let the lease run from this monotonic time; raise LeaseOver when it has run out already."""

    def exit(self) -> None:
        """End the process with code 0. Does not return."""

    def halt(self) -> None:
        """End the process at once with code 50, without clean-up. Does not return."""


class Rehearse(Protocol):
    """Rehearses all queries on clones of their checkpoints; `rehearsal.Rehearsal` in a driver."""

    def __call__(
        self, former: Sequence[Mapping[str, Any]], *, check: Callable[[], None], say: Callable[[str], None]
    ) -> Mapping[str, Any]:
        """Return the summary that the `standby` record and the heartbeat carry.

        :param former: the queries of the release that runs or ran last, from its `standby` record.
        :param check: raises StreamError if a checkpoint is not the one that the stream has run on. It is called before
            anything is made of the checkpoints: of another one, all that differs is a consequence.
        :param say: takes one line for the heartbeat.
        :raises StreamError: this release cannot take over.
        """


# Compares all queries with those of the release that runs now, as `Rehearse` did with those that ran then, and raises
# RehearsalRefused.
Compare = Callable[[Sequence[Mapping[str, Any]]], None]


class Work(Protocol):
    """Work in the background; a `threading.Thread` in a driver."""

    def is_alive(self) -> bool:
        """Whether the work is still under way."""


# Begins the work in the background, and lets the agent take its next turn as soon as the work is over.
Spawn = Callable[[Callable[[], None]], Work]


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


@dataclass(frozen=True)
class Ports:
    """The surroundings of one agent.

    :param spawn: begins background work.
    :param stale: returns why what was rehearsed may be true no more, as a clause; empty when nothing has changed. May
        take as long as the storage; raises StreamError when this release cannot take over any more.
    :param to_come: takes the queries of the release that runs, and returns which of them the script, which is ready,
        may still start, for the heartbeat: those that were started late there. Empty: it is not waited for any.
    """

    queries: Queries
    process: Process
    rehearse: Rehearse
    spawn: Spawn
    compare: Compare
    clock: Clock = field(default_factory=MachineClock)
    stale: Callable[[], str] = str
    to_come: Callable[[Sequence[Mapping[str, Any]]], str] = lambda former: ""
