"""The ledger of one query in PostgreSQL: claim it, and write a batch in one transaction."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_stream_provider.sinks.ledger import (
    AnotherWriter,
    BadRows,
    Batch,
    Entry,
    SinkError,
    SinkRefused,
    fenced,
)
from airflow_stream_provider.sinks.postgres import Postgres, as_lines
from airflow_stream_provider.sinks.postgres_table import (
    ATTEMPT,
    MARK,
    Target,
    check_keys,
    check_table,
    make_staging,
    merge,
    statement,
)

# Entries of the history that are kept of each query.
HISTORY = 1000
# So long a claim waits for the sessions to end that it has ended.
PATIENCE_SECONDS = 30.0
_DDL = """
create table if not exists stream_ledger (
  stream text not null, query text not null, epoch bigint not null, writer uuid not null, holder text not null,
  control text not null, hold bigint not null,
  query_id text not null default '', batch_id bigint not null default -1, offsets jsonb not null default '[]',
  rows bigint not null default 0, claimed_at timestamptz not null default now(), written_at timestamptz,
  primary key (stream, query));
create table if not exists stream_ledger_history (
  stream text not null, query text not null, seq bigserial, epoch bigint not null, holder text not null,
  query_id text not null, batch_id bigint not null, begins jsonb not null, ends jsonb not null, rows bigint not null,
  written_at timestamptz not null default now(), primary key (stream, query, seq))
