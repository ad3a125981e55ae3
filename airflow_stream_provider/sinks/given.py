"""The address of a sink, and what sinks ask of a batch: columns, keys, values as text, and tasks that write it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BooleanType, DataType, MapType, StructField, StructType, TimestampType

from airflow_stream_provider.sinks.ledger import BadRows, SinkError, Target

# A task raises it with the kind of the driver's error alone, whose text may name user and host, or quote a row.
NOT_TAKEN = "The sink's database does not take rows"
_DAY = 86_400_000_000
# Quotes in quotes have several syntaxes.
_TO_MICROSECONDS = "concat('yyyy-MM-dd', char(39), 'T', char(39), 'HH:mm:ss.SSSSSS')"
_LEGACY = "spark.sql.legacy.timeParserPolicy"


def address_of(name: str) -> str:
    """Return the address of a database from the environment, or from the file that it names; empty: it has none.

    :raises SinkError: it is no name.
    """
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise SinkError(
            f"{name!r} is no name of a database.", next_step="Use letters, digits, dots, hyphens and underscores."
        )
    variable = "STREAM_SINK_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
    if os.environ.get(f"{variable}_FILE") and not os.environ.get(variable):
        return Path(os.environ[f"{variable}_FILE"]).read_text().strip()
    return os.environ.get(variable, "")


def kind_of(of: DataType) -> str:
    """Return the name of a type without its parameters."""
    return of.simpleString().partition("(")[0].partition("<")[0]


def in_backticks(name: str) -> str:
    """Return a name as Spark's SQL quotes it."""
    return "`" + name.replace("`", "``") + "`"


def text_of(name: str, of: DataType) -> str:
    """Return the expression of a column's text in Spark's SQL, which loses nothing of a value.

    A timestamp is in UTC, whatever the session's time zone is.
    """
    column, kind = in_backticks(name), kind_of(of)
    if kind == "timestamp":
        # By no pattern: those lose the seconds of old offsets, and mean other things in a session of the policy LEGACY.
        days, rest = f"cast(unix_micros({column}) div {_DAY} as int)", f"unix_micros({column}) % {_DAY}"
        since = f"make_dt_interval({days}, 0, 0, cast({rest} as decimal(12, 0)) / 1000000)"
        return f"concat(cast(timestamp_ntz'1970-01-01 00:00:00' + {since} as string), '+00:00')"
    if kind in ("struct", "array", "map"):
        patterns = f"'timestampNTZFormat', {_TO_MICROSECONDS}"
        if _has_times(of):  # the policy LEGACY has no such pattern
            patterns += f", 'timestampFormat', concat({_TO_MICROSECONDS}, 'XXXXX')"
        return f"to_json({column}, map({patterns}))"
    return f"cast({column} as string)"


def check_times(frame: DataFrame) -> None:
    """Check that Spark writes times that are in structs, arrays and maps as they are.

    :raises BadRows: it does not, in a session of the policy LEGACY.
    """
    # Each frame has a schema, and few have such times: the session is asked for them only.
    names = [field.name for field in frame.schema.fields if _has_times(field.dataType)]
    if names and str(frame.sparkSession.conf.get(_LEGACY)).upper() == "LEGACY":
        raise BadRows(
            f"{_LEGACY} is LEGACY, by which Spark cuts off microseconds of the times in {', '.join(names)}.",
            next_step="Unset it, or cast these times to strings in the script.",
        )


def _has_times(of: DataType, nested: bool = False) -> bool:
    if isinstance(of, StructType):
        return any(_has_times(field.dataType, True) for field in of.fields)
    if isinstance(of, ArrayType):
        return _has_times(of.elementType, True)
    if isinstance(of, MapType):
        return _has_times(of.keyType, True) or _has_times(of.valueType, True)
    return nested and isinstance(of, TimestampType)


@contextlib.contextmanager
def task_errors(name: str) -> Iterator[None]:
    """Say of tasks that a database does not take their rows. Errors of other kinds are the script's, and stay.

    :param name: of the database, for people.
    :raises SinkError: it failed.
    """
    try:
        yield
    except (Py4JError, PySparkException, RuntimeError) as error:
        kind = re.search(rf"{NOT_TAKEN} \((\w+)\)", str(error))
        if kind is None:
            raise
        raise SinkError(
            f"The database {name} failed while rows were copied ({kind[1]}).",
            next_step="See its log. The query tries again.",
        ) from None


def check_columns(target: Target, schema: StructType) -> None:
    """Check that a batch has what `key` and `delete` name.

    :raises BadRows: it has not.
    """
    given = {field.name: field for field in schema.fields}
    for name in (*target.key, *([target.delete] if target.delete else [])):
        if name not in given:
            raise BadRows(
                f"The batch has no column {name!r}; it has {', '.join(given)}.",
                next_step="Name columns of the batch in `key` and `delete`.",
                column=name,
            )
    if target.delete and not (target.key and isinstance(given[target.delete].dataType, BooleanType)):
        raise BadRows(
            f"The column {target.delete!r} marks what is deleted: it must be a boolean, and the sink needs a key.",
            next_step="Make it a boolean, true of a row that removes its key, and name the key.",
        )


def check_fit(
    target: Target,
    rows: Mapping[str, str],
    table: Mapping[str, tuple[str, bool]],
    holds: Callable[[str], Set[str] | None],
    wrong: Sequence[str] = (),
) -> None:
    """Check that the columns of a batch fit those of its table.

    :param rows: types of the batch's columns.
    :param table: types of the table's columns, and whether each row must have it.
    :param holds: returns the types that hold all values of a batch's type; None: the column decides.
    :param wrong: what is wrong besides.
    :raises BadRows: they do not fit.
    """
    found = list(wrong)
    for name, kind in rows.items():
        allowed = holds(kind)
        if name not in table:
            found.append(f"the table has no column {name}")
        elif allowed is not None and table[name][0] not in allowed:
            found.append(f"{name} is {kind} in the batch and {table[name][0]} in the table")
    absent = (name for name, (_, needed) in table.items() if needed and name not in rows)
    found += [f"{name} may not be null, and the batch does not have it" for name in absent]
    if found:
        raise BadRows(
            f"The batch does not fit the table {target.table}: {'; '.join(found)}.",
            next_step="Change the table, or select and cast the columns in the script.",
            table=target.table,
        )


def same_key(target: Target) -> BadRows:
    """Return the error of a batch in which rows have the same key."""
    return BadRows(
        f"Several rows of the batch have the same key ({', '.join(target.key)}).",
        next_step="Keep one row of each key in the script, such as the one with the highest offset.",
        key=target.key,
    )


def no_key(target: Target) -> BadRows:
    """Return the error of a batch with a row that has null in its key."""
    return BadRows(
        f"A row of the batch has no value in key ({', '.join(target.key)}).",
        next_step="Leave out such rows in the script, or choose a key that each row has.",
        key=target.key,
    )


def check_creatable(kind: str, created: Mapping[str, Any], rows: Mapping[str, StructField], target: Target) -> None:
    """Check that a table can be created for rows, where that is wanted.

    :param kind: of the database, for people.
    :param created: its types by Spark's.
    :raises BadRows: it cannot, or is not to be.
    """
    if not target.create:
        raise BadRows(
            f"There is no table {target.table}, or this user may not see it.",
            next_step="Create it, or let the sink do so with create=True.",
            table=target.table,
        )
    unknown = [column for column, field in rows.items() if kind_of(field.dataType) not in created]
    if unknown:
        raise BadRows(
            f"{kind} has no type for {', '.join(unknown)}.",
            next_step="Cast such columns in the script, such as to a string.",
            table=target.table,
        )
