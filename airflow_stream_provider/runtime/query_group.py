"""The queries of the script as one group: started and stopped side by side, paused, restarted when they fail."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.checkpoint import Seen
from airflow_stream_provider.control.bounded import start
from airflow_stream_provider.lifecycle.due_rewind import DueRewind
from airflow_stream_provider.lifecycle.errors import CheckpointAway, CheckpointError, StreamError
from airflow_stream_provider.lifecycle.heartbeat import QueryProgress
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.runtime.boundary import progress_lock, stop_at_boundary
from airflow_stream_provider.runtime.describe import describe, progress, quiet_seconds, sources_of
from airflow_stream_provider.runtime.environment import environment
from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.kafka_client import check_still_there
from airflow_stream_provider.runtime.managed_query import ManagedQuery, side_by_side
from airflow_stream_provider.runtime.ports import BoundaryMissed, QueryEnd
from airflow_stream_provider.runtime.query_failures import QueryFailures
from airflow_stream_provider.runtime.query_starts import QueryStarts, by_place

# How long the end of queries that are cut off inside a batch is waited for; whatever runs on then is fenced.
CUT_SECONDS = 10.0

log = logging.getLogger(__name__)


class QueryGroup:
    """The managed queries behind the gate of a driver.

    The agent starts and stops them in one background thread at a time; it pauses and resumes them in its own thread.

    :param claim: takes a checkpoint location; records this stream as its owner, or raises.
    :param loss_seconds: how long records that Kafka shows no more are waited for; see `Policy`.
    :param note: takes the progress of each query that Spark has given; see `DriverVitals.note`.
    """

    def __init__(
        self,
        gate: Gate,
        claim: Callable[[str], None],
        loss_seconds: float = Policy.loss_seconds,
        note: Callable[[str, Mapping[str, Any]], None] = lambda name, body: None,
    ) -> None:
        self._note = note
        self._environment: dict[str, Any] = {}
        self._gate = gate
        self._starts = QueryStarts(claim, loss_seconds)
        self._held: ExitStack | None = None
        # Spark is asked once: a query is as it was built.
        self._quiet: WeakKeyDictionary[ManagedQuery, float | None] = WeakKeyDictionary()
        # Queries whose progress in other drivers cannot be shown to the script in this one.
        self._misread: list[ManagedQuery] = []
        # By label, what its checkpoint has shown when this driver looked last before it held.
        self._shown: dict[str, Seen] = {}

    @property
    def ready(self) -> bool:
        """Whether the script has built its queries; see `Gate.ready`."""
        return self._gate.ready

    @property
    def trouble(self) -> str:
        """One line on a query that has failed or waits, and is tried again later; empty when there is none."""
        return self._starts.trouble

    @property
    def paused(self) -> bool:
        """Whether this driver holds the progress lock of every query."""
        return self._held is not None

    def describe(self) -> list[dict[str, Any]]:
        """Return what the `standby` record says of each query, and what its checkpoint has shown in the rehearsal."""
        shown = ((query, self._shown.get(query.label, Seen())) for query in self._gate.queries)
        return [{**describe(query), "id": seen.id, "batch": seen.batch} for query, seen in shown]

    def environment(self) -> dict[str, Any]:
        """Return what the `standby` record says of this driver (`lifecycle.environment`), as it was found first."""
        self._environment = self._environment or environment(self._gate.queries)
        return self._environment

    def check_seen(self, seen: Mapping[str, Seen]) -> None:
        """Check that each checkpoint is the one that was seen; note what it shows for `describe`.

        :raises CheckpointError: one is another one or an older copy, or cannot be read. Nothing is known of one whose
            storage is away, and its query waits for that.
        """
        known = by_place(seen)

        def check(query: ManagedQuery) -> None:
            place = checkpoints.real_form(query.checkpoint)
            try:
                self._shown[query.label] = checkpoints.await_seen(query.checkpoint, known.get(place, Seen()))
            except CheckpointAway as error:
                log.warning("What the checkpoint of %s shows is not known: %s", query.label, error)

        side_by_side(check, self._gate.queries)

    def progress(self) -> tuple[QueryProgress, ...]:
        """Ask Spark how far each query is, and say how it does."""
        found = [(q, self._starts.failures_of(q), q.real, progress(q)) for q in self._gate.queries]
        for query, failures, run, said in found:
            self._note(query.label, said.spark)
            if said.batch is not None and query.real is run:  # it is no word of a hold before
                failures.prove(said.batch)
            # Its progress of a run that has failed is older than the failure.
            if failures.since is not None and query.real is not failures.run and query.has_got_on:
                failures.gets_on()
        now = time.monotonic()
        return tuple(
            replace(
                p,
                gap_seconds=self._starts.gaps.seconds(q.checkpoint, p.batch),
                failures=failures.total,
                health=failures.health(now),
                begun_at=q.begun_at,
                quiet_seconds=self._quiet_seconds(q),
            )
            for q, failures, _, p in found
        )

    def _quiet_seconds(self, query: ManagedQuery) -> float | None:
        if query not in self._quiet:
            try:
                self._quiet[query] = quiet_seconds(query)
            except Exception:
                # No query counts as hanging then.
                log.exception("How long %s waits by design is not known", query.label)
                self._quiet[query] = None
        return self._quiet[query]

    def ended(self) -> dict[str, QueryEnd]:
        """Read in the checkpoints where the queries, all of which have ended, stopped.

        Spark's last progress may be older: it is made after the commit, and none is of a run that had nothing to do.
        """
        found: dict[str, QueryEnd] = {}
        for query in self._gate.queries:
            self._read_end(query, found)
        return found

    def has_committed(self) -> bool:
        """Whether a query has committed a batch in this driver, in any hold, as their checkpoints say.

        Spark's progress is up to a second old, and older while the control log is out of reach. Ask while no other
        driver may commit: another driver's batches would count.
        """
        for query in self._gate.queries:
            if query.real is not None and not self._starts.proven:  # it was started in this hold
                with suppress(CheckpointError):
                    self._starts.failures_of(query).prove(checkpoints.boundary(query.checkpoint).commit)
        return self._starts.proven

    def hold(self) -> list[ManagedQuery]:
        """Start at once what the script adds from now on, and return the queries to `start`."""
        for query in self._gate.live():
            query.forget_run()
        self._starts.forget()
        return self._gate.hold(self._starts.start)

    def follow(self, progress: Sequence[QueryProgress]) -> None:
        """Let the script see how far its queries are in the driver that holds; see `ManagedQuery.follow`."""
        told = {checkpoints.recorded_form(each.checkpoint): each.spark for each in progress if each.spark}
        for query in self._gate.live():
            body = told.get(checkpoints.recorded_form(query.checkpoint))
            if body is None or query in self._misread:
                continue
            try:
                query.follow(body)
            except Exception:
                # Such as of a Spark of another version. It is no reason to end a driver that may be needed.
                self._misread.append(query)
                log.exception("What the driver that holds says of %s cannot be shown to the script", query.label)

    def let_go(self) -> None:
        """Start nothing that the script adds from now on; return once a start that is under way has ended."""
        self._gate.let_go()

    def start(self, queries: Sequence[ManagedQuery], seen: Mapping[str, Seen]) -> None:
        """Start these side by side on their real checkpoints, each once what was seen of it is there.

        One whose storage is away waits for it: `tend` names it again and again.

        :param seen: by checkpoint; it counts for what the script adds later, too.
        :raises StreamError: one cannot start, or its checkpoint is another one or an older copy.
        """
        self._starts.expect(seen)
        side_by_side(self._starts.start, queries)

    def check_rewind(self, wanted: WantedRewind) -> None:
        """Check that the queries can go back, and that Kafka answers and has the records; they may run meanwhile, in
        another driver.

        :raises StreamError: one of them cannot, or there is none of that name.
        """
        for query in _named(self._gate.queries, wanted):
            checkpoints.check_rewindable(query.checkpoint, sources_of(query))
            check_still_there(query, wanted.queries[query.label])

    def rewind(self, queries: Sequence[ManagedQuery], due: DueRewind, seen: Mapping[str, Seen]) -> str:
        """Let queries that are not started yet begin at earlier records; none does if one of them cannot go back.

        Where it is owed, those are left out that have other checkpoints by now, or are gone.

        :return: which ones go back, and how far; empty: none has to.
        :raises StreamError: one of them cannot, its checkpoint is not the one in `seen`, the log does not say where it
            stood, or the storage fails: then some may have gone back.
        """
        said = []
        for label, plan in self._starts.plan_rewinds(
            _named(queries, due.wanted, all_of_them=not due.owed), due, by_place(seen)
        ):
            said.append(f"{label} goes back after batch {plan.batch}, and reads {plan.records} records again.")
            log.warning("%s", said[-1])
            checkpoints.apply_rewind(plan)
        return " ".join(said)

    def stop(self, seconds: float) -> tuple[dict[str, QueryEnd], BoundaryMissed | None]:
        """Stop all queries at their boundaries; return where each stopped, and the error of one that did not say where.

        When one misses its boundary the others are stopped already; `restart_in_place` starts them again.
        """

        def halt(query: ManagedQuery) -> QueryEnd | BoundaryMissed | None:
            run = query.real
            if run is None:
                return self._starts.stood(query)
            if run.isActive:  # one that has failed is not ended by this stop
                self._gate.hide_end(run)
            try:
                return self._starts.end_of(query, stop_at_boundary(run, seconds, self._starts.seen(query).batch))
            except BoundaryMissed as missed:
                if run.isActive:
                    self._gate.show_end(run)
                return missed
            except CheckpointError as error:
                # It has ended, and its storage is away: no driver may follow without the place where it stopped.
                return BoundaryMissed(
                    f"The query {query.label} has stopped, but nobody can say where: {error.message}",
                    next_step=error.next_step,
                    query=query.label,
                )

        # Also queries that are over: the script may have cut one off inside a batch whose tasks may still write.
        over = [query for query in self._gate.queries if query.over]
        queries = [query for query in self._gate.queries if query not in over or query.real is not None]
        stops = list(zip(queries, side_by_side(halt, queries)))
        ends = [end for _, end in stops]
        found = {q.label: end for q, end in stops if isinstance(end, QueryEnd) and not (q in over and end.quiet)}
        for query, end in stops:
            if isinstance(end, QueryEnd) and query.real is not None:
                self._starts.failures_of(query).prove(end.batch)
        misses = [end for end in ends if isinstance(end, BoundaryMissed)]
        # One that may still reach its boundary says more than one that never can.
        return found, min(misses, key=lambda missed: bool(missed.fields.get("never")), default=None)

    def interrupt(self) -> dict[str, QueryEnd]:
        """Stop what is still running, inside a batch if need be; wait up to CUT_SECONDS for that.

        Spark's stop waits for the thread of the query, which may be in a function of foreachBatch that nothing ends.

        :return: where these stand by their checkpoints, as far as that could be read: the next driver must see as much.
        """
        found: dict[str, QueryEnd] = {}

        def cut(query: ManagedQuery) -> None:
            # Before and after: the stop may never return.
            self._read_end(query, found)
            try:
                if query.real is not None and query.real.isActive:
                    self._gate.hide_end(query.real)
                    query.real.stop()
            except Exception:
                # Such as by py4j, of a JVM that is going: the driver ends as interrupted all the same.
                log.exception("%s could not be stopped inside its batch", query.label)
            self._read_end(query, found)

        wait([start(partial(cut, query), query.label) for query in self._gate.live()], CUT_SECONDS)
        return dict(found)

    def pause(self, seconds: float) -> None:
        """Hold every query still (no new batch, no commit) until `resume`, which the same thread must call.

        Queries that the script adds meanwhile start then.

        :raises BoundaryMissed: a progress lock was not free within so many seconds, or a start is still under way; no
            query is held then.
        """
        deadline = time.monotonic() + seconds
        with ExitStack() as stack:
            stack.enter_context(self._gate.still(seconds))
            for query in self._gate.live():
                if query.real is not None and query.real.isActive:
                    stack.enter_context(progress_lock(query.real, deadline - time.monotonic()))
            self._held = stack.pop_all()

    def resume(self) -> None:
        """Give the progress locks back."""
        if self._held is not None:
            held, self._held = self._held, None
            held.close()

    def unable(self) -> tuple[ManagedQuery, Exception] | None:
        """Return a query that cannot run in this driver any more, with the reason.

        Spark itself stops a SparkContext, such as when the master removes the application or an executor fails too
        often; and so do scripts.
        """
        found = next((query for query in self._gate.live() if query.context_stopped), None)
        if found is None:
            return None
        return found, StreamError(
            "Its SparkContext has been stopped, by Spark or by the script.",
            next_step="If the script did not do that, look in the driver's log for why Spark did. A script that is to "
            "end stops its queries first.",
        )

    def tend(self) -> tuple[list[ManagedQuery], tuple[str, Exception] | None]:
        """Return the queries to `restart` now, which failed or wait, and why this driver ends, with the error.

        It ends with a query that no restart cures. One whose records Kafka has lost is left alone, and the others go
        on, unless it is so with all of them, or none has ever committed in this driver.

        A query that failed because of another writer is due at once: restart it only when the control log says that
        this driver holds the stream. A query that ended by itself is marked as over.

        It never waits for a storage: a failure counts from one of the next looks on.
        """
        due, gone, live = [], [], self._gate.live()
        # While another one runs, one that has lost records ends no driver: the next one would end of it, too.
        one_runs = self._starts.proven or any(
            query.real is not None and query.real.isActive and self._starts.failures_of(query).since is None
            for query in live
        )
        for query in live:
            failures = self._starts.failures_of(query)
            lost = failures.lost or self._starts.ran_again(query)
            if lost is not None:
                return [], (_why(query, failures), lost)
            if query.real is None or query.real.isActive:
                if not self._starts.waits(query):
                    continue
            else:
                error = query.real.exception()
                if error is None:
                    query.end()
                    continue
                if not failures.retry_at:
                    self._starts.note_soon(query, error)
                    continue
                if failures.loss is not None and (failures.gone or (failures.loses and not one_runs)):
                    gone.append((_why(query, failures), failures.loss))
                    continue
            if time.monotonic() >= failures.retry_at:
                due.append(query)
        if gone and (len(gone) == len(live) or not one_runs):
            return [], gone[0]
        return due, None

    def restart(self, queries: Sequence[ManagedQuery]) -> None:
        """Start failed queries again, and those that wait for their storage; driver, executors and caches stay."""
        side_by_side(self._starts.again, queries)

    def restart_in_place(self) -> None:
        """Start again what `stop` stopped before another query missed its boundary, and what the script added since."""
        self.restart([query for query in self._gate.live() if query.real is not None and not query.real.isActive])
        self.restart([query for query in self._gate.hold(self._starts.start) if query.real is None])

    def _read_end(self, query: ManagedQuery, found: dict[str, QueryEnd]) -> None:
        with suppress(CheckpointError):
            logs = checkpoints.boundary(query.checkpoint)
            found[query.label] = self._starts.end_of(query, QueryEnd(logs.completed, logs.commit))


def _why(query: ManagedQuery, failures: QueryFailures) -> str:
    batch = "" if failures.batch is None else f" in batch {failures.batch}"
    return f"The query {query.label} failed{batch} and no restart cures it"


def _named(queries: Sequence[ManagedQuery], wanted: WantedRewind, *, all_of_them: bool = True) -> list[ManagedQuery]:
    found = [query for query in queries if query.label in wanted.queries]
    missing = sorted(set(wanted.queries) - {query.label for query in found})
    if missing and all_of_them:
        raise StreamError(
            f"There is no query {missing[0]} that could read records again.",
            next_step="Rewind the queries that this release has, by their names.",
        )
    return found
