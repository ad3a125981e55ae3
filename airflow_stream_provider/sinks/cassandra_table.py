"""A table of Cassandra as the target of batches: checked by name and type, and rows as its types take them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from airflow_stream_provider.sinks.given import (
    check_columns,
    check_creatable,
    check_fit,
    in_backticks,
    kind_of,
    same_key,
    text_of,
)
from airflow_stream_provider.sinks.ledger import BadRows, Target

# By Spark's type, the types of Cassandra that hold all of its values; `timestamp` holds those of whole milliseconds.
HOLDS = {
    "boolean": {"boolean", "text"},
    "tinyint": {"tinyint", "smallint", "int", "bigint", "varint", "text"},
    "smallint": {"smallint", "int", "bigint", "varint", "text"},
    "int": {"int", "bigint", "varint", "text"},
    "bigint": {"bigint", "varint", "text"},
    "float": {"float", "double", "text"},
    "double": {"double", "text"},
    "decimal": {"decimal", "text"},
    "string": {"text", "uuid", "timeuuid"},
    "date": {"date", "text"},
    "timestamp": {"timestamp", "text"},
    "timestamp_ntz": {"text"},
    "binary": {"blob"},
    "struct": {"text"},
    "array": {"text"},
    "map": {"text"},
}
# The types of columns that `create=True` makes.
CREATED = {
    **{kind: kind for kind in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal")},
    **{kind: kind for kind in ("date", "timestamp")},
    **dict.fromkeys(("string", "timestamp_ntz", "struct", "array", "map"), "text"),
    "binary": "blob",
}
# A text in one form only: two forms of one key would be two keys to Spark, and one to Cassandra.
_UUID = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"


def quoted(name: str) -> str:
    """Return a name as CQL takes it, whatever is in it."""
    return '"{}"'.format(name.replace('"', '""'))


def named(target: Target, keyspace: str) -> tuple[str, str]:
    """Return keyspace and table of a target.

    :param keyspace: that of a table without one.
    """
    before, dot, after = target.table.partition(".")
    return (before, after) if dot else (keyspace, before)


def check_table(
    session: Any, keyspace: str, target: Target, schema: StructType, *, rehearsing: bool = False
) -> dict[str, str]:
    """Check that the rows of a batch fit the table, which is created where that is wanted.

    :param keyspace: that of a table without one.
    :param rehearsing: no table is created: it is as if it were.
    :return: the table's types by the columns of the rows; without the column that marks what is deleted.
    :raises BadRows: they do not fit.
    """
    check_columns(target, schema)
    given = {field.name: field for field in schema.fields}
    rows = {name: field for name, field in given.items() if name != target.delete}
    place = named(target, keyspace)
    found = "select table_name from system_schema.tables where keyspace_name = %s and table_name = %s"
    if session.execute(found, place).one() is None:
        statement = _creation(session, place, target, rows)
        if rehearsing:
            return {name: CREATED[kind_of(field.dataType)] for name, field in rows.items()}
        session.execute(statement)
    columns = {
        row.column_name: row
        for row in session.execute(
            "select column_name, kind, type from system_schema.columns where keyspace_name = %s and table_name = %s",
            place,
        )
    }
    static = [name for name in rows if name in columns and columns[name].kind == "static"]
    check_fit(
        target,
        {name: kind_of(field.dataType) for name, field in rows.items()},
        {name: (row.type, False) for name, row in columns.items()},
        lambda kind: HOLDS.get(kind, set()),
        [f"{name} is static in the table, so rows of several keys would replace each other's" for name in static],
    )
    primary = [name for name, row in columns.items() if row.kind in ("partition_key", "clustering")]
    if set(primary) != set(target.key):
        raise BadRows(
            f"The primary key of the table {target.table} is ({', '.join(sorted(primary))}), and the sink's key is "
            f"({', '.join(target.key)}).",
            next_step="Name the columns of the table's primary key in `key`: rows replace each other by them only.",
            table=target.table,
        )
    return {name: columns[name].type for name in rows}


def _creation(session: Any, place: tuple[str, str], target: Target, rows: Mapping[str, StructField]) -> str:
    check_creatable("Cassandra", CREATED, rows, replace(target, table=".".join(place)))
    if session.execute("select * from system_schema.keyspaces where keyspace_name = %s", place[:1]).one() is None:
        raise BadRows(
            f"There is no keyspace {place[0]}, or this user may not see it.",
            next_step="Create it: how often it keeps each row is for you to decide.",
            table=target.table,
        )
    columns = [f"{quoted(name)} {CREATED[kind_of(field.dataType)]}" for name, field in rows.items()]
    columns.append(f"primary key ({', '.join(map(quoted, target.key))})")
    return f"create table if not exists {'.'.join(map(quoted, place))} ({', '.join(columns)})"


def converted(frame: DataFrame, target: Target, types: Mapping[str, str]) -> DataFrame:
    """Return rows as Cassandra's driver takes them: columns c0, c1 and so on, by the order of `types`.

    One more, `gone`, marks what is deleted; the last, `why_not`, says why no table takes the row.
    """
    given = {field.name: field.dataType for field in frame.schema.fields}
    columns, forbidden = [], []
    for number, (name, into) in enumerate(types.items()):
        source = in_backticks(name)
        columns.append(_value(name, given[name], into).alias(f"c{number}"))
        if into == "timestamp":
            why = f"{name} has microseconds, and the table holds milliseconds"
            forbidden.append(F.when(F.expr(f"unix_micros({source}) % 1000 <> 0"), F.lit(why)))
        if into in ("uuid", "timeuuid"):
            forbidden.append(F.when(~F.lower(F.col(source)).rlike(_UUID), F.lit(f"{name} is no UUID")))
        if name in target.key:
            forbidden.append(F.when(F.col(source).isNull(), F.lit(f"{name} is null, and a part of the key")))
    gone = F.coalesce(F.col(in_backticks(target.delete)), F.lit(False)) if target.delete else F.lit(False)
    return frame.select(*columns, gone.alias("gone"), F.coalesce(*forbidden).alias("why_not"))


def check_rows(rows: DataFrame, target: Target, types: Mapping[str, str]) -> int:
    """Check what `converted` has made, in one job; return the number of rows.

    :raises BadRows: two rows have the same key, or a row is not for this table.
    """
    keys = [f"c{number}" for number, name in enumerate(types) if name in target.key]
    # As many tasks as the batch has, whatever Spark's default is.
    by_key = rows.repartition(max(1, rows.rdd.getNumPartitions()), *keys).groupBy(*keys)
    each = by_key.agg(F.count(F.lit(1)).alias("times"), F.max("why_not").alias("why_not"))
    (found,) = each.agg(F.max("times"), F.max("why_not"), F.sum("times")).collect()
    times, why_not, count = found
    if why_not:
        raise BadRows(
            f"A row is not for the table {target.table}: {why_not}.",
            next_step="Correct or leave out such rows in the script, or change the table.",
            table=target.table,
        )
    if (times or 0) > 1:
        raise same_key(target)
    return count or 0


def _value(name: str, of: DataType, into: str) -> Column:
    column = in_backticks(name)
    if into == "timestamp":
        return F.expr(f"unix_millis({column})")
    if into in ("uuid", "timeuuid"):
        return F.expr(f"lower({column})")
    return F.expr(text_of(name, of) if into == "text" else column)
