"""A keyspace of Cassandra for one test, rows of a batch without Spark, and a proxy that loses one answer."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import LongType, StringType, StructField, StructType

from airflow_stream_provider.sinks.cassandra import Cassandra
from airflow_stream_provider.sinks.ledger import BadRows, Target, Writer
from devstack.cassandra import CassandraNode
from tests.support.ledgers import MANAGED

SCHEMA = StructType([StructField("id", LongType()), StructField("name", StringType())])
KEYED = Target("orders", ("id",))


@contextlib.contextmanager
def keyspace(node: CassandraNode) -> Iterator[tuple[str, Any]]:
    """Yield the URL of a new keyspace, and a session in it."""
    session = Cassandra("admin", node.url).connect()
    try:
        name = f"t{uuid.uuid4().hex}"
        session.execute(
            f"create keyspace {name} with replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        )
        session.set_keyspace(name)
        yield node.url.replace(f"/{node.keyspace}", f"/{name}"), session
    finally:
        session.cluster.shutdown()


@dataclass(frozen=True)
class Rows:
    """A batch: its columns, and rows as `converted` makes them, each with whether it is deleted."""

    schema: StructType
    rows: Sequence[tuple[Any, ...]]


def numbers(begins: int, ends: int, name: str = "name") -> Rows:
    """Return a row for each number."""
    return Rows(SCHEMA, [(number, f"{name} {number}", False) for number in range(begins, ends)])


def upserted(database: Cassandra, frame: Any, target: Target, types: Mapping[str, str], stamp: int) -> int:
    """In place of `Cassandra.upsert`: the real function of a task, in this process, without the checks in Spark."""
    found = list(database.writing(target, types, stamp)(iter(frame.rows)))
    for _, said in found:
        if said:
            raise BadRows(f"The database {database.name} does not take a row: {said}.", next_step="-")
    return sum(rows for rows, _ in found)


class Shop:
    """A keyspace of one test's own with a table, and ledgers in it.

    :param url: the keyspace.
    :param session: one in it.
    """

    def __init__(self, url: str, session: Any) -> None:
        self.url = url
        self.session = session
        self.made: list[Any] = []
        session.execute("create table orders (id bigint primary key, name text)")

    def ledger(self, writer: Writer = MANAGED, target: Target = KEYED, url: str = "") -> Any:  # its frames are `Rows`
        """Return a ledger that is claimed."""
        self.made.append(Cassandra("shop", url or self.url).ledger(writer, target))
        self.made[-1].claim()
        return self.made[-1]

    def names(self) -> list[str]:
        """Return the names in the table, by their ids."""
        return [row.name for row in sorted(self.session.execute("select * from orders"))]

    def history(self) -> list[Any]:
        """Return the batches that the ledger knows, oldest first."""
        where = "stream = 'orders' and query = 'daily' and slot > 0"
        return sorted(self.session.execute(f"select * from stream_ledger where {where}"), key=lambda row: row.stamp)


class Proxy:
    """Forwards connections to a port. `lose` is what the next piece meets: its "request" or its "answer" is lost."""

    def __init__(self, port: int) -> None:
        self.lose = ""
        self.lost: list[str] = []
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._to)) as server:
            while True:
                for source in select.select([client, server], [], [])[0]:
                    try:
                        piece = source.recv(65536)
                    except OSError:
                        return
                    what = "request" if source is client else "answer"
                    if not piece:
                        return
                    if self.lose == what:
                        # Gone, with the connection.
                        self.lose = ""
                        self.lost.append(what)
                        return
                    (server if source is client else client).sendall(piece)
