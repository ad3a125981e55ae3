"""The surroundings of an agent, where its queries stopped, and how long ago it has rehearsed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.lifecycle.record import Boundary
from airflow_stream_provider.lifecycle.state import Incarnation
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
        self._plans_only = False
        self._rehearsed_at = self._fresh_at = clock.monotonic()

    def lasts(self, holder: str | None) -> bool:
        """Whether nothing need be looked at again now, before it follows this holder; None: no driver holds."""
        thin = self._plans_only and holder is not None
        return not thin and self._clock.monotonic() - self._fresh_at < FRESH_SECONDS

    def rehearsed(self, holder: str | None, plans_only: bool) -> None:
        """A rehearsal has just gone well, beside this last holder."""
        self._compared_with = holder
        self._plans_only = plans_only
        self._rehearsed_at = self._fresh_at = self._clock.monotonic()

    def check_fits(self, holder: str | None, former: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        """Compare with the last holder, if it is another one than was rehearsed against.

        :param former: returns its queries.
        :raises RehearsalRefused: this release cannot follow it.
        """
        if holder != self._compared_with:
            self._compare(former())
            self._compared_with = holder

    def why_again(self, holder: str | None) -> str:
        """Look, and return why it is to be rehearsed again, as a clause; empty: nothing has changed, and it is fresh.

        :param holder: that it is to follow now; None: no driver holds.
        :raises StreamError: this release cannot take over any more.
        """
        old = self._clock.monotonic() - self._rehearsed_at
        why = f"its rehearsal is {old:.0f} s old" if old >= STALE_SECONDS else self._stale()
        if self._plans_only and holder is not None:
            why = why or "only its plans were rehearsed"
        if not why:
            self._fresh_at = self._clock.monotonic()
        return why


def completed(rehearsal: Mapping[str, Any], again: str, last: Incarnation | None) -> dict[str, Any]:
    """Return the summary of a rehearsal with why it was done again, and what its release has said of the way back.

    The checkpoint has the newer format by then: a later rehearsal sees none, and the log forgets drivers.

    :param last: a driver of the same release that has held; None: none has.
    """
    found = {**rehearsal}
    if again:
        found["notes"] = [*rehearsal.get("notes", ()), f"Rehearsed again, as {again}."]
    said = (last.rehearsal.get("one_way") if last is not None else None, rehearsal.get("one_way"))
    one_way = dict.fromkeys(sentence for each in said if isinstance(each, (list, tuple)) for sentence in each)
    return {**found, "one_way": [*one_way]} if one_way else found


def new_doubts(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return what a rehearsal leaves in doubt that an earlier one did not: with that, a person has let it go on."""
    known = before.get("queries", {})
    found = now.get("queries", {}).items()
    return [query["doubt"] for name, query in found if "doubt" in query and "doubt" not in known.get(name, {})]
