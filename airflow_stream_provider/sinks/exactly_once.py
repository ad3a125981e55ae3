"""A function for foreachBatch that writes each batch once, by the ledger in the sink's database."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from airflow_stream_provider import runtime
from airflow_stream_provider.checkpoint.logs import REWOUND
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.sinks.ledger import (
    Batch,
    Database,
    Ledger,
    Position,
    SinkError,
    SinkRefused,
    Target,
    Writer,
    is_kafka,
    is_to_be_written,
)

# A plain job ends with it when the ledger refuses a batch, as a driver of a stream does.
REFUSED_CODE = 50
# Leaves of a plan that say where a batch begins.
_V2_RELATION = "StreamingDataSourceV2ScanRelation"

# By the place and the name of a ledger, and the query's run: the last batch that a sink of this process was called in.
_called: dict[tuple[str, str, str], int] = {}
_called_lock = threading.Lock()

log = logging.getLogger(__name__)


def exactly_once(
    database: Database,
    table: str,
    key: str | Sequence[str] = (),
    *,
    delete: str = "",
    create: bool = False,
    stream: str = "",
    query: str = "",
    take_over: bool = False,
) -> ExactlyOnce:
    """Return a function for foreachBatch that writes each record of the stream into a table once.

    :param database: such as `postgres("orders_db")`.
    :param table: its name, with or without a schema.
    :param key: columns, or the one, with a unique index by which a row replaces the one before; default: rows are
        appended.
    :param delete: a boolean column of the batch that is true of a row that removes its key; it is not written.
    :param create: whether a missing table is created.
    :param stream: under which name the ledger keeps it; default: the stream's, or in a plain job the application's.
    :param query: the same of the query; default: the table.
    :param take_over: whether a plain job ends the session of another one that writes the same.
    """
    if not table:
        raise SinkError("The sink has no table.", next_step="Name one: exactly_once(postgres(...), table='orders').")
    columns = (key,) if isinstance(key, str) and key else tuple(key)
    return ExactlyOnce(database, Target(table, columns, delete, create), stream, query, take_over)


class ExactlyOnce:
    """See `exactly_once`. A batch is read by an action or two; one that is in the sink already is skipped.

    It is called once in a batch: a second call of the same ledger is refused, whatever rows it has.
    """

    # A rehearsal may call it: it then writes nothing but a staging table of its own.
    rehearses = True

    def __init__(self, database: Database, target: Target, stream: str, query: str, take_over: bool) -> None:
        self._database = database
        self._target = target
        self._stream = stream
        self._query = query
        self._take_over = take_over
        self._ledger: Ledger | None = None
        self._hold: runtime.Hold | None = None
        # Of several queries one at a time has the session.
        self._lock = threading.Lock()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch; called by foreachBatch.

        :raises SinkRefused: the ledger or the table does not take it. A plain job ends with exit code 50 instead.
        :raises SinkError: the database failed; nothing was written, and the same batch may be tried again.
        """
        try:
            with self._lock, self._once(frame, batch_id):
                if runtime.rehearsing():
                    self._rehearse(frame)
                else:
                    self._write(frame, batch_id)
        except SinkRefused as error:
            if runtime.managed is None:
                _end(error)
            raise

    def starting_offsets(self) -> dict[str, str]:
        """Return the options with which a Kafka source on a new checkpoint begins where the sink is; {}: it is empty.

        :raises SinkError: the rows are made of several sources, or of another kind.
        """
        spark = SparkSession.getActiveSession()
        if spark is None:
            raise SinkError("There is no SparkSession.", next_step="Make one first.")
        ledger = self._database.ledger(self._writer(spark.sparkContext, None), self._target)
        try:
            entry = ledger.known()
        finally:
            ledger.close()
        if entry is None or not entry.query_id:
            return {}
        if len(entry.offsets) != 1 or not is_kafka(entry.offsets[0]):
            raise SinkError(
                f"The rows of {entry.name} are not made of one Kafka source.",
                next_step="Set where each source begins by hand; the table stream_ledger says where the rows end.",
            )
        return {"startingOffsets": json.dumps(entry.offsets[0])}

    @contextlib.contextmanager
    def _once(self, frame: DataFrame, batch_id: int) -> Iterator[None]:
        """Refuse a second call in one batch: the ledger has the batch by then, and its rows would be skipped.

        A call that fails is none: the script may catch its error, and try again.
        """
        writer, run = self._writer(frame.sparkSession.sparkContext, None), str(execution_of(frame).runId())
        call = self._database.place(self._target), writer.name, run
        with _called_lock:
            if _called.get(call) == batch_id:
                raise SinkRefused(
                    f"The sink of {writer.name} is called twice in batch {batch_id}: rows of the second call would not "
                    "be written.",
                    next_step="Union the frames and call it once; or give each sink a query= and a table of its own.",
                )
            _called[call] = batch_id
        try:
            yield
        except BaseException:
            with _called_lock:
                _called.pop(call, None)
            raise

    def _write(self, frame: DataFrame, batch_id: int) -> None:
        ledger = self._claimed(frame)
        batch, entry = batch_of(frame, batch_id), ledger.entry()
        if not is_to_be_written(entry, ledger.id, batch):
            log.info("Batch %s of %s is in the sink already: it is skipped.", batch_id, entry.name)
            return
        rows = ledger.write(frame, batch)
        log.info("Batch %s of %s: %s rows.", batch_id, entry.name, rows)

    def _claimed(self, frame: DataFrame) -> Ledger:
        """Return the ledger, which this driver has claimed in this hold."""
        hold = self._current_hold()
        if self._ledger is not None and self._hold == hold:
            return self._ledger
        if self._ledger is not None:
            self._ledger.close()
        ledger = self._database.ledger(self._writer(frame.sparkSession.sparkContext, hold), self._target)
        ledger.claim()
        self._ledger, self._hold = ledger, hold
        log.info("This driver has claimed the ledger of its sink with epoch %s.", ledger.epoch)
        return ledger

    def _current_hold(self) -> runtime.Hold | None:
        if runtime.managed is None:
            return None
        hold = runtime.managed.hold()
        if hold is None:
            raise SinkError(
                "This driver does not hold its stream now: it writes nothing.",
                next_step="Nothing: the driver that holds the stream runs the batch.",
            )
        return hold

    def _writer(self, context: SparkContext, hold: runtime.Hold | None) -> Writer:
        """Return who writes: this driver in its hold, or a plain job."""
        stream = self._stream or (str(context.appName) if runtime.managed is None else runtime.managed.stream)
        query = self._query or self._target.table
        if hold is not None:
            return Writer(stream, query, hold.incarnation, hold.control, hold.epoch, lease_seconds=hold.lease_seconds)
        holder = f"{context.applicationId} on {socket.gethostname()}"
        return Writer(stream, query, holder, take_over=self._take_over)

    def _rehearse(self, frame: DataFrame) -> None:
        ledger = self._database.ledger(Writer("", "", "a rehearsal"), self._target)
        try:
            ledger.rehearse(frame)
        finally:
            ledger.close()


