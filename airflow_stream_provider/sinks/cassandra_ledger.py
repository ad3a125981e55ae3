"""The ledger of one query in Cassandra: a row that is changed by lightweight transactions, as it was read.

Cassandra has no transaction for rows and ledger, so rows are written first, with a write time that only this try of the
batch has: its `stamp`. It grows with each change of the ledger, so the rows of the driver that claims the ledger later
win.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_stream_provider.sinks.cassandra_table import check_table, quoted
from airflow_stream_provider.sinks.ledger import (
    AnotherWriter,
    Batch,
    Entry,
    SinkError,
    SinkRefused,
    Target,
    Writer,
    fenced,
)

# Entries of the history that are kept of each query.
HISTORY = 1000
# Without a sign of life for so long a writer counts as gone; how often it gives one, and how often others look for it.
LEASE_SECONDS = 30
RENEW_SECONDS = 5.0
LOOK_SECONDS = 0.5
# So long an answer that was lost is looked for.
PATIENCE_SECONDS = 30.0
# Slot 0 is the ledger; slots 1 to HISTORY are its last batches, each in the place of an old one: nothing is deleted.
_DDL = """
create table if not exists {} (
  stream text, query text, slot int, epoch bigint, writer text, holder text, control text, hold bigint, alive int,
  stamp bigint, batches bigint, query_id text, batch_id bigint, begins text, offsets text, rows bigint,
  claimed_at timestamp, written_at timestamp, primary key ((stream, query), slot))
