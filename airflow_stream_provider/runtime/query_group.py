"""The script's queries as one: started side by side, stopped side by side, watched, restarted in place."""

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
from airflow_stream_provider.runtime.boundary import BoundaryMissed, QueryEnd, progress_lock, stop_at_boundary
from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.managed_query import ManagedQuery

# A query that fails this often without committing a batch in between is given up.
ATTEMPTS = 4
# What no restart cures; Spark's error classes and, where it has none, its words.
INCURABLE = (
    "KAFKA_DATA_LOSS",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STREAMING_STATEFUL_OPERATOR",
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
    "sources in the checkpoint offsets and now there are",
    "Partitions Set(",
)
# Another writer on the checkpoint (or a stale file of our own first try): the log decides who goes on.
CONCURRENT = ("CONCURRENT_STREAM_LOG_UPDATE", "concurrently using", "_LEGACY_ERROR_TEMP_2207")

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass
class QueryFailures:
    """How often a query failed since its last commit, and when it may be tried again."""

    failures: int = 0
    at_batch: int | None = None
    retry_at: float = 0.0


class QueryGroup:
    """Starts, stops and watches the managed queries of one driver."""

    def __init__(self, gate: Gate, claim: Callable[[ManagedQuery], None]) -> None:
        self._gate = gate
        self._claim = claim
        self._failures: dict[str, QueryFailures] = {}
        self._held: ExitStack | None = None

    @property
    def paused(self) -> bool:
        """Whether every query is held still by its progress lock."""
        return self._held is not None

    def start(self, queries: Sequence[ManagedQuery]) -> None:
        """Start these side by side on their real checkpoints."""
        side_by_side(self.start_one, queries)

    def start_one(self, query: ManagedQuery) -> None:
        """Start one query on its real checkpoint."""
        self._claim(query)
        query.start_real()

    def stop(self, seconds: float) -> tuple[dict[str, QueryEnd], BoundaryMissed | None]:
        """Stop all queries at their boundaries; return where each stopped, and what kept one from it.

        When one misses its boundary the others are stopped already; `restart_stopped` brings them back in place.
        """

        def halt(query: ManagedQuery) -> QueryEnd | BoundaryMissed | None:
            if query.real is None:
                return None
            try:
                return stop_at_boundary(query.real, seconds)
            except BoundaryMissed as missed:
                return missed

        queries = self._gate.live()
        ends = dict(zip((q.label for q in queries), side_by_side(halt, queries)))
        missed = next((end for end in ends.values() if isinstance(end, BoundaryMissed)), None)
        return {name: end for name, end in ends.items() if isinstance(end, QueryEnd)}, missed

    def interrupt(self) -> None:
        """Stop what still runs, in mid-batch if need be."""

        def cut(query: ManagedQuery) -> None:
            if query.real is not None and query.real.isActive:
                query.real.stop()

        side_by_side(cut, self._gate.live())

    def pause(self, seconds: float) -> None:
        """Hold every query still (no new batch, no commit) until `resume`, from the same thread.

        :raises BoundaryMissed: a lock was not had in time; nothing is held then.
        """
        deadline = time.monotonic() + seconds
        with ExitStack() as stack:
            for query in self._gate.live():
                if query.real is not None and query.real.isActive:
                    stack.enter_context(progress_lock(query.real, deadline - time.monotonic()))
            self._held = stack.pop_all()

    def resume(self) -> None:
        """Let the queries go on."""
        if self._held is not None:
            held, self._held = self._held, None
            held.close()

    def tend(self) -> tuple[list[ManagedQuery], tuple[ManagedQuery, Exception] | None]:
        """Look after the queries; return those to `restart` now, and one that is lost for good, with its error.

        A failure that another writer caused is retried at once: act on it only when the log says that we hold.
        """
        due = []
        for query in self._gate.live():
            if query.real is None or query.real.isActive:
                continue
            error = query.real.exception()
            if error is None:
                query.end()
                continue
            failures_of = self._failures.setdefault(query.label, QueryFailures())
            if not failures_of.retry_at:
                self._note(query, failures_of, str(error))
            if failures_of.failures >= ATTEMPTS:
                return [], (query, error)
            if time.monotonic() >= failures_of.retry_at:
                due.append(query)
        return due, None

    def restart(self, queries: Sequence[ManagedQuery]) -> None:
        """Start these again in place: driver, executors and caches stay."""
        for query in queries:
            self._failures.setdefault(query.label, QueryFailures()).retry_at = 0.0
        side_by_side(ManagedQuery.start_real, queries)

    def restart_stopped(self) -> None:
        """Start again what a missed boundary of another query left stopped."""
        self.restart([query for query in self._gate.live() if query.real is not None and not query.real.isActive])

    def _note(self, query: ManagedQuery, failures_of: QueryFailures, error: str) -> None:
        batch = checkpoints.boundary(query.checkpoint).commit
        if batch != failures_of.at_batch:
            failures_of.failures, failures_of.at_batch = 0, batch
        failures_of.failures += 1
        if any(sign in error for sign in INCURABLE):
            failures_of.failures = ATTEMPTS
        concurrent = any(sign in error for sign in CONCURRENT)
        failures_of.retry_at = time.monotonic() + (0.0 if concurrent else 2.0 ** (failures_of.failures - 1))
        log.warning(
            "The query %s failed (%s since its last commit): %s", query.label, failures_of.failures, error[:500]
        )


def side_by_side(work: Callable[[ManagedQuery], T], queries: Sequence[ManagedQuery]) -> list[T]:
    """Do the work for all queries at the same time; raise the first error once all are through."""
    results: list[Any] = [None] * len(queries)
    errors: list[BaseException] = []

    def run(position: int) -> None:
        try:
            results[position] = work(queries[position])
        except BaseException as error:  # noqa: BLE001 - handed to the caller below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), name=f"stream-{q.label}") for i, q in enumerate(queries)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0] if isinstance(errors[0], StreamError) else StreamError(str(errors[0])) from errors[0]
    return results
