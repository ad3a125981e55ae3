"""The query as a script sees it: the object that it gets from `start()`, and the events for its listeners."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from datetime import datetime, timezone
from functools import partial
from typing import Any, Protocol, TypeVar

from pyspark.sql.streaming.listener import QueryIdleEvent, StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from airflow_stream_provider.checkpoint.location import locate, qualified
from airflow_stream_provider.checkpoint.read import query_id
from airflow_stream_provider.control.bounded import start
from airflow_stream_provider.lifecycle.errors import CheckpointError, StreamError
from airflow_stream_provider.lifecycle.kafka_source import KafkaIds
from airflow_stream_provider.runtime import writer_spec as writer_specs
from airflow_stream_provider.runtime.spark_progress import SeenProgress
from airflow_stream_provider.runtime.writer_spec import WriterSpec

T = TypeVar("T")


class Observer(Protocol):
    """The gate, which imports this module."""

    @property
    def holds(self) -> bool:
        """Whether this driver holds the stream."""

    def script_waits(self) -> None:
        """This thread of the script waits for a query."""

    def query_ended(self, query: ManagedQuery) -> None:
        """A query has ended for good."""


def _id_in(checkpoint: str) -> str | None:
    try:
        return query_id(locate(checkpoint))
    except (CheckpointError, OSError):
        return None  # whether the checkpoint can be used is judged when it is rehearsed


class ManagedQuery(StreamingQuery):
    """A query that can be started, stopped for a hand-over and started again in one driver.

    The script sees one query that is active from `start()` to the deployment's end, and its progress goes on over all
    runs. `real` is the last query that Spark started for it in this hold; None before.
    """

    def __init__(self, gate: Observer, writer: DataStreamWriter, start: Callable[[], StreamingQuery]) -> None:
        self._gate = gate
        self._start = start
        self.writer = writer
        self.writer_spec: WriterSpec = writer_specs.writer_spec_of(writer)
        # In the form that readers of a record understand.
        self.checkpoint = qualified(writer_specs.checkpoint_of(writer))
        self.label = self.writer_spec.name or self.checkpoint.rstrip("/").rpartition("/")[2]
        self.real: StreamingQuery | None = None
        # When that was first started in this driver, seconds since 1970.
        self.begun_at: float | None = None
        # Whether the script started it so long after the one before that it had seemed to have started all.
        self.late = False
        # By the addresses of a Kafka source, Kafka's last answer: the cluster's id, and its topics'.
        self.kafka_ids: dict[tuple[str, ...], KafkaIds] = {}
        # The last one is Spark's as soon as that is known; the script may have seen the one before.
        self._ids = [_id_in(self.checkpoint) or str(uuid.uuid4())]
        self._run_id = str(uuid.uuid4())
        self._progress = SeenProgress()
        # Held while Spark's query is started, or told to stop: none may run that is over, since nothing would stop it.
        # A signal handler may stop a query that its own thread is just stopping.
        self._changing = threading.RLock()
        self._stopping = False
        self._begun = threading.Event()
        self._over = threading.Event()
        self._error: Exception | None = None

    # -- for the agent ---------------------------------------------------------------------------------------------

    def start_real(self) -> None:
        """Start Spark's query on the real checkpoint, unless the script has ended the query meanwhile."""
        with self._changing:
            if self.over or self._stopping:
                return
            if self.real is not None:
                self._progress.keep(self.real)
            self.real = self._start()
            self.begun_at = self.begun_at or time.time()
            self._run_id = self.real.runId
            self._ids += {self.real.id}.difference(self._ids)
            self._begun.set()

    def forget_run(self) -> None:
        """Forget the run, which is over: another driver has gone on since, or may have."""
        if self.real is not None:
            self._progress.keep(self.real)
            self.real = None

    def follow(self, body: Mapping[str, Any]) -> None:
        """Let the script see how far the query is in the driver that holds now; see `SeenProgress.follow`.

        :param body: Spark's progress there, as JSON.
        """
        self.forget_run()
        self._progress.follow(body)

    def end(self, error: Exception | None = None) -> None:
        """End the query for good: the script's waits return, or raise the error."""
        self._error = error
        self._over.set()
        self._begun.set()
        self._gate.query_ended(self)

    @property
    def over(self) -> bool:
        """Whether the query has ended for good."""
        return self._over.is_set()

    @property
    def has_got_on(self) -> bool:
        """Whether its present run has committed a batch, or has found that there is nothing to do."""
        real = self.real
        return real is not None and real._jsq.lastProgress() is not None

    @property
    def context_stopped(self) -> bool:
        """Whether the SparkContext was stopped in which the query is built: it cannot run in this driver any more."""
        return bool(self.writer._spark._jsparkSession.sparkContext().isStopped())

    # -- for the script --------------------------------------------------------------------------------------------

    @property
    def _jsq(self) -> Any:
        real = self.real  # the agent may forget the run of an earlier epoch meanwhile
        if real is None:
            raise AttributeError("the query is not started: this driver is a standby")
        return real._jsq

    @_jsq.setter
    def _jsq(self, value: Any) -> None:
        raise AttributeError("set by Spark only")

    @property
    def id(self) -> str:
        """Spark's id of the query, which is in its checkpoint; a random one until that has been made."""
        return self._ids[-1]

    def goes_by(self, query_id: str) -> bool:
        """Whether the query has this id, or had it for the script before it first started."""
        return query_id in self._ids

    @property
    def runId(self) -> str:
        """Spark's id of the last run in this driver; a random one until it first starts."""
        return self._run_id

    @property
    def name(self) -> str:
        """The name that the script gave the query; empty when it gave none."""
        return self.writer_spec.name

    @property
    def isActive(self) -> bool:
        """Whether the query has not ended for good; True on a standby and after a release."""
        return not self.over

    @property
    def status(self) -> dict[str, Any]:
        """Spark's status of the query; on a standby, and after a release, that it waits to hold the stream."""
        real = self.real
        if real and (self._gate.holds or real.isActive):
            return real.status
        return {"message": "Waiting to hold the stream", "isDataAvailable": False, "isTriggerActive": False}

    @property
    def lastProgress(self) -> Any:
        """Spark's last progress; after a release, the holder's. None while nothing has run here."""
        return self._progress.last(self.real)

    @property
    def recentProgress(self) -> Any:
        """Spark's recent progress, over all runs as `lastProgress`; empty while nothing has run here."""
        return self._progress.recent(self.real)

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """Wait until the query ends for good, up to `timeout` seconds; raise the error that ended it.

        The seconds count from the query's first start in this driver: time as a standby does not count, or a script
        that runs its query for ten minutes would do so without ever having held the stream. 0 is a look, not a wait.
        """
        if timeout != 0:
            self._gate.script_waits()
            self._begun.wait()
        self._over.wait(timeout)
        if self.over and self._error is not None:
            raise self._error
        return None if timeout is None else self.over

    def processAllAvailable(self) -> None:
        """Wait until Spark has processed all data that is there now; a standby waits to hold the stream first."""
        self._gate.script_waits()
        self._begun.wait()
        real = self.real
        if real is not None:
            real.processAllAvailable()

    def stop(self) -> None:
        """End the query for good, at the script's request; a start that is under way is waited for and stopped."""
        with self._changing:
            self._stopping = True
            real = self.real
        # Without the lock: Spark waits for the batch, whose function may just be stopping the query, too.
        try:
            if real is not None:
                real.stop()
        except Exception:
            self._stopping = False
            raise
        self.end()

    def exception(self) -> Any:
        """Return the error that ended the query for good; None while it is active, or when it ended without one."""
        return self._error

    def explain(self, extended: bool = False) -> None:
        """Print the plan of the present run; nothing on a standby."""
        real = self.real
        if real is not None:
            real.explain(extended)