"""
_ROW = "where stream = :stream and query = :query and slot = 0"
_READ = f"""select epoch, writer, holder, control, hold, alive, stamp, batches, query_id, batch_id, offsets, claimed_at
  from {{}} {_ROW}"""
_ALIVE = f"update {{}} using ttl {LEASE_SECONDS} set alive = 0 {_ROW}"
_FIRST = f"""begin batch
  insert into {{}} (stream, query, slot, epoch, writer, holder, control, hold, stamp, batches, claimed_at)
  values (:stream, :query, 0, 1, :writer, :holder, :control, :hold, :next, 0, totimestamp(now())) if not exists;
  {_ALIVE}; apply batch"""
_CLAIM = f"""begin batch
  update {{}} set epoch = :epoch, writer = :writer, holder = :holder, control = :control, hold = :hold, stamp = :next,
  claimed_at = totimestamp(now()) {_ROW} if writer = :was and stamp = :stamp;
  {_ALIVE}; apply batch"""
_MINE = "if writer = :writer and epoch = :epoch and stamp = :stamp"
_BEGIN = f"update {{}} set stamp = :next {_ROW} {_MINE}"
_COMMIT = f"""begin batch
  update {{}} set query_id = :query_id, batch_id = :batch_id, begins = :begins, offsets = :ends, rows = :rows,
  batches = :batches, stamp = :next, written_at = totimestamp(now()) {_ROW} {_MINE};
  insert into {{}} (stream, query, slot, epoch, writer, holder, stamp, batches, query_id, batch_id, begins, offsets,
  rows, written_at) values (:stream, :query, :slot, :epoch, :writer, :holder, :stamp, :batches, :query_id, :batch_id,
  :begins, :ends, :rows, totimestamp(now())); apply batch"""
_RENEW = f"update {{}} using ttl {LEASE_SECONDS} set alive = :alive {_ROW} if writer = :writer"
_LEAVE = f"update {{}} set alive = null {_ROW} if writer = :writer"


class CassandraLedger:
    """One writer of one query, with its session: `claim` comes before `write`."""

    def __init__(self, database: Any, writer: Writer, target: Target) -> None:
        self._database = database
        self._writer = writer
        self._target = target
        self._id = str(uuid.uuid4())
        self._table = f"{quoted(database.keyspace)}.stream_ledger"
        # Names and types of the last batch, and the table's types for them.
        self._given: Sequence[Any] = ()
        self._types: Mapping[str, str] = {}
        self._session: Any = None
        self._prepared: dict[str, Any] = {}
        self._left = threading.Event()
        self._alive: threading.Thread | None = None
        # As the row had them when this driver read or changed it last.
        self._stamp = self._batches = 0
        # The highest stamp that it has asked for: a request may come late.
        self._asked = 0
        self.epoch = 0

    @property
    def id(self) -> str:
        """The id of this claim."""
        return self._id

    def close(self) -> None:
        """End the session; the claim stays, and the next driver need not wait for a sign of life."""
        atexit.unregister(self.close)
        self._left.set()
        if self._session is None:
            return
        if self._alive is not None:
            self._alive.join()
            with contextlib.suppress(SinkError):
                self._run(_LEAVE, {"writer": self._id})
        self._session.cluster.shutdown()
        self._session, self._prepared = None, {}

    def known(self) -> Entry | None:
        """Return the row, without a claim; None: there is none."""
        row = self._read() if self._is_made() else None
        return None if row is None else self._entry_of(row)

    def entry(self) -> Entry:
        """Return the row as it is now."""
        return self._entry_of(self._found())

    def write(self, frame: DataFrame, batch: Batch) -> int:
        """Write the rows of a batch, then its offsets; return the number of rows.

        :raises SinkRefused: rows do not fit the table, or another driver has claimed the ledger.
        :raises SinkError: the database failed; the ledger does not have the batch, and its rows are written again.
        """
        self._prepare(frame.schema)
        # Before the first row: a driver that claims the ledger from here on gets a later stamp than these rows.
        self._change(_BEGIN, {})
        rows: int = self._database.upsert(frame, self._target, self._types, self._stamp)
        batches = self._batches + 1
        values = {"query_id": batch.query_id, "batch_id": batch.batch_id, "rows": rows, "holder": self._writer.holder}
        values |= {"begins": json.dumps(batch.begins), "ends": json.dumps(batch.ends)}
        self._change(_COMMIT, {**values, "batches": batches, "slot": (batches - 1) % HISTORY + 1})
        self._batches = batches
        return rows

    def rehearse(self, frame: DataFrame) -> None:
        """Check table and rows without writing.

        :raises SinkRefused: they do not fit.
        """
        self._prepare(frame.schema, rehearsing=True)
        self._database.check(frame, self._target, self._types)

    # -- claiming ---------------------------------------------------------------------------------------------------

    def claim(self) -> None:
        """Become the one that may write: the ledger refuses the driver that has claimed it before.

        :raises SinkRefused: another driver writes, or one that held the stream later has claimed it.
        """
        writer = self._writer
        if not self._is_made():
            self._simple(_DDL.format(self._table))
        values = {"holder": writer.holder, "control": writer.control, "hold": writer.hold}
        claimed = False
        while not claimed:
            row = self._read()
            if row is None:
                epoch, claimed = 1, self._set(_FIRST, values, 0)
                continue
            if row.writer == self._id:  # by a request whose answer came late
                epoch = row.epoch
                break
            if writer.held_before(row.control, row.hold):
                raise fenced(self._entry_of(row))
            if not writer.control and not writer.take_over:
                self._watch(row)
            epoch = row.epoch + 1
            was = {"epoch": epoch, "was": row.writer, "stamp": row.stamp}
            claimed = self._set(_CLAIM, {**values, **was}, row.stamp)
            self._batches = row.batches
        self.epoch = epoch
        self._alive = threading.Thread(target=self._renew, name="stream sink: alive", daemon=True)
        self._alive.start()
        if not writer.control:
            # The next run of a plain job need not wait.
            atexit.register(self.close)

    def _watch(self, row: Any) -> None:
        """Wait until a writer gives a sign of life, or has given none for so long that it is gone.

        :raises AnotherWriter: it lives.
        """
        now = row
        while now is not None and now.alive is not None:
            if (now.writer, now.alive) != (row.writer, row.alive):
                raise AnotherWriter(
                    f"{now.holder} writes {self._writer.name} since {now.claimed_at:%Y-%m-%d %H:%M:%S}.",
                    next_step="Stop it first; this one then goes on where it has ended. If it hangs, start this one "
                    "with take_over=True: the ledger then refuses it.",
                    holder=now.holder,
                )
            time.sleep(LOOK_SECONDS)
            now = self._read()

    def _renew(self) -> None:
        """Give signs of life, until this driver leaves or another one has claimed the ledger."""
        alive, applied = 0, True
        while applied and not self._left.wait(RENEW_SECONDS):
            alive += 1
            with contextlib.suppress(SinkError):
                applied = self._run(_RENEW, {"alive": alive, "writer": self._id}).one().applied

    # -- the row ----------------------------------------------------------------------------------------------------

    def _change(self, statement: str, values: Mapping[str, Any]) -> None:
        """Change the row as it was read; its stamp grows."""
        given = {**values, "epoch": self.epoch, "stamp": self._stamp}
        if not self._set(statement, given, self._stamp):
            now = self._found()
            if now.writer != self._id:
                raise fenced(self._entry_of(now))
            raise SinkError(
                f"The ledger of {self._writer.name} has moved: a change whose answer was lost came late.",
                next_step="Nothing: the query tries again, and finds what the ledger has.",
            )

    def _set(self, statement: str, values: Mapping[str, Any], before: int) -> bool:
        """Return whether the row is now as this driver wants it, by this request or by one whose answer was lost.

        :param before: the stamp that the row has. The next one is the time in microseconds where that is later, so that
            rows are later than what others wrote before.
        """
        stamp = self._asked = max(before + 1, self._asked + 1, time.time_ns() // 1000)
        failure = None
        try:
            if self._run(statement, {**values, "writer": self._id, "next": stamp}).one().applied:
                self._stamp = stamp
                return True
        except SinkRefused:
            raise
        except SinkError as error:
            failure = error
        # No other driver has this id, and no other change this stamp. The read ends what replicas have begun.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                now = self._read()
                break
            except SinkError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_SECONDS)
        if now is not None and (now.writer, now.stamp) == (self._id, stamp):
            return True
        if failure is not None:
            raise failure
        return False

    def _read(self) -> Any:
        row = self._run(_READ, {}).one()
        if row is not None and row.writer == self._id:
            self._stamp, self._batches = row.stamp, row.batches
        return row

    def _found(self) -> Any:
        row = self._read()
        if row is None:
            raise SinkRefused(
                f"The ledger of {self._writer.name} is gone from the keyspace of {self._database.name}.",
                next_step="Restore the table stream_ledger. Without it nobody knows what the sink holds.",
            )
        return row

    def _entry_of(self, row: Any) -> Entry:
        of = (self._writer.stream, self._writer.query, row.epoch, row.writer, row.holder)
        if not row.query_id:
            return Entry(*of)
        return Entry(*of, row.query_id, row.batch_id, json.loads(row.offsets))

    # -- statements --------------------------------------------------------------------------------------------------

    def _is_made(self) -> bool:
        found = "select table_name from system_schema.tables where keyspace_name = %s and table_name = 'stream_ledger'"
        return self._simple(found, (self._database.keyspace,)).one() is not None

    def _prepare(self, schema: StructType, *, rehearsing: bool = False) -> None:
        """Check the table, once for each schema of the batches."""
        given = [(field.name, field.dataType) for field in schema.fields]
        if given != self._given:
            with self._working() as session:
                place = self._database.keyspace, self._target
                self._types = check_table(session, *place, schema, rehearsing=rehearsing)
            self._given = given

    def _simple(self, statement: str, values: Sequence[Any] = ()) -> Any:
        with self._working() as session:
            return session.execute(statement, values)

    def _run(self, statement: str, values: Mapping[str, Any]) -> Any:
        with self._working() as session:
            if statement not in self._prepared:
                from cassandra import ConsistencyLevel

                made = session.prepare(statement.replace("{}", self._table))
                if statement == _READ:
                    made.consistency_level = ConsistencyLevel.SERIAL
                self._prepared[statement] = made
            key = {"stream": self._writer.stream, "query": self._writer.query}
            return session.execute(self._prepared[statement], {**key, **values})

    @contextlib.contextmanager
    def _working(self) -> Any:
        """Yield the session; say what the database refuses without its own words where they may name what is secret."""
        session = self._session = self._session or self._database.connect()
        from cassandra import DriverException, RequestValidationException
        from cassandra.cluster import NoHostAvailable
        from cassandra.connection import ConnectionException
        from cassandra.protocol import ConfigurationException, ErrorMessage

        try:
            yield session
        except (RequestValidationException, ConfigurationException) as error:
            raise SinkRefused(
                f"The database {self._database.name} refuses what the sink asks: {said_by(error)}.",
                next_step="See that the table stream_ledger is as this release makes it, and that the user may read "
                "and change it and the sink's table.",
            ) from None
        except (DriverException, NoHostAvailable, ConnectionException, ErrorMessage, OSError) as error:
            # Its text may name addresses.
            raise SinkError(
                f"The database {self._database.name} failed ({type(error).__name__}).",
                next_step="See its log. The query tries again.",
            ) from None


def said_by(error: Exception) -> str:
    """Return the first sentence of Cassandra about a request that it refuses, without the user's name."""
    said = str(error).partition('message="')[2].strip('"') or type(error).__name__
    return f"{said.partition(' has no ')[2] or said:.300}"
