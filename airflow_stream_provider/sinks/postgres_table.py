"""A table of PostgreSQL as the target of batches: checked by name and type, filled from a staging table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import BooleanType, StructField, StructType

from airflow_stream_provider.sinks.ledger import BadRows
from airflow_stream_provider.sinks.postgres import CREATED, HOLDS, kind_of

# Columns of a staging table besides those of the rows: which try of the batch, and which attempt of a task.
MARK, ATTEMPT = "_mark", "_attempt"


@dataclass(frozen=True)
class Target:
    """A table, and how rows get into it.

    :param table: its name, with or without a schema.
    :param key: its columns by which rows replace each other; empty: rows are appended.
    :param delete: a boolean column of the batch, not of the table: true of a row that removes its key; empty: none.
    :param create: whether a missing table is created.
    """

    table: str
    key: Sequence[str] = ()
    delete: str = ""
    create: bool = False

    @property
    def identifier(self) -> Any:
        """The name as a part of a statement."""
        from psycopg import sql

        return sql.Identifier(*self.table.split("."))


def statement(template: str, *parts: Any) -> Any:
    """Return a statement with names quoted: each part is a name, a Target or another statement."""
    from psycopg import sql

    return sql.SQL(template).format(*(_part(each) for each in parts))


def _part(part: Any) -> Any:
    from psycopg import sql

    return part.identifier if isinstance(part, Target) else sql.Identifier(part) if isinstance(part, str) else part


def _names(columns: Sequence[str], template: str = "{}") -> Any:
    """Return these names, separated by commas; `template` has each of them as often as it has places."""
    from psycopg import sql

    return sql.SQL(", ").join(statement(template, *[name] * template.count("{}")) for name in columns)


def check_table(connection: Any, target: Target, schema: StructType) -> list[str]:
    """Check that the rows of a batch fit the table, which is created where that is wanted.

    :return: the columns of the rows, in the order of a staging table; the one that marks what is deleted is the last.
    :raises BadRows: they do not fit.
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
    rows = {name: field for name, field in given.items() if name != target.delete}
    name = target.identifier.as_string(connection)
    if connection.execute("select to_regclass(%s)", (name,)).fetchone()[0] is None:
        _create(connection, target, rows)
    wrong = _differences(connection, name, rows)
    if wrong:
        raise BadRows(
            f"The batch does not fit the table {target.table}: {'; '.join(wrong)}.",
            next_step="Change the table, or select and cast the columns in the script.",
            table=target.table,
        )
    if target.key and not _is_unique(connection, name, target.key):
        raise BadRows(
            f"The table {target.table} has no unique index on ({', '.join(target.key)}).",
            next_step="Create it: a row can replace another one only by it.",
            table=target.table,
        )
    return [*rows, *([target.delete] if target.delete else [])]


def _differences(connection: Any, name: str, rows: Mapping[str, StructField]) -> list[str]:
    found = {
        column: (kind, needed)
        for column, kind, needed in connection.execute(
            "select a.attname::text, t.typname::text, a.attnotnull and not a.atthasdef and a.attidentity = '' "
            "from pg_attribute a join pg_type t on t.oid = a.atttypid "
            "where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped",
            (name,),
        ).fetchall()
    }
    wrong = []
    for column, field in rows.items():
        kind = kind_of(field.dataType)
        if column not in found:
            wrong.append(f"the table has no column {column}")
        elif kind in HOLDS and found[column][0] not in HOLDS[kind]:
            wrong.append(f"{column} is {kind} in the batch and {found[column][0]} in the table")
    wrong += [f"{column} may not be null, and the batch does not have it" for column in _needed(found, rows)]
    return wrong


def _needed(found: Mapping[str, tuple[str, bool]], rows: Mapping[str, StructField]) -> list[str]:
    return [column for column, (_, needed) in found.items() if needed and column not in rows]


def _create(connection: Any, target: Target, rows: Mapping[str, StructField]) -> None:
    from psycopg import sql

    if not target.create:
        raise BadRows(
            f"There is no table {target.table}, or this user may not see it.",
            next_step="Create it, or let the sink do so with create=True.",
            table=target.table,
        )
    columns = [statement("{} " + CREATED[kind_of(field.dataType)], name) for name, field in rows.items()]
    if target.key:
        columns.append(statement("primary key ({})", _names(target.key)))
    connection.execute(statement("create table if not exists {} ({})", target, sql.SQL(", ").join(columns)))


def _is_unique(connection: Any, name: str, key: Sequence[str]) -> bool:
    """Whether an index makes the key unique."""
    found = connection.execute(
        "select array_agg(a.attname::text) from pg_index i join pg_attribute a on a.attrelid = i.indrelid "
        "and a.attnum = any(i.indkey) where i.indrelid = to_regclass(%s) and i.indisunique and i.indpred is null "
        "group by i.indexrelid",
        (name,),
    ).fetchall()
    return any(set(names) == set(key) for (names,) in found)


def make_staging(connection: Any, target: Target, columns: Sequence[str], name: str) -> None:
    """Create a staging table for rows of the table. It is not logged: after a crash of the server it is empty."""
    real = [column for column in columns if column != target.delete]
    deletes = statement(", null::boolean as {}", target.delete) if target.delete else statement("")
    connection.execute(
        statement(
            "create unlogged table {} as select null::uuid as {}, null::bigint as {}, {}{} from {} with no data",
            name,
            MARK,
            ATTEMPT,
            _names(real),
            deletes,
            target,
        )
    )


def check_keys(connection: Any, target: Target, staging: str, ours: tuple[str, list[int]]) -> None:
    """Check that no two rows of a batch have the same key.

    :param ours: the mark of the batch, and the attempts whose rows count.
    :raises BadRows: two have.
    """
    if not target.key:
        return
    keys = _names(target.key)
    chosen = statement("select 1 from {} where {} = %s and {} = any(%s) group by ", staging, MARK, ATTEMPT)
    if connection.execute(chosen + keys + statement(" having count(*) > 1 limit 1"), ours).fetchone():
        raise BadRows(
            f"Several rows of the batch have the same key ({', '.join(target.key)}).",
            next_step="Keep one row of each key in the script, such as the one with the highest offset.",
            key=target.key,
        )


def merge(connection: Any, target: Target, columns: Sequence[str], staging: str, ours: tuple[str, list[int]]) -> None:
    """Bring the rows of a batch from the staging table into the table; see `check_keys`."""
    real = [column for column in columns if column != target.delete]
    added = statement(
        "insert into {} ({}) select {} from {} where {} = %s and {} = any(%s)",
        target,
        _names(real),
        _names(real),
        staging,
        MARK,
        ATTEMPT,
    )
    if target.delete:
        same = " and ".join(["t.{} = s.{}"] * len(target.key))
        connection.execute(
            statement(
                "delete from {} t using {} s where s.{} = %s and s.{} = any(%s) and s.{} and " + same,
                target,
                staging,
                MARK,
                ATTEMPT,
                target.delete,
                *(each for name in target.key for each in (name, name)),
            ),
            ours,
        )
        added += statement(" and {} is not true", target.delete)
    if target.key:
        others = [column for column in real if column not in target.key]
        changed = _names(others, "{} = excluded.{}")
        does = statement("update set {}", changed) if others else statement("nothing")
        added += statement(" on conflict ({}) do {}", _names(target.key), does)
    connection.execute(added, ours)
