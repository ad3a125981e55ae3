"""A SQL database as sinks use it: what each does in its own way, and the check of a table that is the same in all.

Statements that are not a database's own are read by each of them: names in double quotes, and `%s` for a value.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from airflow_stream_provider.sinks.given import (
    check_columns,
    check_creatable,
    check_fit,
    check_times,
    kind_of,
    no_key,
    same_key,
    task_errors,
)
from airflow_stream_provider.sinks.ledger import BadRows, SinkError, Target

# A session waits so long for a lock.
LOCK_SECONDS = 5
# The column of a staging table besides those of the rows: a number that each attempt of a task draws for its rows.
ATTEMPT = "_attempt"
# A task returns its number, how many rows it has copied, and why the database does not take one of them.
Task = Callable[[Iterable[Any]], Iterator[tuple[int, int, str]]]


class SqlDatabase(ABC):
    """One database; see `postgres` and `mariadb`. Its text never shows the address or a password.

    :param name: its name, for people.
    :param address: with its user and password.
    """

    # The module of its driver by DB-API, and what has it.
    module: ClassVar[str]
    package: ClassVar[str]
    # By Spark's type, the types of columns that hold all of its values. For a type that is not here the column decides.
    holds: ClassVar[Mapping[str, Set[str]]]
    # The types of columns that `create=True` makes, and what follows the columns.
    created: ClassVar[Mapping[str, str]]
    options: ClassVar[str] = ""
    # The statements that create stream_ledger and stream_ledger_history.
    ddl: ClassVar[Sequence[str]]
    # The id of the session. It takes the lock of a name, if it is free. The lock's holder: its id, and its machine.
    session: ClassVar[str]
    try_lock: ClassVar[str]
    lock_holder: ClassVar[str]
    end_session: ClassVar[str]
    # A table, by `named`, gives a row if it is there: why its rows cannot be changed in a transaction, or ''.
    table: ClassVar[str]
    # Its columns: name, type, and whether each row must have it. Its unique indexes: one row for each column.
    columns: ClassVar[str]
    unique: ClassVar[str]
    # Tables whose names begin so.
    tables: ClassVar[str]
    # Empty a staging table between two batches; none: each batch deletes its own rows.
    emptied: ClassVar[Sequence[str]] = ()

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self._address = address

    def __repr__(self) -> str:
        return f"{type(self).__name__.lower()}({self.name!r})"

    def place(self, target: Target) -> str:
        """Return where the ledgers of a target are kept: all of one database are in one table."""
        return self._address

    def driver(self) -> Any:
        """Return the module of its driver.

        :raises SinkError: it is missing.
        """
        try:
            return importlib.import_module(self.module)
        except ImportError:
            raise SinkError(
                f"The module {self.module} is missing here.",
                next_step=f"Install {self.package} for the driver and its executors.",
            ) from None

    def connect(self, application: str, idle_seconds: float = 0.0) -> Any:
        """Return a connection in autocommit mode.

        :param idle_seconds: the server ends the session when it is idle in a transaction for so long; 0: never.
        :raises SinkError: the database cannot be reached, or refuses.
        """
        driver = self.driver()
        try:
            return self.open(application, idle_seconds)
        except driver.Error as error:
            # The error's text may name the user and the host, or quote an address that is none.
            raise SinkError(
                f"The database {self.name} cannot be reached, or refuses the connection ({type(error).__name__}).",
                next_step="See that it runs, and that STREAM_SINK_… or the service file names it rightly. The query "
                "tries again.",
            ) from None

    def copy(self, frame: DataFrame, columns: Sequence[str], staging: str) -> list[tuple[int, int]]:
        """Let the executors copy a frame into a staging table; return number and rows of each task that counts.

        A task that is tried again, or a speculative copy of it, leaves rows that are never merged.

        :raises BadRows: the database does not take a row.
        :raises SinkError: it failed.
        """
        check_times(frame)
        with task_errors(self.name):
            tasks = self.carried_out(frame, columns, self.task(frame.schema, columns, staging))
        refused = next((said for _, _, said in tasks if said), "")
        if refused:
            raise BadRows(
                f"The database {self.name} does not take a row: {refused:.300}.",
                next_step="Correct or leave out such rows in the script, or change the table.",
            )
        return [(number, rows) for number, rows, _ in tasks]

    def carried_out(self, frame: DataFrame, columns: Sequence[str], task: Task) -> list[tuple[int, int, str]]:
        """Run a task for each partition, and return what they return."""
        return self.texts(frame, columns).rdd.mapPartitions(task).collect()

    def created_type(self, field: StructField, in_key: bool) -> str:
        """Return the type of a column that `create=True` makes."""
        return self.created[kind_of(field.dataType)]

    @abstractmethod
    def open(self, application: str, idle_seconds: float) -> Any:
        """Open a connection; see `connect`."""

    @abstractmethod
    def is_closed(self, connection: Any) -> bool:
        """Whether a connection has ended, as far as its last statement has shown."""

    @abstractmethod
    def judged(self, error: Any) -> tuple[bool, str]:
        """Return whether an error is the fault of rows, and what it says without the values that it may quote."""

    @abstractmethod
    def named(self, table: str) -> Sequence[Any]:
        """Return the values by which `table`, `columns` and `unique` find a table."""

    @abstractmethod
    def make_staging(self, connection: Any, target: Target, columns: Sequence[str], staging: str) -> None:
        """Create a staging table for rows of the table, and for the column that marks what is deleted."""

    @abstractmethod
    def texts(self, frame: DataFrame, columns: Sequence[str]) -> DataFrame:
        """Return the rows of a frame as the texts that `task` takes."""

    @abstractmethod
    def task(self, schema: StructType, columns: Sequence[str], staging: str) -> Task:
        """Return what a task does with its rows. Executors may not have this package, so it uses nothing of it."""

    @abstractmethod
    def merge(self, connection: Any, target: Target, columns: Sequence[str], staging: str, ours: str) -> None:
        """Bring the rows of a batch from the staging table into the table; `ours` chooses them, of the table `s`."""


def run(connection: Any, statement: str, values: Sequence[Any] = ()) -> Any:
    """Run a statement, and return its cursor."""
    cursor = connection.cursor()
    cursor.execute(statement, tuple(values))
    return cursor


def quoted(name: str) -> str:
    """Return a name as a part of a statement."""
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def quoted_table(table: str) -> str:
    """Return the name of a table, with or without a schema, as a part of a statement."""
    return ".".join(map(quoted, table.split(".")))


def listed(columns: Sequence[str], template: str = "{}", separator: str = ", ") -> str:
    """Return names as a part of a statement, each in the places of `template`."""
    return separator.join(template.replace("{}", quoted(name)) for name in columns)


def check_table(database: SqlDatabase, connection: Any, target: Target, schema: StructType) -> list[str]:
    """Check that the rows of a batch fit the table, which is created where that is wanted.

    :return: the columns of the rows, in the order of a staging table; the one that marks what is deleted is the last.
    :raises BadRows: they do not fit.
    """
    check_columns(target, schema)
    given = {field.name: field for field in schema.fields}
    rows = {name: field for name, field in given.items() if name != target.delete}
    named = database.named(target.table)
    found = run(connection, database.table, named).fetchone()
    if found is None:
        _create(database, connection, target, rows)
    columns = run(connection, database.columns, named).fetchall()
    check_fit(
        target,
        {name: kind_of(field.dataType) for name, field in rows.items()},
        {name: (kind, needed) for name, kind, needed in columns},
        database.holds.get,
        [found[0]] if found and found[0] else [],
    )
    if target.key and not _is_unique(database, connection, target):
        raise BadRows(
            f"The table {target.table} has no unique index on ({', '.join(target.key)}).",
            next_step="Create it: a row can replace another one only by it.",
            table=target.table,
        )
    return [*rows, *([target.delete] if target.delete else [])]


def _create(database: SqlDatabase, connection: Any, target: Target, rows: Mapping[str, StructField]) -> None:
    check_creatable(type(database).__name__, database.created, rows, target)
    columns = [f"{quoted(name)} {database.created_type(field, name in target.key)}" for name, field in rows.items()]
    if target.key:
        columns.append(f"primary key ({listed(target.key)})")
    table = quoted_table(target.table)
    run(connection, f"create table if not exists {table} ({', '.join(columns)}){database.options}")


def _is_unique(database: SqlDatabase, connection: Any, target: Target) -> bool:
    """Whether an index makes the key unique."""
    indexes: dict[Any, set[str]] = {}
    for index, column in run(connection, database.unique, database.named(target.table)).fetchall():
        indexes.setdefault(index, set()).add(column)
    return set(target.key) in indexes.values()


def check_keys(connection: Any, target: Target, staging: str, ours: str) -> None:
    """Check that each row of a batch has a key, and that no two have the same.

    :param ours: chooses the rows of the batch.
    :raises BadRows: one has none, or two have the same.
    """
    if not target.key:
        return
    none = f"max(case when {listed(target.key, '{} is null', ' or ')} then 1 else 0 end)"
    found = run(
        connection,
        f"select {none} from {staging} s where {ours} group by {listed(target.key)} "
        f"having count(*) > 1 or {none} = 1 limit 1",
    ).fetchone()
    if found:
        raise no_key(target) if found[0] else same_key(target)
