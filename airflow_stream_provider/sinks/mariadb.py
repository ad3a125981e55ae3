"""MariaDB as a database of sinks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructField, StructType

from airflow_stream_provider.sinks.given import NOT_TAKEN, address_of, in_backticks, kind_of, text_of
from airflow_stream_provider.sinks.ledger import SinkError, Target, Writer
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
_CHUNK = 1 << 18
# A value that a type does not hold is an error, 0 is 0, names are quoted as in other databases, and times are UTC.
_SESSION = (
    "set session sql_mode = 'STRICT_ALL_TABLES,ANSI_QUOTES,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,NO_ZERO_IN_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_VALUE_ON_ZERO', sql_notes = 1, time_zone = '+00:00'"
)
# Locks are the server's, not the database's, and their names are short.
_LOCK = "left(sha2(concat(database(), '/', %s), 256), 60)"
_OF_TABLE = "table_schema = coalesce(%s, database()) and table_name = %s"
_TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext"}
_LONG = {"varchar", "text", "mediumtext", "longtext"}
# The part of an error that quotes a row.
_QUOTED = re.compile(r":? '.*'(?= for (?:column|key) )|: '.*'$", re.DOTALL)
# Errors that rows cause: null, key, out of range, truncated, wrong value, missing, too long, foreign key, generated
# column, check.
_BY_ROWS = frozenset({1048, 1062, 1264, 1265, 1292, 1364, 1366, 1406, 1441, 1451, 1452, 1906, 4025})
# The errors whose words are said: also no table, lock, deadlock, killed session, lost session.
_SAID = _BY_ROWS | {1146, 1205, 1213, 1927, 2006, 2013}
# By Spark's type, the types of MariaDB that hold all of its values; a float's largest value is refused by the type
# float, which also shows six digits only.
HOLDS = {
    "boolean": {"tinyint"},
    "tinyint": {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", *_LONG},
    "smallint": {"smallint", "mediumint", "int", "bigint", "decimal", *_LONG},
    "int": {"int", "bigint", "decimal", *_LONG},
    "bigint": {"bigint", "decimal", *_LONG},
    "float": {"float", "double", *_LONG},
    "double": {"double", *_LONG},
    "decimal": {"decimal", *_LONG},
    "date": {"date", *_LONG},
    "timestamp": {"timestamp(6)"},
    "timestamp_ntz": {"datetime(6)", *_LONG},
    "binary": {"varbinary", "tinyblob", "blob", "mediumblob", "longblob"},
    "struct": _LONG,
    "array": _LONG,
    "map": _LONG,
    # Other types take a text for what it resembles, such as 2 for '1.5'.
    "string": {*_TEXTS, "enum", "uuid", "inet4", "inet6"},
}
# The types of columns that `create=True` makes.
CREATED = {
    "boolean": "boolean",
    "tinyint": "tinyint",
    "smallint": "smallint",
    "int": "int",
    "bigint": "bigint",
    "float": "double",
    "double": "double",
    "decimal": "decimal",
    "date": "date",
    "timestamp": "timestamp(6) null",
    "timestamp_ntz": "datetime(6)",
    "binary": "longblob",
    "struct": "json",
    "array": "json",
    "map": "json",
    "string": "longtext",
}


def mariadb(name: str = "", *, url: str = "") -> MariaDB:
    """Name a MariaDB database.

    :param name: where its address comes from: the environment variable STREAM_SINK_NAME, or the file that
        STREAM_SINK_NAME_FILE names.
    :param url: the address instead, for tests: mysql://user:password@host:port/database, each part with %-codes;
        default port: 3306. With ?ssl_ca=FILE the server has to show a certificate of that authority.
    :raises SinkError: there is no address, or it is none.
    """
    return MariaDB(name or "mariadb", url or address_of(name))


class MariaDB(SqlDatabase):
    """One MariaDB database; see `mariadb`."""

    module = "pymysql"
    package = "PyMySQL"
    holds = HOLDS
    created = CREATED
    options = " engine=InnoDB character set utf8mb4 collate utf8mb4_nopad_bin"
    ddl = (
        f"""create table if not exists stream_ledger (
          stream varchar(255) not null, query varchar(255) not null, epoch bigint not null, writer char(36) not null,
          holder text not null, control varchar(255) not null, hold bigint not null,
          query_id varchar(255) not null default '', batch_id bigint not null default -1,
          offsets json not null default '[]', "rows" bigint not null default 0,
          claimed_at timestamp(6) not null default current_timestamp(6), written_at timestamp(6) null,
          primary key (stream, query)){options}""",
        f"""create table if not exists stream_ledger_history (
          stream varchar(255) not null, query varchar(255) not null, seq bigint not null auto_increment,
          epoch bigint not null, holder text not null, query_id varchar(255) not null, batch_id bigint not null,
          begins json not null, ends json not null, "rows" bigint not null,
          written_at timestamp(6) not null default current_timestamp(6), primary key (stream, query, seq), key (seq))
          {options}""",
    )
    session = "select connection_id()"
    try_lock = f"select get_lock({_LOCK}, 0)"
    # Sessions of other users are hidden from a user without the privilege PROCESS.
    lock_holder = (
        "select l.id, coalesce(regexp_replace(p.host, ':[0-9]+$', ''), 'a machine that this user may not see') "
        f"from (select is_used_lock({_LOCK}) as id) l left join information_schema.processlist p on p.id = l.id "
        "where l.id is not null"
    )
    end_session = "kill connection %s"
    table = (
        "select if(engine = 'InnoDB', '', concat('it is of ', coalesce(engine, table_type), ', and only InnoDB writes "
        f"rows and offsets together')) from information_schema.tables where {_OF_TABLE}"
    )
    columns = (
        "select column_name, concat(data_type, coalesce(concat('(', datetime_precision, ')'), '')), is_nullable = 'NO' "
        "and column_default is null and extra not like '%%auto_increment%%' and is_generated = 'NEVER' "
        f"from information_schema.columns where {_OF_TABLE}"
    )
    # The beginning of a text is no column.
    unique = (
        "select index_name, if(sub_part is null, column_name, '') from information_schema.statistics "
        f"where non_unique = 0 and {_OF_TABLE}"
    )
    tables = (
        "select table_name from information_schema.tables where table_schema = database() and instr(table_name, %s) = 1"
    )

    def __init__(self, name: str, url: str) -> None:
        super().__init__(name, url)
        self._arguments = _address(name, url)

    def ledger(self, writer: Writer, target: Target) -> SqlLedger:
        """Return the ledger of one query, for one writer."""
        return SqlLedger(self, writer, target)

    def open(self, application: str, idle_seconds: float) -> Any:
        """Open a connection; see `connect`."""
        pymysql = self.driver()
        # A row that an update finds as it is counts, too.
        flags = pymysql.constants.CLIENT.FOUND_ROWS
        found = pymysql.connect(**self._arguments, autocommit=True, client_flag=flags, program_name=application)
        run(found, "set session transaction isolation level read committed")
        # Between batches the session may be idle for long: the lock is its own.
        run(
            found,
            "set session lock_wait_timeout = %s, innodb_lock_wait_timeout = %s, wait_timeout = 31536000, "
            "idle_transaction_timeout = %s",
            (LOCK_SECONDS, LOCK_SECONDS, math.ceil(idle_seconds)),
        )
        return found

    def is_closed(self, connection: Any) -> bool:
        """Whether a connection has ended, as far as its last statement has shown."""
        return not connection.open

    def judged(self, error: Any) -> tuple[bool, str]:
        """Return whether an error is the fault of rows, and what it says without the values that it quotes."""
        code, words = error.args[0], str(error.args[-1])
        said = _QUOTED.sub("", words)[:300] if code in _SAID else type(error).__name__
        return code in _BY_ROWS, f"{said} ({code})"

    def named(self, table: str) -> Sequence[Any]:
        """Return the values by which a table is found."""
        schema, _, name = table.rpartition(".")
        return schema or None, name

    def created_type(self, field: StructField, in_key: bool) -> str:
        """Return the type of a column that `create=True` makes; in a key it has a length, and is not null."""
        kind = kind_of(field.dataType)
        if kind == "decimal":
            return field.dataType.simpleString()
        if in_key and kind in ("string", "binary"):
            return "varchar(255)" if kind == "string" else "varbinary(255)"
        found = super().created_type(field, in_key)
        return found.replace(" null", "") if in_key else found

    def make_staging(self, connection: Any, target: Target, columns: Sequence[str], staging: str) -> None:
        """Create a staging table, in which the rows of a task are together."""
        found = run(
            connection,
            "select column_name, concat(column_type, coalesce(concat(' collate ', collation_name), '')), "
            "is_nullable = 'NO' and (data_type = 'timestamp' or extra like '%%auto_increment%%') "
            f"from information_schema.columns where {_OF_TABLE}",
            self.named(target.table),
        ).fetchall()
        kinds = {name: kind for name, kind, _ in found}
        if target.delete:
            kinds[target.delete] = "boolean"
        parts = [f"{quoted(name)} {kinds[name].replace('%', '%%')} null" for name in columns]
        gone = f" or {quoted(target.delete)} is true" if target.delete else ""
        for name in (name for name, _, made in found if made and name in columns):
            # Of null the server would make the current time, or the next number.
            rule = quoted(f"{name:.40} may not be null")
            parts.append(f"constraint {rule} check ({quoted(name)} is not null{gone})")
        run(
            connection,
            f"create table {quoted(staging)} ({ATTEMPT} bigint, _row bigint, {', '.join(parts)}, "
            f"primary key ({ATTEMPT}, _row)) engine=InnoDB",
        )

    def texts(self, frame: DataFrame, columns: Sequence[str]) -> DataFrame:
        """Return the same columns, as texts."""
        types = {field.name: field.dataType for field in frame.schema.fields}
        return frame.selectExpr(*[_text(name, types[name]) for name in columns])

    def task(self, schema: StructType, columns: Sequence[str], staging: str) -> Task:
        """Return what a task does with its rows of texts."""
        kinds = {field.name: kind_of(field.dataType) for field in schema.fields}
        places = ", ".join(_READ.get(kinds[name], "%s") for name in columns)
        arguments, chunk, by_rows, quotes, not_taken = self._arguments, _CHUNK, _BY_ROWS, _QUOTED, NOT_TAKEN

        def copy(rows: Iterable[Any]) -> Iterator[tuple[int, int, str]]:
            from os import urandom

            import pymysql

            rows = iter(rows)
            first = next(rows, None)
            if first is None:
                return
            # Not by `secrets`: a job may have a module of that name.
            number, written, connection = int.from_bytes(urandom(8), "big") >> 1, 1, None

            def line(row: Any) -> str:
                return str(cursor.mogrify(f"({number}, {written}, {places})", tuple(row)))

            def insert(lines: Iterable[str]) -> None:
                statement = f"insert into {staging} values {', '.join(lines)}".encode()
                if len(statement) > most:
                    raise pymysql.DataError(1406, "a row is larger than max_allowed_packet")
                cursor.execute(statement)
                if cursor.warning_count:  # such as a decimal that was rounded
                    cursor.execute("show warnings")
                    raise pymysql.DataError(1265, cursor.fetchone()[2])

            try:
                connection = pymysql.connect(**arguments, program_name="stream sink: task")
                cursor = connection.cursor()
                cursor.execute("select @@max_allowed_packet")
                (most,) = cursor.fetchone()
                lines = [line(first)]
                size = len(lines[0])
                for row in rows:
                    if size > chunk:
                        insert(lines)
                        lines, size = [], 0
                    written += 1
                    lines.append(line(row))
                    size += len(lines[-1])
                insert(lines)
                connection.commit()
            except pymysql.Error as error:
                if error.args[0] not in by_rows:
                    raise RuntimeError(f"{not_taken} ({type(error).__name__}).") from None
                # To try again changes nothing. The words are said without the value that they quote.
                yield number, 0, quotes.sub("", error.args[1])
                return
            finally:
                if connection is not None:
                    connection.close()
            yield number, written, ""

        return copy

    def merge(self, connection: Any, target: Target, columns: Sequence[str], staging: str, ours: str) -> None:
        """Bring the rows of a batch from the staging table into the table.

        Not by `on duplicate key update`: with a second unique index that overwrites the row of another key.
        """
        table = quoted_table(target.table)
        real = [column for column in columns if column != target.delete]
        others = [column for column in real if column not in target.key]
        same = listed(target.key, "t.{} = s.{}", " and ")
        if target.delete:
            gone = f"s.{quoted(target.delete)}"
            run(connection, f"delete t from {table} t join {staging} s on {same} where {ours} and {gone}")
            ours += f" and {gone} is not true"
        if target.key and others:
            changed = listed(others, "t.{} = s.{}")
            run(connection, f"update {table} t join {staging} s on {same} set {changed} where {ours}")
        if target.key:
            ours += f" and not exists (select 1 from {table} t where {same})"
        run(connection, f"insert into {table} ({listed(real)}) select {listed(real)} from {staging} s where {ours}")


# How a text is read, by Spark's type.
_READ = {"binary": "unhex(%s)", "timestamp": "timestamp('1970-01-01') + interval %s microsecond"}


def _text(name: str, of: DataType) -> str:
    """Return the expression of a column's text."""
    column, kind = in_backticks(name), kind_of(of)
    if kind == "binary":
        return f"hex({column})"
    if kind == "timestamp":
        return f"cast(unix_micros({column}) as string)"
    if kind == "boolean":
        return f"cast(cast({column} as int) as string)"
    return text_of(name, of)


def _address(name: str, url: str) -> dict[str, Any]:
    """Return the arguments with which PyMySQL connects."""
    try:
        parts = urlsplit(url)
        found: dict[str, Any] = {"port": parts.port or 3306, "database": unquote(parts.path[1:])}
        found |= {"host": parts.hostname or "", "user": unquote(parts.username or "")}
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        parts, found, options = urlsplit(""), {}, {}
    if parts.scheme not in ("mysql", "mariadb") or not all(found.values()) or options.keys() - {"ssl_ca"}:
        # Without its text, which may be a password.
        raise SinkError(
            f"The database {name} has no address of the form mysql://user:password@host:port/database.",
            next_step="Set STREAM_SINK_… to one, or STREAM_SINK_…_FILE to a file with one; encode other characters "
            "than letters and digits in user and password with %. The one option is ?ssl_ca=FILE.",
        )
    if options:
        found |= {**options, "ssl_verify_cert": True, "ssl_verify_identity": True}
    return {
        **found,
        "password": unquote(parts.password or ""),
        "charset": "utf8mb4",
        "connect_timeout": 10,
        "init_command": _SESSION,
    }
