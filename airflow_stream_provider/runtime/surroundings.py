"""The surroundings of an agent, where its queries stopped, and how long ago it has rehearsed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.lifecycle.record import Boundary
from airflow_stream_provider.runtime.background import Spawn
from airflow_stream_provider.runtime.ports import BoundaryMissed, Clock, MachineClock, QueryEnd

if TYPE_CHECKING:
    from airflow_stream_provider.runtime.driver_process import DriverProcess
    from airflow_stream_provider.runtime.query_group import QueryGroup

log = logging.getLogger(__name__)

# Compares all queries with those of the release that runs now, and raises RehearsalRefused.
Compare = Callable[[Sequence[Mapping[str, Any]]], None]


@dataclass(frozen=True)
class Ports:
    """The surroundings of one agent: in a driver Spark, threads and this machine, in the model check a simulation.

    :param rehearse: see `Rehearsal.run`, as `Rehearsal.compare`, `stale` and `to_come` for those of these names.
    :param spawn: begins background work.
    """

    queries: QueryGroup
    process: DriverProcess
    rehearse: Callable[..., Mapping[str, Any]]
    spawn: Spawn
    compare: Compare
    clock: Clock = field(default_factory=MachineClock)
    stale: Callable[[], str] = str
    to_come: Callable[[Sequence[Mapping[str, Any]]], str] = lambda former: ""


def described(ends: Mapping[str, QueryEnd]) -> dict[str, Any]:
    """Return where the queries stopped, as the control log says it."""
    return {
        name: {
            "batch": end.batch,
            "boundary": end.boundary.value,
            "checkpoint": end.checkpoint,
            **({"id": end.id} if end.id else {}),
        }
        for name, end in ends.items()
    }


def cut_off(queries: QueryGroup, seconds: float) -> tuple[Boundary, Mapping[str, QueryEnd]]:
    """Stop everything. INTERRUPTED: something may still write; this driver is fenced before another acquires.

    :param seconds: how long the queries may take to reach their boundaries.
    """
    # A query that the script started meanwhile would run on behind a record that says that all have stopped.
    queries.let_go()
    try:
        return all_ended(queries, *queries.stop(seconds))
    except Exception:  # such as with a SparkContext that was stopped; `failed` must be written all the same
        log.exception("The queries could not be stopped")
        return Boundary.INTERRUPTED, queries.ended()


def all_ended(
    queries: QueryGroup, ends: Mapping[str, QueryEnd], missed: BoundaryMissed | None
) -> tuple[Boundary, Mapping[str, QueryEnd]]:
    """Interrupt what has missed its boundary; return where all have ended, and whether anything may still write.

    A failed query that waits for its next try is inside a batch by its logs. It writes nothing any more, and the next
    holder runs that batch again.
    """
    if missed is not None:
        ends = {**queries.interrupt(), **ends}
    quiet = missed is None and all(end.quiet for end in ends.values())
    return Boundary.COMPLETED if quiet else Boundary.INTERRUPTED, ends


# A rehearsal, or a look, counts for so many seconds.
FRESH_SECONDS = 60.0
# After so long it is rehearsed again, whatever can be seen: rights, tokens and tables show only when they are tried.
STALE_SECONDS = 600.0


class Freshness:
    """How long ago a standby has rehearsed, or has seen that nothing has changed since; and against whom.

    :param stale: see `Ports.stale`.
    :param compare: see `Ports.compare`.
    """

    def __init__(self, stale: Callable[[], str], compare: Compare, clock: Clock) -> None:
        self._stale = stale
        self._compare = compare
        self._clock = clock
        self._compared_with: str | None = None
        self._rehearsed_at = self._fresh_at = clock.monotonic()

    @property
    def lasts(self) -> bool:
        """Whether nothing need be looked at again now."""
        return self._clock.monotonic() - self._fresh_at < FRESH_SECONDS

    def rehearsed(self, holder: str | None) -> None:
        """A rehearsal has just gone well, beside this last holder."""
        self._compared_with = holder
        self._rehearsed_at = self._fresh_at = self._clock.monotonic()

    def check_fits(self, holder: str | None, former: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        """Compare with the last holder, if it is another one than was rehearsed against.

        :param former: returns its queries.
        :raises RehearsalRefused: this release cannot follow it.
        """
        if holder != self._compared_with:
            self._compare(former())
            self._compared_with = holder

    def why_again(self) -> str:
        """Look, and return why it is to be rehearsed again, as a clause; empty: nothing has changed, and it is fresh.

        :raises StreamError: this release cannot take over any more.
        """
        old = self._clock.monotonic() - self._rehearsed_at
        why = f"its rehearsal is {old:.0f} s old" if old >= STALE_SECONDS else self._stale()
        if not why:
            self._fresh_at = self._clock.monotonic()
        return why


def new_doubts(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return what a rehearsal leaves in doubt that an earlier one did not: with that, a person has let it go on."""
    known = before.get("queries", {})
    found = now.get("queries", {}).items()
    return [query["doubt"] for name, query in found if "doubt" in query and "doubt" not in known.get(name, {})]