"""


@dataclass(frozen=True)
class Writer:
    """A driver that writes a query.

    :param stream: name of the stream.
    :param query: name of the query.
    :param holder: who it is, for people.
    :param control: id of the control log by which it holds; empty: it is a plain job.
    :param hold: its epoch there.
    :param take_over: whether it ends the session of another writer.
    :param lease_seconds: a session that is idle in a transaction for so long is ended by the server.
    """

    stream: str
    query: str
    holder: str
    control: str = ""
    hold: int = 0
    take_over: bool = False
    lease_seconds: float = 60.0

    @property
    def name(self) -> str:
        """Stream and query."""
        return f"{self.stream}/{self.query}"


class PostgresLedger:
    """One writer of one query, with its session: `claim` comes before `write`."""

    def __init__(self, database: Postgres, writer: Writer, target: Target) -> None:
        self._database = database
        self._writer = writer
        self._target = target
        self._id = str(uuid.uuid4())
        # Names and types of the last batch, and the columns and the name of the staging table for them.
        self._given: Sequence[Any] = ()
        self._columns: Sequence[str] = ()
        self._staging = ""
        self._connection: Any = None
        self.epoch = 0

    @property
    def id(self) -> str:
        """The id of this claim."""
        return self._id

    def close(self) -> None:
        """End the session; the claim stays."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def known(self) -> Entry | None:
        """Return the row, without a claim; None: there is none."""
        with self._working():
            made = self._one("select to_regclass('stream_ledger')")[0]
            return self._find() if made else None

    def entry(self) -> Entry:
        """Return the row as it is now."""
        with self._working():
            return self._entry()

    def write(self, frame: DataFrame, batch: Batch) -> int:
        """Write a batch and its offsets in one transaction; return the number of rows.

        :raises SinkRefused: rows do not fit the table, or another driver has claimed the ledger.
        :raises SinkError: the database failed; nothing was written.
        """
        with self._working():
            self._prepare(frame.schema)
        mark = str(uuid.uuid4())
        tasks = self._copy(frame, self._staging, mark)
        try:
            with self._working(), self._connection.transaction():
                return self._merge(batch, mark, tasks)
        except SinkRefused:
            raise
        except SinkError:
            # Whether it was committed is not known: the row says it.
            now = self.entry()
            if (now.writer, now.query_id, now.batch_id) == (self._id, batch.query_id, batch.batch_id):
                return sum(rows for _, rows in tasks)
            raise

    def rehearse(self, frame: DataFrame) -> None:
        """Check table and rows without writing: they are copied into a staging table of their own.

        :raises SinkRefused: they do not fit.
        """
        staging, mark = f"stream_rehearsal_{uuid.uuid4().hex}", str(uuid.uuid4())
        with self._working():
            self._columns = check_table(self._connection, self._target, frame.schema)
            make_staging(self._connection, self._target, self._columns, staging)
        try:
            tasks = self._copy(frame, staging, mark)
            with self._working():
                check_keys(self._connection, self._target, staging, (mark, [attempt for attempt, _ in tasks]))
        finally:
            self._connection.execute(statement("drop table if exists {}", staging))

    # -- claiming ---------------------------------------------------------------------------------------------------

    def _reach(self) -> None:
        writer = self._writer
        self._connection = self._database.connect(f"stream sink: {writer.name}, {writer.holder}", writer.lease_seconds)

    def claim(self) -> None:
        """Become the one that may write: the ledger refuses the driver that has claimed it before.

        :raises SinkRefused: another driver writes, or one that held the stream later has claimed it.
        """
        writer = self._writer
        with self._working():
            self._make_tables()
            if writer.control and self._is_older():
                raise fenced(self._entry())
            self._lock()
            found = self._one(
                "insert into stream_ledger (stream, query, epoch, writer, holder, control, hold) "
                "values (%s, %s, 1, %s, %s, %s, %s) on conflict (stream, query) do update set "
                "epoch = stream_ledger.epoch + 1, writer = excluded.writer, holder = excluded.holder, "
                "control = excluded.control, hold = excluded.hold, claimed_at = now() "
                "where stream_ledger.control <> excluded.control or stream_ledger.hold <= excluded.hold "
                "returning epoch",
                (writer.stream, writer.query, self._id, writer.holder, writer.control, writer.hold),
            )
            if found is None:
                raise fenced(self._entry())
            self.epoch = int(found[0])

    def _make_tables(self) -> None:
        if self._one("select to_regclass('stream_ledger'), to_regclass('stream_ledger_history')") == (None, None):
            with self._connection.transaction():
                # One of two drivers that create them at once waits.
                self._connection.execute("select pg_advisory_xact_lock(%s)", (_number("stream_ledger"),))
                self._connection.execute(_DDL)

    def _is_older(self) -> bool:
        """Whether this driver held before the one that has claimed the ledger."""
        return bool(
            self._one(
                "select 1 from stream_ledger where stream = %s and query = %s and control = %s and hold > %s",
                (self._writer.stream, self._writer.query, self._writer.control, self._writer.hold),
            )
        )

    def _come_back(self) -> None:
        """Take the lock again in a new session, unless another driver has claimed the ledger, or is about to."""
        now = self._entry()
        if now.writer != self._id:
            raise fenced(now)
        if not self._try_lock():
            self.close()
            raise SinkError(
                f"Another session writes {self._writer.name}, or this driver's last one has not ended yet.",
                next_step="Nothing: the query tries again, and then finds which it is.",
            )

    def _try_lock(self) -> bool:
        return bool(self._one("select pg_try_advisory_lock(%s)", (_number(self._writer.name),))[0])

    def _lock(self) -> None:
        """Take the lock that a living writer holds with its session."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._try_lock():
            other = self._one(
                "select a.pid, a.application_name, coalesce(host(a.client_addr), 'this machine'), a.backend_start "
                "from pg_locks l join pg_stat_activity a using (pid) where l.locktype = 'advisory' and l.granted "
                "and l.objsubid = 1 and (l.classid::bigint << 32 | l.objid::bigint) = %s",
                (_number(self._writer.name),),
            )
            if other is None:
                continue  # it has ended meanwhile
            if not self._writer.take_over and not self._writer.control:
                known = self._find()
                who = known.holder if known is not None else other[1]
                raise AnotherWriter(
                    f"{who} on {other[2]} writes {self._writer.name} since {other[3]:%Y-%m-%d %H:%M:%S}.",
                    next_step="Stop it first; this one then goes on where it has ended. If it hangs, start this one "
                    "with take_over=True: that ends its session, and what it has not committed is not written.",
                    holder=who,
                )
            self._connection.execute("select pg_terminate_backend(%s)", (other[0],))
            if time.monotonic() > deadline:
                raise SinkError(
                    f"The session of {other[1]} (process {other[0]} of the database) does not end.",
                    next_step="End it in the database: select pg_terminate_backend(...). The query tries again.",
                )
            time.sleep(0.05)

    # -- the staging table -------------------------------------------------------------------------------------------

    def _prepare(self, schema: StructType) -> None:
        """Check the table, and make the staging table, once for each schema of the batches."""
        import psycopg

        given = [(field.name, field.dataType) for field in schema.fields]
        if given == self._given:
            return
        self._columns = check_table(self._connection, self._target, schema)
        prefix = f"stream_staging_{hashlib.sha256(self._writer.name.encode()).hexdigest()[:16]}_"
        left = self._connection.execute(
            "select relname::text from pg_class where relkind = 'r' and pg_table_is_visible(oid) "
            "and starts_with(relname, %s)",
            (prefix,),
        ).fetchall()
        for (name,) in left:
            # Tasks of a driver before fail from here on; the table of a task that is frozen stays until the next claim.
            with contextlib.suppress(psycopg.errors.LockNotAvailable):
                self._connection.execute(statement("drop table if exists {}", name))
        self._staging = f"{prefix}{self.epoch}"
        make_staging(self._connection, self._target, self._columns, self._staging)
        self._given = given

    def _copy(self, frame: DataFrame, staging: str, mark: str) -> list[tuple[int, int]]:
        name = statement("{}", staging).as_string(self._connection)
        return self._database.copy(as_lines(frame, self._columns), name, mark)

    # -- the transaction ---------------------------------------------------------------------------------------------

    def _merge(self, batch: Batch, mark: str, tasks: Sequence[tuple[int, int]]) -> int:
        writer, rows = self._writer, sum(rows for _, rows in tasks)
        # First: it locks the row, so that no driver claims it before the end of this transaction.
        updated = self._connection.execute(
            "update stream_ledger set query_id = %s, batch_id = %s, offsets = %s, rows = %s, written_at = now() "
            "where stream = %s and query = %s and writer = %s",
            (batch.query_id, batch.batch_id, json.dumps(batch.ends), rows, writer.stream, writer.query, self._id),
        )
        if updated.rowcount != 1:
            raise fenced(self._entry())
        ours = (mark, [attempt for attempt, _ in tasks])
        chosen = statement("select count(*) from {} where {} = %s and {} = any(%s)", self._staging, MARK, ATTEMPT)
        found = self._one(chosen, ours)
        if found[0] != rows:
            raise SinkError(
                f"The staging table of {writer.name} has {found[0]} rows of batch {batch.batch_id}, and {rows} were "
                "copied into it.",
                next_step="Nothing, if the database was started again meanwhile: the query runs the batch anew.",
            )
        check_keys(self._connection, self._target, self._staging, ours)
        merge(self._connection, self._target, self._columns, self._staging, ours)
        self._connection.execute(
            "insert into stream_ledger_history (stream, query, epoch, holder, query_id, batch_id, begins, ends, rows) "
            "values (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                writer.stream,
                writer.query,
                self.epoch,
                writer.holder,
                batch.query_id,
                batch.batch_id,
                json.dumps(batch.begins),
                json.dumps(batch.ends),
                rows,
            ),
        )
        self._connection.execute(
            "delete from stream_ledger_history where stream = %s and query = %s and seq <= (select seq from "
            "stream_ledger_history where stream = %s and query = %s order by seq desc offset %s limit 1)",
            (writer.stream, writer.query, writer.stream, writer.query, HISTORY),
        )
        self._connection.execute(statement("delete from {}", self._staging))
        return rows

    # -- statements --------------------------------------------------------------------------------------------------

    def _find(self) -> Entry | None:
        found = self._one(
            "select stream, query, epoch, writer::text, holder, query_id, batch_id, offsets from stream_ledger "
            "where stream = %s and query = %s",
            (self._writer.stream, self._writer.query),
        )
        return None if found is None else Entry(*found)

    def _entry(self) -> Entry:
        found = self._find()
        if found is None:
            raise SinkRefused(
                f"The ledger of {self._writer.name} is gone from the database {self._database.name}.",
                next_step="Restore the table stream_ledger. Without it nobody knows what the sink holds.",
            )
        return found

    def _one(self, statement: Any, values: Sequence[Any] = ()) -> Any:
        return self._connection.execute(statement, values or None).fetchone()

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """Reach the database again where its session has ended; say what it refuses without its own words."""
        import psycopg

        if self._connection is None or self._connection.closed:
            self._reach()
            if self.epoch:
                self._come_back()
        try:
            yield
        except psycopg.DataError as error:
            raise BadRows(
                f"The database {self._database.name} does not take the rows for {self._target.table}: {_short(error)}",
                next_step="Correct the rows in the script, or change the table.",
            ) from None
        except psycopg.IntegrityError as error:
            raise BadRows(
                f"The rows break a rule of the table {self._target.table}: {_short(error)}",
                next_step="Correct the rows in the script, or change the table.",
            ) from None
        except psycopg.Error as error:
            if self._connection.closed and self.epoch:
                # A driver that claims the ledger ends the session of the one before.
                with contextlib.suppress(psycopg.Error):
                    self._reach()
                    self._come_back()
            raise SinkError(
                f"The database {self._database.name} failed: {_short(error)}.",
                next_step="See its log. The query tries again.",
            ) from None


def _short(error: Any) -> str:
    """The database's first sentence, without the row that it may quote behind it."""
    diag = getattr(error, "diag", None)
    said = getattr(diag, "message_primary", None) or type(error).__name__
    constraint = getattr(diag, "constraint_name", None)
    return f"{said:.300} ({error.sqlstate or type(error).__name__}{', ' + constraint if constraint else ''})"


def _number(name: str) -> int:
    """The number of a lock."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
