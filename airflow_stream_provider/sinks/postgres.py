"""PostgreSQL as a database of sinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark import RDD
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from airflow_stream_provider.sinks.given import NOT_TAKEN, address_of, in_backticks, kind_of, text_of
from airflow_stream_provider.sinks.ledger import Target, Writer
from airflow_stream_provider.sinks.sql_database import (
    ATTEMPT,
    LOCK_SECONDS,
    SqlDatabase,
    Task,
    listed,
    quoted,
    quoted_table,
    run,
)
from airflow_stream_provider.sinks.sql_ledger import SqlLedger

# Characters that a task hands over at once.
_CHUNK = 1 << 16
# The driver itself copies a batch of so few rows with so few characters each: Python's part of a task costs more than
# they do, and each task a session.
FEW_ROWS, FEW_CHARACTERS = 10_000, 4096
# A session whose other end does not answer for so long (seconds) ends, and with it the lock that it holds.
_ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
# Types whose text has nothing that COPY reads otherwise.
_PLAIN = {"boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "date"}
_PLAIN |= {"timestamp", "timestamp_ntz"}
# The number of a lock.
_NUMBER = "hashtextextended(%s, 0)"
_OF_TABLE = "a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped"
# By Spark's type, the types of PostgreSQL that hold all of its values. Text is read by the column's own type.
HOLDS = {
    "boolean": {"bool", "text", "varchar"},
    "tinyint": {"int2", "int4", "int8", "numeric", "text", "varchar"},
    "smallint": {"int2", "int4", "int8", "numeric", "text", "varchar"},
    "int": {"int4", "int8", "numeric", "text", "varchar"},
    "bigint": {"int8", "numeric", "text", "varchar"},
    "float": {"float4", "float8", "text", "varchar"},
    "double": {"float8", "text", "varchar"},
    "decimal": {"numeric", "text", "varchar"},
    "date": {"date", "text", "varchar"},
    "timestamp": {"timestamptz", "text", "varchar"},
    "timestamp_ntz": {"timestamp", "text", "varchar"},
    "binary": {"bytea"},
    "struct": {"jsonb", "json", "text", "varchar"},
    "array": {"jsonb", "json", "text", "varchar"},
    "map": {"jsonb", "json", "text", "varchar"},
}
# The types of columns that `create=True` makes.
CREATED = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "decimal": "numeric",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "binary": "bytea",
    "struct": "jsonb",
    "array": "jsonb",
    "map": "jsonb",
    "string": "text",
}


def postgres(name: str = "", *, dsn: str = "") -> Postgres:
    """Name a PostgreSQL database.

    :param name: where its address and password come from, the first of: the environment variable STREAM_SINK_NAME; the
        file that STREAM_SINK_NAME_FILE names; libpq's service NAME (pg_service.conf), which the executors then need.
    :param dsn: a libpq connection string or URI instead, for tests and for passwords that libpq finds by itself.
    """
    return Postgres(name or "postgres", dsn or address_of(name) or f"service={name}")


class Postgres(SqlDatabase):
    """One PostgreSQL database; see `postgres`."""

    module = "psycopg"
    package = "psycopg[binary]"
    holds = HOLDS
    created = CREATED
    ddl = (
        # One of two drivers that create them at once waits.
        "select pg_advisory_xact_lock(hashtextextended('stream_ledger', 0))",
        """create table if not exists stream_ledger (
          stream text not null, query text not null, epoch bigint not null, writer uuid not null, holder text not null,
          control text not null, hold bigint not null, query_id text not null default '',
          batch_id bigint not null default -1, offsets jsonb not null default '[]', rows bigint not null default 0,
          claimed_at timestamptz not null default now(), written_at timestamptz, primary key (stream, query))""",
        """create table if not exists stream_ledger_history (
          stream text not null, query text not null, seq bigserial, epoch bigint not null, holder text not null,
          query_id text not null, batch_id bigint not null, begins jsonb not null, ends jsonb not null,
          rows bigint not null, written_at timestamptz not null default now(), primary key (stream, query, seq))""",
    )
    session = "select pg_backend_pid()"
    try_lock = f"select pg_try_advisory_lock({_NUMBER})"
    lock_holder = (
        "select a.pid, coalesce(host(a.client_addr), 'this machine') from pg_locks l "
        "join pg_stat_activity a using (pid) where l.locktype = 'advisory' and l.granted and l.objsubid = 1 "
        f"and a.datname = current_database() and (l.classid::bigint << 32 | l.objid::bigint) = {_NUMBER}"
    )
    end_session = "select pg_terminate_backend(%s)"
    table = (
        "select coalesce((select format('%%s is %%s, and its rows are not in the same transaction as the offsets', "
        "p.oid::regclass, case p.relkind when 'f' then 'a foreign table' when 'v' then 'a view' when 'm' then "
        "'a materialized view' else 'not logged' end) from pg_class p where p.oid in (select t union select relid from "
        "pg_partition_tree(t)) and (p.relkind not in ('r', 'p') or p.relkind = 'r' and p.relpersistence <> 'p') "
        "limit 1), '') from (select to_regclass(%s) as t) found where t is not null"
    )
    columns = (
        "select a.attname::text, t.typname::text, a.attnotnull and not a.atthasdef and a.attidentity = '' "
        f"from pg_attribute a join pg_type t on t.oid = a.atttypid where {_OF_TABLE}"
    )
    unique = (
        "select i.indexrelid, a.attname::text from pg_attribute a join pg_index i on i.indrelid = a.attrelid "
        "and a.attnum = any(i.indkey[0:i.indnkeyatts - 1]) and i.indisunique and i.indisvalid and i.indimmediate "
        f"and i.indpred is null and i.indexprs is null where {_OF_TABLE}"
    )
    tables = (
        "select relname::text from pg_class where relkind = 'r' and pg_table_is_visible(oid) "
        "and starts_with(relname, %s)"
    )
    # Rows that are deleted one by one would be read over by each batch until the server's next vacuum.
    emptied = ("lock table {} in access exclusive mode nowait", "truncate {}")

    def __init__(self, name: str, dsn: str) -> None:
        super().__init__(name, dsn)
        # Whether the next batch may have few rows.
        self._few = True

    def ledger(self, writer: Writer, target: Target) -> SqlLedger:
        """Return the ledger of one query, for one writer."""
        return SqlLedger(self, writer, target)

    def open(self, application: str, idle_seconds: float) -> Any:
        """Open a connection; see `connect`."""
        address = self._reaching()
        found = self.driver().connect(address, autocommit=True, application_name=application[:63], connect_timeout=10)
        settings = {"lock_timeout": f"{LOCK_SECONDS}s", "idle_in_transaction_session_timeout": int(idle_seconds * 1000)}
        # The server asks whether the driver lives, too.
        settings |= {f"tcp_{name}": value for name, value in _ALIVE.items()}
        # Not as `options`, which would take the place of those that the address has.
        each = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
        found.execute(f"select {each}")
        return found

    def _reaching(self) -> str:
        """Return its address, by which a session notices that the server is lost, also where it has no such setting."""
        info = self.driver().conninfo
        return str(info.make_conninfo(**{**_ALIVE, **info.conninfo_to_dict(self._address)}))

    def is_closed(self, connection: Any) -> bool:
        """Whether a connection has ended, as far as its last statement has shown."""
        return bool(connection.closed)

    def judged(self, error: Any) -> tuple[bool, str]:
        """Return whether an error is the fault of rows, and its first sentence: the next one may quote the row."""
        driver = self.driver()
        said = error.diag.message_primary or type(error).__name__
        constraint = error.diag.constraint_name
        code = error.sqlstate or type(error).__name__
        found = f"{said:.300} ({code}{', ' + constraint if constraint else ''})"
        by_rows = (driver.DataError, driver.IntegrityError, driver.errors.GeneratedAlways)
        return isinstance(error, by_rows), found

    def named(self, table: str) -> Sequence[Any]:
        """Return the values by which a table is found."""
        return (quoted_table(table).replace("%%", "%"),)

    def make_staging(self, connection: Any, target: Target, columns: Sequence[str], staging: str) -> None:
        """Create a staging table. It is not logged: after a crash of the server it is empty."""
        real = [quoted(column) for column in columns if column != target.delete]
        if target.delete:
            real.append(f"null::boolean as {quoted(target.delete)}")
        run(
            connection,
            f"create unlogged table {quoted(staging)} as select null::bigint as {ATTEMPT}, {', '.join(real)} "
            f"from {quoted_table(target.table)} with no data",
        )

    def texts(self, frame: DataFrame, columns: Sequence[str]) -> DataFrame:
        """Return a frame of one column, each row of which is a line of COPY's text format."""
        types = {field.name: field.dataType for field in frame.schema.fields}
        # One text for all of it: a column built call by call asks the JVM hundreds of times, in every batch.
        each = ", ".join(f"coalesce({_text(name, types[name])}, concat(char(92), 'N'))" for name in columns)
        return frame.selectExpr(f"concat(concat_ws(char(9), {each}), char(10)) line")

    def carried_out(self, frame: DataFrame, columns: Sequence[str], task: Task) -> list[tuple[int, int, str]]:
        """Run a task for each partition, or here where the rows are few, and return what they return."""
        lines = self.texts(frame, columns)
        few = _few(lines) if self._few else None
        tasks = _strings(lines).mapPartitions(task).collect() if few is None else list(task(few))
        # Not after a batch that was read for nothing.
        self._few = few is not None or (not self._few and sum(rows for _, rows, _ in tasks) <= FEW_ROWS)
        return tasks

    def task(self, schema: StructType, columns: Sequence[str], staging: str) -> Task:
        """Return what a task does with its lines."""
        dsn, chunk, not_taken = self._reaching(), _CHUNK, NOT_TAKEN

        def copy(rows: Iterable[Any]) -> Iterator[tuple[int, int, str]]:
            from os import urandom

            import psycopg

            rows = iter(rows)
            first = next(rows, None)
            if first is None:
                return
            # Not by `secrets`: a job may have a module of that name.
            number, written, lines, size = int.from_bytes(urandom(8), "big") >> 1, 0, [first], len(first)
            head = f"{number}\t"
            try:
                with (
                    psycopg.connect(dsn, application_name="stream sink: task") as connection,
                    connection.cursor().copy(f"copy {staging} from stdin") as to,
                ):
                    for line in rows:
                        if size > chunk:
                            to.write(head + head.join(lines))
                            written += len(lines)
                            lines, size = [], 0
                        lines.append(line)
                        size += len(line)
                    to.write(head + head.join(lines))
                    written += len(lines)
            except psycopg.DataError as error:
                # To try again changes nothing. The first sentence alone: the next one quotes the row.
                yield number, 0, error.diag.message_primary or type(error).__name__
                return
            except psycopg.Error as error:
                raise RuntimeError(f"{not_taken} ({type(error).__name__}).") from None
            yield number, written, ""

        return copy

    def merge(self, connection: Any, target: Target, columns: Sequence[str], staging: str, ours: str) -> None:
        """Bring the rows of a batch from the staging table into the table."""
        table = quoted_table(target.table)
        real = [column for column in columns if column != target.delete]
        added = f"insert into {table} ({listed(real)}) select {listed(real)} from {staging} where {ours}"
        if target.delete:
            gone = quoted(target.delete)
            same = listed(target.key, "t.{} = s.{}", " and ")
            run(connection, f"delete from {table} t using {staging} s where {ours} and s.{gone} and {same}")
            added += f" and {gone} is not true"
        if target.key:
            others = [column for column in real if column not in target.key]
            does = f"update set {listed(others, '{} = excluded.{}')}" if others else "nothing"
            added += f" on conflict ({listed(target.key)}) do {does}"
        run(connection, added)


