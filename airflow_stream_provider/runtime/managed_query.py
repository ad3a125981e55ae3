"""The query object that a script gets from `start()`."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from functools import partial
from typing import Any, Protocol, TypeVar

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
    """The observer of script and query; the gate in a driver."""

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

    def __init__(self, observer: Observer, writer: DataStreamWriter, start: Callable[[], StreamingQuery]) -> None:
        self._observer = observer
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
        self._observer.query_ended(self)

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
        if real and (self._observer.holds or real.isActive):
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
            self._observer.script_waits()
            self._begun.wait()
        self._over.wait(timeout)
        if self.over and self._error is not None:
            raise self._error
        return None if timeout is None else self.over

    def processAllAvailable(self) -> None:
        """Wait until Spark has processed all data that is there now; a standby waits to hold the stream first."""
        self._observer.script_waits()
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
