"""PostgreSQL: how it is reached, which types hold which, and how executors copy rows into a staging table."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from airflow_stream_provider.sinks.ledger import BadRows, SinkError

# A session waits so long for a lock.
LOCK_SECONDS = 5
# Bytes that a task hands over at once.
_CHUNK = 1 << 16
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
    return Postgres(name, dsn or _dsn_of(name))


def _dsn_of(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise SinkError(
            f"{name!r} is no name of a database.", next_step="Use letters, digits, dots, hyphens and underscores."
        )
    variable = "STREAM_SINK_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
    if os.environ.get(variable):
        return os.environ[variable]
    if os.environ.get(f"{variable}_FILE"):
        return Path(os.environ[f"{variable}_FILE"]).read_text().strip()
    return f"service={name}"


class Postgres:
    """One PostgreSQL database; see `postgres`. Its text never shows the address or a password."""

    def __init__(self, name: str, dsn: str) -> None:
        self.name = name or "postgres"
        self._dsn = dsn

    def __repr__(self) -> str:
        return f"postgres({self.name!r})"

    def connect(self, application: str, idle_seconds: float = 0.0) -> Any:
        """Return a connection in autocommit mode.

        :param idle_seconds: the server ends the session when it is idle in a transaction for so long; 0: never.
        :raises SinkError: the database cannot be reached, or refuses.
        """
        psycopg = _psycopg()
        try:
            found = psycopg.connect(self._dsn, autocommit=True, application_name=application[:63], connect_timeout=10)
            # Not as `options`, which would take the place of those that the address has.
            found.execute(
                "select set_config('lock_timeout', %s, false), "
                "set_config('idle_in_transaction_session_timeout', %s, false)",
                (f"{LOCK_SECONDS}s", str(int(idle_seconds * 1000))),
            )
            return found
        except psycopg.OperationalError as error:
            # The error's text may name the user and the host.
            kind = type(error).__name__
            raise SinkError(
                f"The database {self.name} cannot be reached, or refuses the connection ({kind}).",
                next_step="See that it runs, and that STREAM_SINK_… or the service file names it rightly. The query "
                "tries again.",
            ) from None

    def copy(self, frame: DataFrame, staging: str, mark: str) -> list[tuple[int, int]]:
        """Let the executors copy a frame into a staging table; return attempt and rows of each task that counts.

        A task that is tried again, or a speculative copy of it, leaves rows that are never merged.

        :raises BadRows: the database does not take a row.
        """
        tasks = frame.rdd.mapPartitions(_copying(self._dsn, staging, mark)).collect()
        refused = next((said for _, _, said in tasks if said), "")
        if refused:
            raise BadRows(
                f"The database {self.name} does not take a row: {refused:.300}.",
                next_step="Correct or leave out such rows in the script, or change the table.",
            )
        return [(attempt, rows) for attempt, rows, _ in tasks]


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise SinkError(
            "The module psycopg is missing here.", next_step="Install psycopg[binary] for the driver and its executors."
        ) from None
    return psycopg


def _copying(dsn: str, staging: str, mark: str) -> Callable[[Iterable[Any]], Iterator[tuple[int, int, str]]]:
    """Return the function of a task. Executors may not have this package, so it uses nothing of it."""
    chunk = _CHUNK

    def copy(rows: Iterable[Any]) -> Iterator[tuple[int, int, str]]:
        import psycopg
        from pyspark import TaskContext

        rows = iter(rows)
        first = next(rows, None)
        context = TaskContext.get()
        if first is None or context is None:
            return
        attempt, written, size = context.taskAttemptId(), 0, 0
        head, lines = f"{mark}\t{attempt}\t", [f"{mark}\t{attempt}\t{first[0]}\n"]
        try:
            with (
                psycopg.connect(dsn, application_name="stream sink: task") as connection,
                connection.cursor().copy(f"copy {staging} from stdin") as to,
            ):
                written = 1
                for (line,) in rows:
                    lines.append(f"{head}{line}\n")
                    size += len(line)
                    written += 1
                    if size > chunk:
                        to.write("".join(lines))
                        lines, size = [], 0
                to.write("".join(lines))
        except psycopg.DataError as error:
            # To try again changes nothing. The first sentence alone: the next one quotes the row.
            yield attempt, 0, error.diag.message_primary or type(error).__name__
            return
        yield attempt, written, ""

    return copy


def as_lines(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return a frame of one column, each row of which is a line of COPY's text format."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    each = [F.coalesce(_escaped(_text(name, types[name])), F.lit("\\N")) for name in columns]
    return frame.select(F.concat_ws("\t", *each))


def _text(name: str, of: DataType) -> Any:
    column = F.col(f"`{name.replace('`', '``')}`")
    kind = kind_of(of)
    if kind == "binary":
        return F.concat(F.lit("\\x"), F.hex(column))
    if kind in ("struct", "array", "map"):
        return F.to_json(column)
    if kind == "timestamp":
        # With its offset, whatever the session's time zone is.
        return F.date_format(column, "yyyy-MM-dd HH:mm:ss.SSSSSSXXX")
    return column.cast("string")


def _escaped(column: Any) -> Any:
    # The first of them first.
    for found, instead in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        column = F.replace(column, F.lit(found), F.lit(instead))
    return column


def kind_of(of: DataType) -> str:
    """Return the name of a type without its parameters."""
    return of.simpleString().partition("(")[0].partition("<")[0]