def _few(lines: DataFrame) -> list[str] | None:
    """Return all lines; None: they are more than few, or long. That they are is found by reading few of them."""
    found = lines.selectExpr(f"if(length(line) - 1 > {FEW_CHARACTERS}, null, line)").take(FEW_ROWS + 1)
    if len(found) > FEW_ROWS or any(line is None for (line,) in found):
        return None
    return [line for (line,) in found]


def _strings(lines: DataFrame) -> RDD[str]:
    """Return the lines as plain strings: to make a Row of each takes an executor's Python longer than to send it."""
    jvm: Any = lines.sparkSession._jvm
    strings = getattr(lines._jdf, "as")(jvm.org.apache.spark.sql.Encoders.STRING()).toJavaRDD()
    return RDD(jvm.SerDeUtil.javaToPython(strings), lines.sparkSession.sparkContext)


def _text(name: str, of: DataType) -> str:
    """Return the expression of a column's text, with char(92) for a backslash: literals have several syntaxes."""
    column, kind = in_backticks(name), kind_of(of)
    if kind == "binary":
        return f"concat(char(92), char(92), 'x', hex({column}))"
    text = text_of(name, of)
    if kind in _PLAIN:
        return text
    # The backslash first.
    for code, letter in ((92, "char(92)"), (9, "'t'"), (10, "'n'"), (13, "'r'")):
        text = f"replace({text}, char({code}), concat(char(92), {letter}))"
    return text
