"""The queries of the script as one group: started and stopped side by side, paused, restarted when they fail."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.heartbeat import QueryProgress
from airflow_stream_provider.runtime.boundary import progress_lock, stop_at_boundary
from airflow_stream_provider.runtime.describe import describe, progress
from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.managed_query import ManagedQuery
from airflow_stream_provider.runtime.ports import BoundaryMissed, QueryEnd

# A query that fails this often without committing a batch in between is not restarted any more.
ATTEMPTS = 4
# Errors that no restart cures: Spark's error classes and, where it has none, part of its message.
INCURABLE = (
    "KAFKA_DATA_LOSS",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STREAMING_STATEFUL_OPERATOR",
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
    "sources in the checkpoint offsets and now there are",
    "Partitions Set(",
)
# Errors caused by another writer on the checkpoint, or by a stale file of our own first try: the control log decides
# which driver goes on.
CONCURRENT = ("CONCURRENT_STREAM_LOG_UPDATE", "concurrently using", "_LEGACY_ERROR_TEMP_2207")

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass
class QueryFailures:
    """How often a query failed since its last commit, and when it may be tried again."""

    count: int = 0
    at_batch: int | None = None
    retry_at: float = 0.0


class QueryGroup:
    """The `ports.Queries` of a driver: the managed queries behind its gate.

    :param claim: takes a checkpoint location; records this stream as its owner, or raises.
    """

    def __init__(self, gate: Gate, claim: Callable[[str], None]) -> None:
        self._gate = gate
        self._claim = claim
        self._failures: dict[str, QueryFailures] = {}
        self._held: ExitStack | None = None

    @property
    def ready(self) -> bool:
        """Whether the script has built its queries; see `Gate.ready`."""
        return self._gate.ready

    @property
    def paused(self) -> bool:
        """Whether this driver holds the progress lock of every query."""
        return self._held is not None

    def describe(self) -> list[dict[str, Any]]:
        """Return what the `standby` record says of each query."""
        return [describe(query) for query in self._gate.queries]

    def progress(self) -> tuple[QueryProgress, ...]:
        """Ask Spark how far each query is."""
        return tuple(progress(query) for query in self._gate.queries)

    def hold(self) -> list[ManagedQuery]:
        """Start at once what the script adds from now on, and return the queries to `start`."""
        queries = self._gate.hold(self._start_one)
        for query in queries:
            # The run from an earlier epoch of this driver is out of date: another driver has gone on since.
            query.real = None
        return queries

    def let_go(self) -> None:
        """Start nothing that the script adds from now on; return once a start that is under way has ended."""
        self._gate.let_go()

    def start(self, queries: Sequence[ManagedQuery]) -> None:
        """Start these side by side on their real checkpoints."""
        side_by_side(self._start_one, queries)

    def _start_one(self, query: ManagedQuery) -> None:
        self._claim(query.checkpoint)
        query.start_real()

    def stop(self, seconds: float) -> tuple[dict[str, QueryEnd], BoundaryMissed | None]:
        """Stop all queries at their boundaries; return where each stopped, and the error of one that did not.

        When one misses its boundary the others are stopped already; `restart_in_place` starts them again.
        """

        def halt(query: ManagedQuery) -> QueryEnd | BoundaryMissed | None:
            if query.real is None:
                return None
            try:
                return stop_at_boundary(query.real, seconds)
            except BoundaryMissed as missed:
                return missed

        queries = self._gate.live()
        ends = side_by_side(halt, queries)
        missed = next((end for end in ends if isinstance(end, BoundaryMissed)), None)
        return {q.label: end for q, end in zip(queries, ends) if isinstance(end, QueryEnd)}, missed

    def interrupt(self) -> None:
        """Stop what is still running, inside a batch if need be."""

        def cut(query: ManagedQuery) -> None:
            if query.real is not None and query.real.isActive:
                query.real.stop()

        side_by_side(cut, self._gate.live())

    def pause(self, seconds: float) -> None:
        """Hold every query still (no new batch, no commit) until `resume`, which the same thread must call.

        :raises BoundaryMissed: a progress lock was not free within so many seconds; no query is held then.
        """
        deadline = time.monotonic() + seconds
        with ExitStack() as stack:
            for query in self._gate.live():
                if query.real is not None and query.real.isActive:
                    stack.enter_context(progress_lock(query.real, deadline - time.monotonic()))
            self._held = stack.pop_all()

    def resume(self) -> None:
        """Give the progress locks back."""
        if self._held is not None:
            held, self._held = self._held, None
            held.close()

    def tend(self) -> tuple[list[ManagedQuery], tuple[ManagedQuery, Exception] | None]:
        """Return the failed queries to `restart` now, and one that no restart cures, with its error.

        A query that failed because of another writer is due at once: restart it only when the control log says that
        this driver holds the stream. A query that ended by itself is marked as over.
        """
        due = []
        for query in self._gate.live():
            if query.real is None or query.real.isActive:
                continue
            error = query.real.exception()
            if error is None:
                query.end()
                continue
            failures = self._failures.setdefault(query.label, QueryFailures())
            if not failures.retry_at:
                self._note(query, failures, str(error))
            if failures.count >= ATTEMPTS:
                return [], (query, error)
            if time.monotonic() >= failures.retry_at:
                due.append(query)
        return due, None

    def restart(self, queries: Sequence[ManagedQuery]) -> None:
        """Start failed queries again; driver, executors and caches stay."""
        for query in queries:
            self._failures.setdefault(query.label, QueryFailures()).retry_at = 0.0
        side_by_side(ManagedQuery.start_real, queries)

    def restart_in_place(self) -> None:
        """Start again what `stop` stopped before another query missed its boundary, and what the script added since."""
        self.restart([query for query in self._gate.live() if query.real is not None and not query.real.isActive])
        self.start([query for query in self._gate.hold(self._start_one) if query.real is None])

    def _note(self, query: ManagedQuery, failures: QueryFailures, error: str) -> None:
        batch = checkpoints.boundary(query.checkpoint).commit
        if batch != failures.at_batch:
            failures.count, failures.at_batch = 0, batch
        failures.count += 1
        if any(sign in error for sign in INCURABLE):
            failures.count = ATTEMPTS
        concurrent = any(sign in error for sign in CONCURRENT)
        failures.retry_at = time.monotonic() + (0.0 if concurrent else 2.0 ** (failures.count - 1))
        log.warning("The query %s failed (%s since its last commit): %s", query.label, failures.count, error[:500])


def side_by_side(work: Callable[[ManagedQuery], T], queries: Sequence[ManagedQuery]) -> list[T]:
    """Do the work for all queries at the same time.

    :raises StreamError: the work failed for some query; the first error of all, raised when all are done.
    """
    results: list[Any] = [None] * len(queries)
    errors: list[tuple[str, BaseException]] = []

    def run(position: int) -> None:
        try:
            results[position] = work(queries[position])
        except BaseException as error:  # noqa: BLE001 - handed to the caller below
            errors.append((queries[position].label, error))

    threads = [threading.Thread(target=run, args=(i,), name=f"stream-{q.label}") for i, q in enumerate(queries)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        label, error = errors[0]
        if isinstance(error, StreamError):
            raise error
        raise StreamError(
            f"The query {label} failed: {str(error) or type(error).__name__}",
            next_step="Correct what the error names in the script, its sources or its sink. The driver's log has the "
            "whole stack trace.",
        ) from error
    return results