def _end(error: StreamError) -> NoReturn:
    """End the process of a plain job: Spark would only end the query, and a script may start it again for ever."""
    print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    os._exit(REFUSED_CODE)


def query_id_of(frame: DataFrame) -> str:
    """Return the id of the query of a batch.

    :raises SinkError: it is no batch of a running query.
    """
    found = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not found:
        raise SinkError(
            "There is no running query in this thread.",
            next_step="Give the sink to foreachBatch itself, or call it in the thread that foreachBatch calls.",
        )
    return str(found)


def execution_of(frame: DataFrame) -> Any:
    """Return Spark's execution of the query of a batch."""
    query_id = query_id_of(frame)
    jvm: Any = frame.sparkSession._jvm
    # The script may have started the query in another session than that of the batch.
    active = frame._jdf.sparkSession().sharedState().activeStreamingQueries()
    execution = active.get(jvm.java.util.UUID.fromString(query_id))
    if execution is None:
        raise SinkError(f"Spark does not know the query {query_id} any more.", next_step="See why it has ended.")
    return execution


def batch_of(frame: DataFrame, batch_id: int) -> Batch:
    """Return the batch that a function of foreachBatch got, with its offsets.

    Sources of the newer kind, such as Kafka, say where it begins; for others that is where the batch before ended, and
    unknown for the first one.
    """
    execution = execution_of(frame)
    ends = _logged(execution, batch_id)
    begins = _planned(execution, ends) or (_logged(execution, batch_id - 1) if batch_id > 0 else [])
    return Batch(query_id_of(frame), batch_id, begins or [None] * len(ends), ends, _rewound(execution, batch_id))


def _rewound(execution: Any, batch_id: int) -> str:
    """The mark of a rewind in the batch before; empty: it has none."""
    before = execution.offsetLog().get(batch_id - 1)
    if not (before.isDefined() and before.get().metadata().isDefined()):
        return ""
    mark = before.get().metadata().get().conf().get(REWOUND)
    return str(mark.get()) if mark.isDefined() else ""


def _logged(execution: Any, batch_id: int) -> list[Position]:
    """The ends of a batch as Spark's offset log has them."""
    found = execution.offsetLog().get(batch_id)
    if not found.isDefined():
        return []
    offsets = found.get().offsets()
    each = (offsets.apply(number) for number in range(offsets.size()))
    return [_position(offset.get()) if offset.isDefined() else None for offset in each]


def _planned(execution: Any, ends: list[Position]) -> list[Position]:
    """The beginnings that the plan of the batch names; empty where not every source does."""
    leaves = execution.lastExecution().logical().collectLeaves()
    relations = [leaves.apply(number) for number in range(leaves.size())]
    found: list[tuple[Position, Position]] = []
    for relation in relations:
        if relation.getClass().getSimpleName() == _V2_RELATION:
            start, end = relation.startOffset(), relation.endOffset()
            ranges = (_position(start.get()) if start.isDefined() else None, _position(end.get()))
            if ranges not in found:  # a source may be read in several places of the plan
                found.append(ranges)
    # In the order of the log.
    begins = []
    for end in ends:
        matches = [each for each in found if each[1] == end]
        if not matches:
            return []
        begins.append(matches[0][0])
        if len(matches) > 1:
            found.remove(matches[0])
    return begins


def _position(offset: Any) -> Position:
    return json.loads(offset.json())
