"""The gate: a script's `start()` registers a managed query, which starts once this driver holds the stream."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from airflow_stream_provider.checkpoint import real_form, recorded_form
from airflow_stream_provider.control.bounded import OWN_THREADS
from airflow_stream_provider.lifecycle.errors import RehearsalRefused, SpecError, StreamError
from airflow_stream_provider.lifecycle.skip import all_but
from airflow_stream_provider.runtime import writer_spec as writer_specs
from airflow_stream_provider.runtime.describe import kafka_relations_of
from airflow_stream_provider.runtime.managed_query import ManagedQuery, RealRunsOnly, say_idle
from airflow_stream_provider.runtime.ports import BoundaryMissed
from airflow_stream_provider.runtime.refused import check_file_manager, check_sink, check_sources


def label_of(name: str, checkpoint: str, others: Iterable[tuple[str, str]]) -> str:
    """Return the label of a query: its name, or the end of its checkpoint's path, as long as it takes to be unique.

    It depends on what the queries are, not on their order, so that it stays the same from release to release.

    :param name: the name that the script gave it; empty when it gave none.
    :param others: name and checkpoint of the other queries. No two have the same checkpoint.
    """
    others = list(others)
    if name and all(name != other for other, _ in others):
        return name
    parts = _parts(checkpoint)
    for length in range(1, len(parts)):
        end = parts[-length:]
        label = "/".join(end)
        if all(label != other and _parts(path)[-length:] != end for other, path in others):
            return label
    return checkpoint


def _parts(checkpoint: str) -> list[str]:
    return checkpoint.rstrip("/").split("/")


# A script with a thread that does not wait for a query counts as ready when it has started none for this long.
QUIET_SECONDS = 15.0
# For this long where the script of the running release has started a query late that this one has not started yet.
LATE_SECONDS = 120.0
# The modules whose objects serve Spark's JVM in threads of their own.
SERVERS = ("pyspark.accumulators", "py4j.java_gateway", "py4j.clientserver")


class Gate:
    """Keeps queries from starting until this driver holds the stream; knows when the script is ready."""

    def __init__(self) -> None:
        self.queries: list[ManagedQuery] = []
        self._registering = threading.Lock()
        # While this driver holds: how to start a query that the script adds.
        self._start_late: Callable[[ManagedQuery], None] | None = None
        self._has_held = False
        # Whether all queries are known: those that a standby rehearses and announces.
        self._known = False
        # Which ones may come all the same, by their checkpoints as records have them.
        self._may_come_late: Collection[str] = ()
        # Notified when this driver holds, and when a query ends.
        self._changed = threading.Condition()
        self._terminated: ManagedQuery | None = None
        self._not_the_scripts = set(threading.enumerate()) - {threading.current_thread()}
        self._waiting: set[threading.Thread] = set()
        self._last_start = 0.0
        self._rehearsals: set[str] = set()
        # The runs whose ends the script's listeners do not hear of.
        self._stopped_runs: set[str] = set()
        # By id, the listeners that the script has added.
        self._listeners: dict[int, RealRunsOnly] = {}
        self._refuse: Callable[[StreamError], None] = lambda error: None
        # The records that the stream leaves out, and the number of Kafka sources that do so.
        self._skip: Collection[str] = ()
        self._skipping = 0

    def leave_out(self, skip: Collection[str]) -> None:
        """Patch pyspark so that the Kafka sources of the script leave these records out; see `lifecycle.skip`.

        A source that the script loads otherwise, as in Scala, reads them, and its query fails at them as before.
        """
        self._skip = skip
        if not skip:
            return
        gate, load, others = self, DataStreamReader.load, all_but(skip)

        def loading(self: DataStreamReader, *args: Any, **kwargs: Any) -> DataFrame:
            frame = load(self, *args, **kwargs)
            if not kafka_relations_of(frame):
                return frame
            gate._skipping += 1
            return frame.where(others)

        loading.__doc__ = load.__doc__
        DataStreamReader.load = loading  # type: ignore[method-assign]

    def skips(self) -> int:
        """Return how many records the script's Kafka sources leave out; a runtime that does not say so knows no list.

        :raises RehearsalRefused: no source does, so that the stream would fail at these records as before.
        """
        if self._skip and not self._skipping:
            raise RehearsalRefused(
                f"The stream leaves out {len(self._skip)} records, and the script has loaded no Kafka source by "
                "DataStreamReader.load.",
                next_step="Load it so, or take the records back (`airflow streams dossier --take-back`).",
            )
        return len(self._skip)

    def install(self, guard: Callable[[], None], refuse: Callable[[StreamError], None]) -> None:
        """Patch pyspark's classes before the script runs.

        :param guard: is called around each foreachBatch call.
        :param refuse: is called when a query cannot be managed, in the thread that starts it, before the error is
            raised there: in a thread of the script, the error alone would be lost and the query with it.
        """
        self._refuse = refuse
        writer_specs.install(guard)
        self._patch_starts()
        self._patch_manager()

    @property
    def ready(self) -> bool:
        """Whether the script has started its queries: all of its threads wait, or it has started none for 15 s."""
        return bool(self.queries) and (self._all_wait or self._quiet >= QUIET_SECONDS)

    @property
    def _all_wait(self) -> bool:
        return {thread for thread in self.script_threads() if not _serves_spark(thread)} <= self._waiting

    @property
    def _quiet(self) -> float:
        return time.monotonic() - self._last_start

    def to_come(self, late: Mapping[str, str]) -> list[str]:
        """Return the names of the queries that are waited for, of a script that is `ready`, since others were late.

        :param late: by checkpoint, as records have it, the queries that the running release has started late.
        """
        if self._all_wait or self._quiet >= LATE_SECONDS:
            return []
        here = {recorded_form(query.checkpoint) for query in self.queries}
        return sorted(name for checkpoint, name in late.items() if checkpoint not in here)

    def may_come_late(self, late: Collection[str]) -> None:
        """Do not refuse these queries, by their checkpoints, when they come after all were known: so others did."""
        self._may_come_late = late

    @property
    def holds(self) -> bool:
        """Whether this driver holds the stream, as far as the gate was told: what the script adds starts at once."""
        return self._start_late is not None

    def script_begins(self) -> None:
        """Note that this thread runs the script from now on; threads that begin later are the script's, too."""
        self._not_the_scripts = set(threading.enumerate()) - {threading.current_thread()}

    def script_threads(self) -> set[threading.Thread]:
        """Return the live threads of the script."""
        threads = set(threading.enumerate()) - self._not_the_scripts
        return {thread for thread in threads if not thread.name.startswith(OWN_THREADS)}

    def script_waits(self) -> None:
        """Note that this thread of the script waits for a query, or has ended: it starts no query meanwhile."""
        self._waiting.add(threading.current_thread())

    def all_known(self) -> list[ManagedQuery]:
        """Return the script's queries, to be rehearsed; until this driver holds, any other query is refused now."""
        with self._registering:
            self._known = True
            return list(self.queries)

    def live(self) -> list[ManagedQuery]:
        """Return the queries that have not ended for good."""
        return [query for query in self.queries if not query.over]

    def hold(self, start_late: Callable[[ManagedQuery], None]) -> list[ManagedQuery]:
        """Return the queries to start; from now on, start what the script adds with `start_late`."""
        with self._registering:
            self._start_late, self._has_held = start_late, True
            with self._changed:
                self._changed.notify_all()
            return self.live()

    def let_go(self) -> None:
        """Start nothing that the script adds from now on; return once a start that is under way has ended."""
        with self._registering:
            self._start_late = None

    @contextlib.contextmanager
    def still(self, seconds: float) -> Iterator[None]:
        """Inside the context the script adds no query: its `start()` waits.

        :raises BoundaryMissed: one that is under way has not ended within so many seconds.
        """
        if not self._registering.acquire(timeout=seconds):
            raise BoundaryMissed(
                f"A query that the script adds has not started within {seconds:.0f} s.",
                next_step="Look in the driver's log for what its start waits for.",
            )
        try:
            yield
        finally:
            self._registering.release()

    def query_ended(self, query: ManagedQuery) -> None:
        """Wake the threads that wait for the end of any query."""
        with self._changed:
            # As Spark remembers it: the first that ended, unless another one failed.
            if self._terminated is None or query.exception() is not None:
                self._terminated = query
            self._changed.notify_all()

    def await_all(self) -> None:
        """Wait until every query is over; raise the error of one that failed."""
        for query in self.queries:
            query.awaitTermination()

    def hide(self, query_id: str) -> None:
        """Hide a rehearsal's query from the script's listeners; call it before the query starts."""
        self._rehearsals.add(query_id)

    def hide_end(self, run: StreamingQuery) -> None:
        """Hide from the script's listeners that this run ends; call it before the runtime stops the run."""
        self._stopped_runs.add(run.runId)

    def say_idle(self) -> None:
        """Tell the script's listeners that the queries of a standby are idle; see `say_idle`."""
        if not self.holds:
            say_idle(self.live(), list(self._listeners.values()))

    def show_end(self, run: StreamingQuery) -> None:
        """Take `hide_end` back for a run that goes on."""
        self._stopped_runs.discard(run.runId)

    def _register(self, writer: DataStreamWriter, start: Callable[[], StreamingQuery]) -> ManagedQuery:
        self._waiting.discard(threading.current_thread())

        def checked_start() -> StreamingQuery:
            check_file_manager(writer)  # the session's conf may have changed since
            return start()

        try:
            check_sources(writer)
            check_sink(writer)
            check_file_manager(writer)
            query = ManagedQuery(self, writer, checked_start)
            with self._registering:
                self._add(query)
        except StreamError as error:
            self._refuse(error)
            raise
        return query

    def _add(self, query: ManagedQuery) -> None:
        # Once for each: the file system is asked, and may be slow.
        places = {q: real_form(q.checkpoint) for q in (*self.queries, query)}
        former = next((q for q in self.queries if places[q] == places[query]), None)
        if former is not None and not former.over:
            raise SpecError(
                f"The queries {former.label} and {query.label} have the same checkpoint, {query.checkpoint}, and the "
                "first has not ended.",
                next_step="Give each query a checkpoint of its own, or stop the first before the second starts.",
            )
        self._tell_apart(query, places)
        if self._start_late is not None:
            self._start_late(query)
        elif any(_same_name(query, other) for other in self.live()):
            raise SpecError(
                f"The script starts two queries of the name {query.name} in one SparkSession: Spark would refuse the "
                "second once this driver holds.",
                next_step="Give each query a name of its own (queryName), or none.",
            )
        elif former is None and self._known and not self._has_held and not self._may_come(query):
            raise SpecError(
                f"The script starts the query {query.label} after it seemed to have started all: it waited for its "
                f"queries, or had started none for {QUIET_SECONDS:.0f} s.",
                next_step="Start all queries first, then wait: a standby must know all of them before it takes over.",
            )
        query.late = bool(self.queries) and self._quiet >= QUIET_SECONDS if former is None else former.late
        if former is not None:
            self.queries[self.queries.index(former)] = query  # the same query, run once more
        else:
            self.queries.append(query)
        self._last_start = time.monotonic()

    def _may_come(self, query: ManagedQuery) -> bool:
        return recorded_form(query.checkpoint) in self._may_come_late

    def _tell_apart(self, added: ManagedQuery, places: Mapping[ManagedQuery, str]) -> None:
        """Give each query a label of its own. Those of others that stand in records already stay.

        :param places: where the checkpoint of each query is, also of the one that is added.
        """
        recorded = self._has_held or self._known
        for query in [added] if recorded else places:
            others = [q for q in places if places[q] != places[query]]
            taken = [(q.label if recorded else q.name, q.checkpoint) for q in others]
            query.label = label_of(query.name, query.checkpoint, taken)

    def _patch_starts(self) -> None:
        gate = self

        def gated(method: str) -> None:
            original = getattr(DataStreamWriter, method)

            def start(self: DataStreamWriter, *args: Any, **kwargs: Any) -> ManagedQuery:
                return gate._register(*writer_specs.writer_of_query(self, method, original, args, kwargs))

            start.__doc__ = original.__doc__
            setattr(DataStreamWriter, method, start)
            _ORIGINALS[method] = original

        gated("start")
        gated("toTable")

    def _patch_manager(self) -> None:
        gate = self
        add_listener = StreamingQueryManager.addListener
        remove_listener = StreamingQueryManager.removeListener

        def active(self: StreamingQueryManager) -> list[ManagedQuery]:
            return gate.live()

        def get(self: StreamingQueryManager, id: str) -> ManagedQuery | None:
            return next((query for query in gate.live() if query.goes_by(id)), None)

        def await_any(self: StreamingQueryManager, timeout: int | None = None) -> bool | None:
            return gate._await_any(timeout)

        def reset(self: StreamingQueryManager) -> None:
            gate._terminated = None

        def add(self: StreamingQueryManager, listener: StreamingQueryListener) -> None:
            seen = gate._listeners[id(listener)] = RealRunsOnly(listener, gate._rehearsals, gate._stopped_runs)
            add_listener(self, seen)

        def remove(self: StreamingQueryManager, listener: StreamingQueryListener) -> None:
            remove_listener(self, gate._listeners.pop(id(listener), listener))

        manager: Any = StreamingQueryManager
        manager.active = property(active)
        manager.get = get
        manager.awaitAnyTermination = await_any
        manager.resetTerminated = reset
        manager.addListener = add
        manager.removeListener = remove

    def _await_any(self, timeout: int | None) -> bool | None:
        with self._changed:
            if timeout != 0:  # as in `ManagedQuery.awaitTermination`
                self.script_waits()
                self._changed.wait_for(lambda: self._has_held or self._terminated is not None)
            self._changed.wait_for(lambda: self._terminated is not None, timeout)
            ended = self._terminated
        if ended is not None:
            ended.awaitTermination()
        return None if timeout is None else ended is not None


_ORIGINALS: dict[str, Callable[..., StreamingQuery]] = {}


def start_ungated(writer: DataStreamWriter) -> StreamingQuery:
    """Start the writer of a rehearsal at once, as unpatched Spark does."""
    return _ORIGINALS["start"](writer)


def _same_name(one: ManagedQuery, other: ManagedQuery) -> bool:
    """Whether Spark would not let both be active (StreamingQueryManager.startQuery)."""
    if not one.name or one.name != other.name:
        return False
    return bool(one.writer._spark._jsparkSession == other.writer._spark._jsparkSession)


def _serves_spark(thread: threading.Thread) -> bool:
    """Whether pyspark or py4j listens in this thread, as its server of accumulators does: no query is started there.

    By CPython's name for a thread's target; a thread without a known one counts as the script's.
    """
    owner = getattr(getattr(thread, "_target", None), "__self__", None)
    return type(owner).__module__ in SERVERS
