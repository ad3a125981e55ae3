"""A database of one kind of server, as tests look into it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from airflow_stream_provider.sinks.ledger import Target, Writer
from airflow_stream_provider.sinks.mariadb import mariadb
from airflow_stream_provider.sinks.postgres import postgres
from airflow_stream_provider.sinks.sql_database import SqlDatabase, run
from airflow_stream_provider.sinks.sql_ledger import SqlLedger
from tests.support import ledgers

MANAGED = replace(ledgers.MANAGED, lease_seconds=5.0)
TARGET = Target("orders")


@dataclass(frozen=True)
class SqlPlace:
    """Where a database is.

    :param kind: postgres or mariadb.
    :param address: its DSN or URL.
    """

    kind: str
    address: str

    @property
    def database(self) -> SqlDatabase:
        """The database, as a sink has it."""
        if self.kind == "postgres":
            return postgres("orders_db", dsn=self.address)
        return mariadb("orders_db", url=self.address)

    def ledger(self, writer: Writer = MANAGED, target: Target = TARGET) -> Any:  # its frames are `Rows`
        """Return a ledger that is claimed."""
        found = SqlLedger(self.database, writer, target)
        found.claim()
        return found

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run a statement in a session of its own; return its rows."""
        with closing(self.database.connect("test")) as connection:
            cursor = run(connection, statement, values)
            return list(cursor.fetchall()) if cursor.description else []

    def counted(self, table: str = "orders") -> tuple[int, int]:
        """Rows, and orders."""
        ((rows, orders),) = self.run(f"select count(*), count(distinct id) from {table}")
        return int(rows), int(orders)

    @contextmanager
    def late_task(self, staging: str) -> Iterator[Any]:
        """Yield the session of a task of an earlier batch, which has copied a row and does not end."""
        with closing(self.database.connect("a task")) as task:
            run(task, "begin")
            first = {"postgres": "null", "mariadb": "1, 1"}[self.kind]
            run(task, f"insert into {staging} values ({first}, 7, 'late')")
            yield task


class StandInHook:
    """In place of the hook of an Airflow connection: it runs the same statements."""

    def __init__(self, place: SqlPlace) -> None:
        self._place = place

    def get_records(self, statement: str, parameters: Any) -> list[Any]:
        return self._place.run(statement, parameters)

    def run(self, statement: str, parameters: Any) -> None:
        self._place.run(statement, parameters)
