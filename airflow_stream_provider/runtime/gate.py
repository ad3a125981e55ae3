"""The gate: a script's `start()` builds and registers a managed query, and nothing starts until we hold."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_stream_provider.model.errors import SpecError
from airflow_stream_provider.runtime import recipe as recipes
from airflow_stream_provider.runtime.recipe import Recipe

# A script that only starts queries and then does something else of its own is taken as ready after this long.
QUIET_SECONDS = 5.0


class ManagedQuery(StreamingQuery):
    """What the script gets from `start()`: a query that can be started, released and started again in one driver.

    To the script it is one query that is active from `start()` to the deployment's end. `real` is Spark's query
    while one runs.
    """

    def __init__(self, gate: Gate, writer: DataStreamWriter, start: Callable[[], StreamingQuery]) -> None:
        self._gate = gate
        self._start = start
        self.writer = writer
        self.recipe: Recipe = recipes.recipe_of(writer)
        self.checkpoint = recipes.checkpoint_of(writer)
        self.label = self.recipe.name or self.checkpoint.rstrip("/").rpartition("/")[2]
        self.real: StreamingQuery | None = None
        self._first_id = str(uuid.uuid4())
        self._over = threading.Event()
        self._error: Exception | None = None

    # -- for the agent ---------------------------------------------------------------------------------------------

    def start_real(self) -> None:
        """Start Spark's query on the real checkpoint."""
        self.real = self._start()

    def end(self, error: Exception | None = None) -> None:
        """The query is over for good: let the script's waits return, or raise the error."""
        self._error = error
        self._over.set()
        self._gate.query_ended()

    @property
    def over(self) -> bool:
        """Whether the query has ended for good."""
        return self._over.is_set()

    # -- for the script --------------------------------------------------------------------------------------------

    @property
    def _jsq(self) -> Any:
        if self.real is None:
            raise AttributeError("the query is not started: this driver is a standby")
        return self.real._jsq

    @_jsq.setter
    def _jsq(self, value: Any) -> None:
        raise AttributeError("set by Spark only")

    @property
    def id(self) -> str:
        """Spark's id of the query; a made-up one until it first starts."""
        return self.real.id if self.real else self._first_id

    @property
    def runId(self) -> str:
        """Spark's id of the present run; a made-up one until it first starts."""
        return self.real.runId if self.real else self._first_id

    @property
    def name(self) -> str:
        """The name the script gave the query."""
        return self.recipe.name

    @property
    def isActive(self) -> bool:
        """Whether the query has not ended for good: a standby's and a released query are active to the script."""
        self._gate.script_waits()
        return not self.over

    @property
    def status(self) -> dict[str, Any]:
        """Spark's status while the query runs."""
        self._gate.script_waits()
        if self.real:
            return self.real.status
        return {"message": "Waiting to hold the stream", "isDataAvailable": False, "isTriggerActive": False}

    @property
    def lastProgress(self) -> Any:
        """Spark's last progress, None while nothing has run here."""
        self._gate.script_waits()
        return self.real.lastProgress if self.real else None

    @property
    def recentProgress(self) -> Any:
        """Spark's recent progress, empty while nothing has run here."""
        self._gate.script_waits()
        return self.real.recentProgress if self.real else []

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """Wait for the query's end for good, not for one run of it; raises what ended it."""
        self._gate.script_waits()
        self._over.wait(timeout)
        if self.over and self._error is not None:
            raise self._error
        return None if timeout is None else self.over

    def processAllAvailable(self) -> None:
        """Wait until Spark has processed what is there now; on a standby, until it holds."""
        self._gate.script_waits()
        while self.real is None and not self.over:
            time.sleep(0.1)
        if self.real is not None:
            self.real.processAllAvailable()

    def stop(self) -> None:
        """End the query for good, as the script wishes."""
        if self.real is not None:
            self.real.stop()
        self.end()

    def exception(self) -> Any:
        """Return what ended the query for good, None while it is active."""
        return self._error

    def explain(self, extended: bool = False) -> None:
        """Print the plan of the present run."""
        if self.real is not None:
            self.real.explain(extended)