def side_by_side(work: Callable[[ManagedQuery], T], queries: Sequence[ManagedQuery]) -> list[T]:
    """Do the work for all queries at the same time.

    :raises StreamError: the work failed for some query; the error of the first such query, raised when all are done.
    """
    calls = [start(partial(work, query), query.label) for query in queries]
    wait(calls)  # the caller must not go on while some of the work is under way
    for query, call in zip(queries, calls):
        error = call.exception()
        if isinstance(error, StreamError):
            raise error
        if error is not None:
            raise StreamError(
                f"The query {query.label} failed: {str(error) or type(error).__name__}",
                next_step="Correct what the error names in the script, its sources or its sink. The driver's log has "
                "the whole stack trace.",
            ) from error
    return [call.result() for call in calls]


# As often as Spark tells of a query without new data (spark.sql.streaming.noDataProgressEventInterval).
IDLE_SECONDS = 10.0

log = logging.getLogger(__name__)


class RealRunsOnly(StreamingQueryListener):
    """Passes the events of real queries on to the script's listener.

    It hears nothing of rehearsals, nor that a run has ended which the runtime itself has stopped: the query goes on,
    here after a take-back or in another driver. A listener that ends its process at that would end the stream.

    :param hidden: the ids of rehearsals' queries; it grows.
    :param stopped: the ids of runs that the runtime has stopped; it grows.
    """

    def __init__(self, inner: StreamingQueryListener, hidden: set[str], stopped: set[str]) -> None:
        self._inner = inner
        self._hidden = hidden
        self._stopped = stopped

    def _pass(self, event: Any, query_id: str, method: str) -> None:
        handler = getattr(self._inner, method, None)
        if str(query_id) not in self._hidden and handler is not None:
            handler(event)

    def onQueryStarted(self, event: Any) -> None:
        """Tell the script's listener that a real query started."""
        self._pass(event, event.id, "onQueryStarted")

    def onQueryProgress(self, event: Any) -> None:
        """Give the script's listener the progress of a real query."""
        self._pass(event, event.progress.id, "onQueryProgress")

    def onQueryIdle(self, event: Any) -> None:
        """Tell the script's listener that a real query found no new data."""
        self._pass(event, event.id, "onQueryIdle")

    def onQueryTerminated(self, event: Any) -> None:
        """Tell the script's listener that a real query ended: it failed, is done, or the script stopped it."""
        if str(event.runId) not in self._stopped:
            self._pass(event, event.id, "onQueryTerminated")


def say_idle(queries: Sequence[StreamingQuery], listeners: Sequence[RealRunsOnly]) -> None:
    """Tell each listener of the script that these queries, which do not run here, are idle: this driver is a standby.

    A watchdog in the script that waits for any event would otherwise end a healthy standby. An error of a listener is
    logged, as Spark does.
    """
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    for query in queries:
        event = QueryIdleEvent(uuid.UUID(query.id), uuid.UUID(query.runId), now)
        for listener in listeners:
            try:
                listener.onQueryIdle(event)
            except Exception:
                log.exception("A listener of the script failed")
