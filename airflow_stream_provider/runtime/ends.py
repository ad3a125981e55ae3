"""Say where the queries stopped, as in a holder's last record, and do the work beside the agent's turns."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airflow_stream_provider.checkpoint import Seen, normal_form, recorded_form
from airflow_stream_provider.lifecycle.changed_checkpoints import Change, locations
from airflow_stream_provider.lifecycle.errors import ControlLogReplaced, SpecError, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Boundary
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.runtime.ports import BoundaryMissed, Clock, Compare, Queries, QueryEnd, Spawn, Work

# So many holders are asked, newest first: one that has died before its first commit knows only what it rehearsed on.
HOLDERS = 5

log = logging.getLogger(__name__)


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


def cut_off(queries: Queries, seconds: float) -> tuple[Boundary, Mapping[str, QueryEnd]]:
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
    queries: Queries, ends: Mapping[str, QueryEnd], missed: BoundaryMissed | None
) -> tuple[Boundary, Mapping[str, QueryEnd]]:
    """Interrupt what has missed its boundary; return where all have ended, and whether anything may still write.

    A failed query that waits for its next try is inside a batch by its logs. It writes nothing any more, and the next
    holder runs that batch again.
    """
    if missed is not None:
        ends = {**queries.interrupt(), **ends}
    quiet = missed is None and all(end.quiet for end in ends.values())
    return Boundary.COMPLETED if quiet else Boundary.INTERRUPTED, ends


def seen_before(state: StreamState, incarnation: str, heartbeat: Callable[[str], Heartbeat | None]) -> dict[str, Seen]:
    """Return by checkpoint, in its recorded form, what a driver can know that the stream has seen of it.

    Batches seen before a person named a checkpoint as changed do not count, but for drivers that ran the stream since
    then.

    :param incarnation: the driver that asks.
    :param heartbeat: returns that of an incarnation; None: there is none.
    :raises ControlUnavailable: a heartbeat cannot be read now.
    """
    changed = _changed(state, deployment_of(incarnation))
    found: dict[str, Seen] = {}
    told: set[str] = set()
    request = next(reversed(list(state.requests.values())), None)
    if request is not None and incarnation in (request.to, request.source):
        # A driver that hands over has just seen it.
        found.update(_in_record(request.ends.values()))
        told.update(place for place, seen in found.items() if seen.batch is not None)
    held = state.held[:HOLDERS]
    # The last holder, and the present one.
    ended, holds = [driver.id for driver in (held if state.holder is None else held[1:])[:1]], state.holder
    me = state.incarnations.get(incarnation)
    mine = {place for place, _ in _in_record(() if me is None else me.queries)}
    for driver in {driver.id: driver for driver in ([] if me is None else [me]) + held}.values():
        since, said = driver.announced, list(_in_record(driver.queries))
        if not mine or not mine <= told:
            beat = heartbeat(driver.id) or Heartbeat()
            said += [(recorded_form(q.checkpoint), Seen(q.id, q.batch)) for q in beat.queries if q.checkpoint]
            if driver.id in ended:
                said += _in_record(state.ends.values())
            if driver.id != incarnation and driver.id in (holds, *ended):
                since = max(since, beat.seq)  # a copy is not put back under a driver that holds
        for place, seen in said:
            if since >= changed.get(place, 0):
                found[place] = seen.and_then(found.get(place, Seen()))  # one asked before has seen it later
    return {place: seen for place, seen in found.items() if seen != Seen()}


def _changed(state: StreamState, mine: str) -> dict[str, float]:
    """Return the checkpoints that were named as changed, and since which record the newest of these deployments is up.

    :param mine: the deployment of the driver that asks; of others only those count that have held.
    """
    found: dict[str, float] = {}
    for each in state.deployments.values():
        # One that is run again was named as changed when it was run first.
        if each.declared.get("again") or (each.previous is None and each.id != mine):
            continue
        up = (driver.announced for driver in state.of_deployment(each.id))
        since = min(up, default=math.inf if each.id == mine else each.declared.seq)
        try:
            named = locations(each.policy.changed_checkpoints, Change.CHECKPOINT)
        except SpecError:
            continue  # what somebody else wrote names none
        for name in named:  # a person writes a path as the script has it
            for place in (normal_form(name), recorded_form(name)):
                found[place] = max(since, found.get(place, 0))
    return found


def _in_record(said: Any) -> Iterator[tuple[str, Seen]]:
    """Yield what ends, or the queries of a `standby` record, say of checkpoints; others may have written anything."""
    for each in said:
        place = each.get("checkpoint") if isinstance(each, Mapping) else None
        if isinstance(place, str) and place:
            batch, identity = each.get("batch"), each.get("id")
            seen = Seen(identity if isinstance(identity, str) else "", batch if isinstance(batch, int) else None)
            yield recorded_form(place), seen


class Background:
    """The background work of one incarnation.

    `work`: what was begun last; None when it is known to be over.

    :param fail: ends the driver as failed, with a reason and an error; called in the background.
    :param halt: ends the process without another record.
    """

    def __init__(self, spawn: Spawn, fail: Callable[[str, BaseException], None], halt: Callable[[], None]) -> None:
        self.work: Work | None = None
        self._rehearses = False
        self._spawn = spawn
        self._fail = fail
        self._halt = halt

    @property
    def is_busy(self) -> bool:
        """Whether the work is under way."""
        return self.work is not None and self.work.is_alive()

    @property
    def starts_or_stops(self) -> bool:
        """Whether queries are being started or stopped; what a rehearsal does is neither."""
        return self.is_busy and not self._rehearses

    def begin(self, work: Callable[[], None], *, rehearses: bool = False) -> None:
        """Begin this work; a driver whose work cannot begin halts, as the next turn takes it for begun."""

        def guarded() -> None:
            try:
                self._do_or_fail(work)
            except ControlLogReplaced as error:
                log.error("%s This driver halts.", error)
                self._halt()

        self._rehearses = rehearses
        try:
            self.work = self._spawn(guarded)
        except RuntimeError as error:
            log.error("%s: this driver halts.", error)
            self._halt()

    def _do_or_fail(self, work: Callable[[], None]) -> None:
        try:
            work()
        except ControlLogReplaced:
            raise  # there is no log to say `failed` in
        except Exception as error:
            log.exception("Failed in the background")
            self._fail(str(error) if isinstance(error, StreamError) else "The runtime itself failed", error)


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
