"""The gate: a script's `start()` registers a managed query, which starts once this driver holds the stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.runtime import writer_spec as writer_specs
from airflow_stream_provider.runtime.labels import label_of
from airflow_stream_provider.runtime.listeners import RealRunsOnly
from airflow_stream_provider.runtime.managed_query import ManagedQuery

# A script that starts queries and then neither waits for them nor polls them counts as ready after this long.
QUIET_SECONDS = 5.0


class Gate:
    """Keeps queries from starting until this driver holds the stream; knows when the script is ready."""

    def __init__(self) -> None:
        self.queries: list[ManagedQuery] = []
        self._registering = threading.Lock()
        # While this driver holds: how to start a query that the script adds.
        self._start_late: Callable[[ManagedQuery], None] | None = None
        self._has_held = False
        self._ended = threading.Condition()
        self._waits = threading.Event()
        self._last_start: float | None = None
        self._rehearsals: set[str] = set()
        self._acknowledged = 0

    def install(self, guard: Callable[[], None]) -> None:
        """Patch pyspark's classes before the script runs; `guard` is called around each foreachBatch call."""
        writer_specs.install(guard)
        self._patch_starts()
        self._patch_manager()

    @property
    def ready(self) -> bool:
        """Whether all queries are known: the script waits for one, polls one, has ended, or started none for 5 s."""
        if not self.queries:
            return False
        quiet = self._last_start is not None and time.monotonic() - self._last_start >= QUIET_SECONDS
        return self._waits.is_set() or quiet

    def script_waits(self) -> None:
        """Note that the script waits for a query, polls one, or has ended: all of its queries are built."""
        self._waits.set()

    def live(self) -> list[ManagedQuery]:
        """Return the queries that have not ended for good."""
        return [query for query in self.queries if not query.over]

    def hold(self, start_late: Callable[[ManagedQuery], None]) -> list[ManagedQuery]:
        """Return the queries to start; from now on, start what the script adds with `start_late`."""
        with self._registering:
            self._start_late, self._has_held = start_late, True
            return self.live()

    def let_go(self) -> None:
        """Start nothing that the script adds from now on; return once a start that is under way has ended."""
        with self._registering:
            self._start_late = None

    def query_ended(self) -> None:
        """Wake the threads that wait for the end of any query."""
        with self._ended:
            self._ended.notify_all()

    def await_all(self) -> None:
        """Wait until every query is over; raise the error of one that failed."""
        for query in self.queries:
            query.awaitTermination()

    def hide(self, query_id: str) -> None:
        """Hide a rehearsal's query from the script's listeners; call it before the query starts."""
        self._rehearsals.add(query_id)

    def _register(self, writer: DataStreamWriter, start: Callable[[], StreamingQuery]) -> ManagedQuery:
        query = ManagedQuery(self, writer, start)
        with self._registering:
            self._add(query)
        return query

    def _add(self, query: ManagedQuery) -> None:
        twin = next((q for q in self.queries if q.checkpoint.rstrip("/") == query.checkpoint.rstrip("/")), None)
        if twin is not None:
            raise SpecError(
                f"The queries {twin.label} and {query.label} have the same checkpoint, {query.checkpoint}.",
                next_step="Give each query a checkpoint of its own.",
            )
        self._tell_apart(query)
        if self._start_late is not None:
            self._start_late(query)
        elif self._waits.is_set() and not self._has_held:
            raise SpecError(
                f"The script starts the query {query.label} only after it has waited for another query.",
                next_step="Start all queries first, then wait: a standby must know all of them before it takes over.",
            )
        self.queries.append(query)
        self._last_start = time.monotonic()

    def _tell_apart(self, added: ManagedQuery) -> None:
        """Give each query a label of its own. Those of a driver that has held stand in records already, and stay."""
        queries = [*self.queries, added]
        for query in [added] if self._has_held else queries:
            others = [q for q in queries if q.checkpoint.rstrip("/") != query.checkpoint.rstrip("/")]
            taken = [(q.label if self._has_held else q.name, q.checkpoint) for q in others]
            query.label = label_of(query.name, query.checkpoint, taken)

    def _patch_starts(self) -> None:
        gate = self

        def gated(method: str) -> None:
            original = getattr(DataStreamWriter, method)

            def start(self: DataStreamWriter, *args: Any, **kwargs: Any) -> ManagedQuery:
                writer_specs.note_start(self, method, args, kwargs)
                return gate._register(self, lambda: original(self, *args, **kwargs))

            start.__doc__ = original.__doc__
            setattr(DataStreamWriter, method, start)
            _ORIGINALS[method] = original

        gated("start")
        gated("toTable")

    def _patch_manager(self) -> None:
        gate = self
        add_listener = StreamingQueryManager.addListener
        remove_listener = StreamingQueryManager.removeListener
        filtered: dict[int, StreamingQueryListener] = {}

        def active(self: StreamingQueryManager) -> list[ManagedQuery]:
            gate.script_waits()
            return gate.live()

        def get(self: StreamingQueryManager, id: str) -> ManagedQuery | None:
            return next((query for query in gate.queries if query.id == id), None)

        def await_any(self: StreamingQueryManager, timeout: int | None = None) -> bool | None:
            gate.script_waits()
            return gate._await_any(timeout)

        def reset(self: StreamingQueryManager) -> None:
            gate._acknowledged = sum(query.over for query in gate.queries)

        def add(self: StreamingQueryManager, listener: StreamingQueryListener) -> None:
            filtered[id(listener)] = RealRunsOnly(listener, gate._rehearsals)
            add_listener(self, filtered[id(listener)])

        def remove(self: StreamingQueryManager, listener: StreamingQueryListener) -> None:
            remove_listener(self, filtered.pop(id(listener), listener))

        manager: Any = StreamingQueryManager
        manager.active = property(active)
        manager.get = get
        manager.awaitAnyTermination = await_any
        manager.resetTerminated = reset
        manager.addListener = add
        manager.removeListener = remove

    def _await_any(self, timeout: int | None) -> bool | None:
        def ended() -> list[ManagedQuery]:
            return [query for query in self.queries if query.over][self._acknowledged :]

        with self._ended:
            self._ended.wait_for(ended, timeout)
        for query in ended():
            query.awaitTermination()
        return None if timeout is None else bool(ended())


_ORIGINALS: dict[str, Callable[..., StreamingQuery]] = {}


def start_ungated(writer: DataStreamWriter) -> StreamingQuery:
    """Start the writer of a rehearsal at once, as unpatched Spark does."""
    return _ORIGINALS["start"](writer)