class Gate:
    """Holds the script's queries back until this driver holds the stream; knows when the script is ready."""

    def __init__(self) -> None:
        self.queries: list[ManagedQuery] = []
        # Set by the agent: how to start a query that the script adds while this driver already holds.
        self.start_late: Callable[[ManagedQuery], None] | None = None
        self._ended = threading.Condition()
        self._waits = threading.Event()
        self._last_start: float | None = None
        self._rehearsals: set[str] = set()
        self._acknowledged = 0

    def install(self, guard: Callable[[], None]) -> None:
        """Patch pyspark's classes before the script is run; `guard` is called around each foreachBatch call."""
        recipes.install(guard)
        self._patch_starts()
        self._patch_manager()

    @property
    def ready(self) -> bool:
        """Whether all queries are known: the script waits, polls, has ended, or was quiet for 5 s."""
        if not self.queries:
            return False
        quiet = self._last_start is not None and time.monotonic() - self._last_start >= QUIET_SECONDS
        return self._waits.is_set() or quiet

    def script_waits(self) -> None:
        """The script waits for a query, polls one, or has ended: it has built all that it is going to build."""
        self._waits.set()

    def query_ended(self) -> None:
        """Wake whoever waits for any query's end."""
        with self._ended:
            self._ended.notify_all()

    def await_all(self) -> None:
        """Wait until every query is over; raise the error of one that failed."""
        for query in self.queries:
            query.awaitTermination()

    def hide(self, query_id: str) -> None:
        """Keep a rehearsal's query out of the sight of the script's listeners; call before it is started."""
        self._rehearsals.add(query_id)

    def _register(self, writer: DataStreamWriter, start: Callable[[], StreamingQuery]) -> ManagedQuery:
        query = ManagedQuery(self, writer, start)
        twin = next((q for q in self.queries if q.checkpoint.rstrip("/") == query.checkpoint.rstrip("/")), None)
        if twin is not None:
            raise SpecError(
                f"The queries {twin.label} and {query.label} have one checkpoint, {query.checkpoint}.",
                todo="Give each query a checkpoint of its own.",
            )
        if self._waits.is_set():
            if self.start_late is None:
                raise SpecError(
                    f"The script starts the query {query.label} only after it waited for another.",
                    todo="Start all queries first, then wait: a standby must know them all before it takes over.",
                )
            self.start_late(query)
        self.queries.append(query)
        self._last_start = time.monotonic()
        return query

    def _patch_starts(self) -> None:
        gate = self

        def gated(method: str) -> None:
            original = getattr(DataStreamWriter, method)

            def start(self: DataStreamWriter, *args: Any, **kwargs: Any) -> ManagedQuery:
                _note_start(self, method, args, kwargs)
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
            return [query for query in gate.queries if not query.over]

        def get(self: StreamingQueryManager, id: str) -> ManagedQuery | None:
            return next((query for query in gate.queries if query.id == id), None)

        def await_any(self: StreamingQueryManager, timeout: int | None = None) -> bool | None:
            gate.script_waits()
            return gate._await_any(timeout)

        def reset(self: StreamingQueryManager) -> None:
            gate._acknowledged = sum(query.over for query in gate.queries)

        def add(self: StreamingQueryManager, listener: StreamingQueryListener) -> None:
            filtered[id(listener)] = _RealRunsOnly(listener, gate._rehearsals)
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


class _RealRunsOnly(StreamingQueryListener):
    """Passes on to the script's listener what happens to real queries, not to rehearsals."""

    def __init__(self, inner: StreamingQueryListener, hidden: set[str]) -> None:
        self._inner = inner
        self._hidden = hidden

    def _pass(self, event: Any, query_id: str, method: str) -> None:
        handler = getattr(self._inner, method, None)
        if str(query_id) not in self._hidden and handler is not None:
            handler(event)

    def onQueryStarted(self, event: Any) -> None:
        """Pass on."""
        self._pass(event, event.id, "onQueryStarted")

    def onQueryProgress(self, event: Any) -> None:
        """Pass on."""
        self._pass(event, event.progress.id, "onQueryProgress")

    def onQueryIdle(self, event: Any) -> None:
        """Pass on."""
        self._pass(event, event.id, "onQueryIdle")

    def onQueryTerminated(self, event: Any) -> None:
        """Pass on."""
        self._pass(event, event.id, "onQueryTerminated")


_ORIGINALS: dict[str, Callable[..., StreamingQuery]] = {}


def start_ungated(writer: DataStreamWriter) -> StreamingQuery:
    """Start a writer of our own (a rehearsal's) at once."""
    return _ORIGINALS["start"](writer)


def _note_start(writer: DataStreamWriter, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Apply what `start` or `toTable` was given to the recipe now: a standby needs it long before Spark's start."""
    names = ("path" if method == "start" else "tableName", "format", "outputMode", "partitionBy", "queryName")
    given = {**dict(zip(names, args)), **kwargs}
    recipe = recipes.recipe_of(writer)
    recipe.target = str(given.pop(names[0], None) or recipe.target)
    if given.get("outputMode"):
        recipe.output_mode = str(given["outputMode"]).lower()
    if given.get("format"):
        recipe.format = str(given["format"]).lower()
    if given.get("queryName"):
        recipe.name = str(given["queryName"])
    options = {key.lower(): str(value) for key, value in given.items() if key not in names and value is not None}
    recipe.options.update(options)
