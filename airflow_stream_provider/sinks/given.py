"""The address of a sink, and the columns and keys that every sink asks of a batch."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pyspark.sql.types import BooleanType, DataType, StructType

from airflow_stream_provider.sinks.ledger import BadRows, SinkError, Target


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


def same_key(target: Target) -> BadRows:
    """Return the error of a batch in which rows have the same key."""
    return BadRows(
        f"Several rows of the batch have the same key ({', '.join(target.key)}).",
        next_step="Keep one row of each key in the script, such as the one with the highest offset.",
        key=target.key,
    )
