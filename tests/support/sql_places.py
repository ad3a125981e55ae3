"""A database of one kind of server, as tests look into it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from airflow_stream_provider.sinks.mariadb import mariadb
from airflow_stream_provider.sinks.postgres import postgres
from airflow_stream_provider.sinks.sql_database import SqlDatabase, run


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

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run a statement in a session of its own; return its rows."""
        with closing(self.database.connect("test")) as connection:
            cursor = run(connection, statement, values)
            return list(cursor.fetchall()) if cursor.description else []

    def counted(self, table: str = "orders") -> tuple[int, int]:
        """Rows, and orders."""
        ((rows, orders),) = self.run(f"select count(*), count(distinct id) from {table}")
        return int(rows), int(orders)


class StandInHook:
    """In place of the hook of an Airflow connection: it runs the same statements."""

    def __init__(self, place: SqlPlace) -> None:
        self._place = place

    def get_records(self, statement: str, parameters: Any) -> list[Any]:
        return self._place.run(statement, parameters)

    def run(self, statement: str, parameters: Any) -> None:
        self._place.run(statement, parameters)
