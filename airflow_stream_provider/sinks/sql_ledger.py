"""The ledger of one query in a SQL database: claim it, and write a batch in one transaction."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
    Target,
    Writer,
    fenced,
    is_to_be_written,
)
from airflow_stream_provider.sinks.sql_database import (
    ATTEMPT,
    SqlDatabase,
    check_keys,
    check_table,
    quoted,
    run,
)

# Entries of the history that are kept of each query.
HISTORY = 1000
# Names of staging tables of rehearsals begin so, with the time; after so long one counts as left by a kill.
_REHEARSAL, _LEFT_SECONDS = "stream_rehearsal_", 86_400
# So long a claim waits for the sessions to end that it has ended.
PATIENCE_SECONDS = 30.0
_OURS = "stream = %s and query = %s"
_FIRST_CLAIM = (
    "insert into stream_ledger (epoch, writer, holder, control, hold, stream, query) "
    "values (%s, %s, %s, %s, %s, %s, %s)"
)
_CLAIM = (
    "update stream_ledger set epoch = %s, writer = %s, holder = %s, control = %s, hold = %s, "
    f"claimed_at = current_timestamp(6) where {_OURS}"
)


class SqlLedger:
    """One writer of one query, with its session: `claim` comes before `write`."""

    def __init__(self, database: SqlDatabase, writer: Writer, target: Target) -> None:
        self._database = database
        self._writer = writer
        self._target = target
        self._id = str(uuid.uuid4())
        # Names and types of the last batch, and the columns and the name of the staging table for them.
        self._given: Sequence[Any] = ()
        self._columns: Sequence[str] = ()
        self._staging = ""
        self._connection: Any = None
        # The session that has taken the lock last: it may live on in the server when its connection is lost.
        self._session: Any = None
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
            return self._find() if self._is_there("stream_ledger") else None

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
        tasks = self._database.copy(frame, self._columns, quoted(self._staging))
        try:
            with self._working(), self._transaction():
                return self._merge(batch, tasks)
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
        staging = f"{_REHEARSAL}{time.time():.0f}_{uuid.uuid4().hex[:16]}"
        target, tables = self._target, [staging]
        with self._working():
            if target.create and not self._is_there(target.table):
                tables.append(f"{staging}_made")
                target = replace(target, table=tables[-1])
        try:
            with self._working():
                self._columns = check_table(self._database, self._connection, target, frame.schema)
                self._database.make_staging(self._connection, target, self._columns, staging)
            tasks = self._database.copy(frame, self._columns, quoted(staging))
            with self._working():
                check_keys(self._connection, target, quoted(staging), _chosen(tasks))
        finally:
            for table in tables:
                # Where the session has ended, the table is left: what the rehearsal found is said instead.
                with contextlib.suppress(Exception):
                    self._run(f"drop table if exists {quoted(table)}")

    # -- claiming ---------------------------------------------------------------------------------------------------

    def _reach(self) -> None:
        writer = self._writer
        self._connection = self._database.connect(f"stream sink: {writer.name}, {writer.holder}", writer.lease_seconds)

    def claim(self) -> None:
        """Become the one that may write: the ledger refuses the driver that has claimed it before.

        :raises SinkRefused: another driver writes, or one that held the stream later has claimed it.
        """
        writer = self._writer
        try:
            with self._working():
                self._make_tables()
                self._lock()
                with self._transaction():
                    before = self._refuse_if_older(" for update")
                    epoch = 1 if before is None else before + 1
                    values = (epoch, self._id, writer.holder, writer.control, writer.hold, *self._names)
                    self._run(_FIRST_CLAIM if before is None else _CLAIM, values)
        except BaseException:
            self.close()
            raise
        self.epoch = epoch

    def _make_tables(self) -> None:
        if not self._is_there("stream_ledger") and not self._is_there("stream_ledger_history"):
            with self._transaction():
                for each in self._database.ddl:
                    self._run(each)

    def _refuse_if_older(self, lock: str = "") -> int | None:
        """Return the epoch of the claim before; None: there is none.

        :raises Fenced: its driver held the stream later than this one.
        """
        found = self._one(f"select epoch, control, hold from stream_ledger where {_OURS}{lock}", self._names)
        if found is None:
            return None
        epoch, control, hold = found
        if self._writer.held_before(control, hold):
            raise fenced(self._entry())
        return int(epoch)

    def _come_back(self) -> None:
        """Take the lock again in a new session, unless another driver has claimed the ledger, or is about to."""
        try:
            now = self._entry()
            if now.writer != self._id:
                raise fenced(now)
            self._lock()
        except BaseException:
            self.close()
            raise

    def _try_lock(self) -> bool:
        return bool(self._one(self._database.try_lock, (self._writer.name,))[0])

    def _lock(self) -> None:
        """Take the lock that a living writer holds with its session."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._try_lock():
            other = self._one(self._database.lock_holder, (self._writer.name,))
            if other is None:
                continue  # it has ended meanwhile
            session, machine = other
            if session != self._session:
                self._refuse_to_end(session, machine)
            if time.monotonic() > deadline:
                raise SinkError(
                    f"The session {session} of the database, which writes {self._writer.name}, does not end.",
                    next_step="See that the sink's user may end it, or end it in the database. The query tries again.",
                )
            # It may have ended meanwhile; and where it may not be ended, the deadline says so.
            with contextlib.suppress(self._database.driver().Error):
                self._run(self._database.end_session, (session,))
            time.sleep(0.05)
        (self._session,) = self._one(self._database.session)

    def _refuse_to_end(self, session: Any, machine: str) -> None:
        """Leave another writer's session alone, unless this driver claims the ledger after it."""
        self._refuse_if_older()
        if self.epoch:
            raise SinkError(
                f"Another session writes {self._writer.name}.",
                next_step="Nothing: the query tries again, and then finds who has claimed the ledger.",
            )
        if not self._writer.take_over and not self._writer.control:
            known = self._one(f"select holder, claimed_at from stream_ledger where {_OURS}", self._names)
            who, since = known or (f"session {session} of the database", None)
            raise AnotherWriter(
                f"{who} on {machine} writes {self._writer.name}"
                + (f" since {since:%Y-%m-%d %H:%M:%S}." if since else "."),
                next_step="Stop it first; this one then goes on where it has ended. If it hangs, start this one "
                "with take_over=True: that ends its session, and what it has not committed is not written.",
                holder=who,
            )

    # -- the staging table -------------------------------------------------------------------------------------------

    def _prepare(self, schema: StructType) -> None:
        """Check the table, and make the staging table, once for each schema of the batches."""
        given = [(field.name, field.dataType) for field in schema.fields]
        if given == self._given:
            self._empty()
            return
        self._columns = check_table(self._database, self._connection, self._target, schema)
        prefix = f"stream_staging_{hashlib.sha256(self._writer.name.encode()).hexdigest()[:16]}_"
        left = [name for (name,) in self._run(self._database.tables, (prefix,))]
        old = f"{_REHEARSAL}{time.time() - _LEFT_SECONDS:.0f}"
        left += [name for (name,) in self._run(self._database.tables, (_REHEARSAL,)) if name < old]
        for name in left:
            # Tasks of a driver before fail from here on; the table of a task that is frozen stays until the next claim.
            with self._unless_locked():
                self._run(f"drop table if exists {quoted(name)}")
        self._staging = f"{prefix}{self.epoch}"
        self._database.make_staging(self._connection, self._target, self._columns, self._staging)
        self._given = given

    def _empty(self) -> None:
        """Remove the rows of the batch before; if a task that does not count is still copying, a later batch does."""
        if self._database.emptied:
            with self._unless_locked(), self._transaction():
                for each in self._database.emptied:
                    self._run(each.format(quoted(self._staging)))

    # -- the transaction ---------------------------------------------------------------------------------------------

    def _merge(self, batch: Batch, tasks: Sequence[tuple[int, int]]) -> int:
        writer, rows = self._writer, sum(rows for _, rows in tasks)
        # First: it locks the row, so that no driver claims it before the end of this transaction. And what was read
        # without a lock may have been a replica's, or that of a server that was the first.
        if not is_to_be_written(self._entry(" for update"), self._id, batch):
            return 0
        self._run(
            'update stream_ledger set query_id = %s, batch_id = %s, offsets = %s, "rows" = %s, '
            f"written_at = current_timestamp(6) where {_OURS}",
            (batch.query_id, batch.batch_id, json.dumps(batch.ends), rows, *self._names),
        )
        staging, ours = quoted(self._staging), _chosen(tasks)
        found = self._one(f"select count(*) from {staging} where {ours}")
        if found[0] != rows:
            raise SinkError(
                f"The staging table of {writer.name} has {found[0]} rows of batch {batch.batch_id}, and {rows} were "
                "copied into it.",
                next_step="Nothing, if the database was started again meanwhile: the query runs the batch anew.",
            )
        check_keys(self._connection, self._target, staging, ours)
        self._database.merge(self._connection, self._target, self._columns, staging, ours)
        self._run(
            "insert into stream_ledger_history (stream, query, epoch, holder, query_id, batch_id, begins, ends, "
            '"rows") values (%s, %s, %s, %s, %s, %s, %s, %s, %s)',
            (
                *self._names,
                self.epoch,
                writer.holder,
                batch.query_id,
                batch.batch_id,
                json.dumps(batch.begins),
                json.dumps(batch.ends),
                rows,
            ),
        )
        self._run(
            f"delete from stream_ledger_history where {_OURS} and seq <= (select seq from "
            f"stream_ledger_history where {_OURS} order by seq desc limit 1 offset %s)",
            (*self._names, *self._names, HISTORY),
        )
        if not self._database.emptied:
            # Rows of tasks that do not count stay until the next claim: such a task may still be at work.
            self._run(f"delete from {staging} where {ours}")
        return rows

    # -- statements --------------------------------------------------------------------------------------------------

    def _find(self, lock: str = "") -> Entry | None:
        row = f"select epoch, writer, holder, query_id, batch_id, offsets from stream_ledger where {_OURS}{lock}"
        found = self._one(row, self._names)
        if found is None:
            return None
        epoch, writer, holder, query_id, batch_id, offsets = found
        offsets = json.loads(offsets) if isinstance(offsets, str) else offsets
        return Entry(*self._names, epoch, str(writer), holder, query_id, batch_id, offsets)

    def _entry(self, lock: str = "") -> Entry:
        found = self._find(lock)
        if found is None:
            raise SinkRefused(
                f"The ledger of {self._writer.name} is gone from the database {self._database.name}.",
                next_step="Restore the table stream_ledger. Without it nobody knows what the sink holds.",
            )
        return found

    @property
    def _names(self) -> tuple[str, str]:
        return self._writer.stream, self._writer.query

    def _is_away(self) -> bool:
        return self._connection is None or self._database.is_closed(self._connection)

    def _is_there(self, table: str) -> bool:
        return self._one(self._database.table, self._database.named(table)) is not None

    def _run(self, statement: str, values: Sequence[Any] = ()) -> Any:
        return run(self._connection, statement, values)

    def _one(self, statement: str, values: Sequence[Any] = ()) -> Any:
        return self._run(statement, values).fetchone()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._run("begin")
        try:
            yield
        except BaseException:
            with contextlib.suppress(self._database.driver().Error):
                self._run("rollback")
            raise
        self._run("commit")

    @contextlib.contextmanager
    def _unless_locked(self) -> Iterator[None]:
        """Leave out what another session has locked."""
        try:
            yield
        except self._database.driver().OperationalError:
            if self._is_away():
                raise

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """Reach the database again where its session has ended; say what it refuses without its own words."""
        failed = self._database.driver().Error
        try:
            if self._is_away():
                self._reach()
                if self.epoch:
                    self._come_back()
            yield
        except failed as error:
            by_rows, said = self._database.judged(error)
            if by_rows:
                raise BadRows(
                    f"The rows do not fit the table {self._target.table}: {said}.",
                    next_step="Correct the rows in the script, or change the table.",
                ) from None
            if self._is_away() and self.epoch:
                # A driver that claims the ledger ends the session of the one before.
                with contextlib.suppress(failed):
                    self._reach()
                    self._come_back()
            raise SinkError(
                f"The database {self._database.name} failed: {said}.",
                next_step="See its log. The query tries again.",
            ) from None


def _chosen(tasks: Sequence[tuple[int, int]]) -> str:
    """Return the condition for the rows of these tasks in a staging table."""
    return f"{ATTEMPT} in ({', '.join(str(number) for number, _ in tasks) or 'null'})"
