"""Rows of a batch without Spark: lines that one task copies into a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import LongType, StringType, StructField, StructType

from airflow_stream_provider.sinks.ledger import BadRows
from airflow_stream_provider.sinks.postgres import Postgres
from airflow_stream_provider.sinks.sql_database import SqlDatabase

SCHEMA = StructType([StructField("id", LongType()), StructField("name", StringType())])


@dataclass(frozen=True)
class Rows:
    """A batch.

    :param lines: as COPY has them: tabs between values, and \\N for null.
    :param again: so many attempts of the task write all lines, and do not count.
    """

    schema: StructType
    lines: Sequence[str]
    again: int = 0


def numbers(begins: int, ends: int) -> Rows:
    """Return a row for each number."""
    return Rows(SCHEMA, [f"{number}\tname {number}" for number in range(begins, ends)])


def copied(database: SqlDatabase, frame: Any, columns: Sequence[str], staging: str) -> list[tuple[int, int]]:
    """In place of `SqlDatabase.copy`: the real function of a task, in this process."""
    task = database.task(frame.schema, columns, staging)
    for _ in range(frame.again + 1):
        found = list(task(_texts(database, line) for line in frame.lines))
    for _, _, said in found:
        if said:
            raise BadRows(f"The database {database.name} does not take a row: {said}.", next_step="-")
    return [(number, rows) for number, rows, _ in found]


def _texts(database: SqlDatabase, line: str) -> Any:
    return f"{line}\n" if isinstance(database, Postgres) else tuple(None if t == "\\N" else t for t in line.split("\t"))
