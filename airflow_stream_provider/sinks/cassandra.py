"""Cassandra: how it is reached, and how executors write rows into a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from airflow_stream_provider.sinks.cassandra_ledger import CassandraLedger
from airflow_stream_provider.sinks.cassandra_table import check_rows, converted, named, quoted
from airflow_stream_provider.sinks.given import NOT_TAKEN, address_of, check_times, task_errors
from airflow_stream_provider.sinks.ledger import BadRows, SinkError, Target, Writer

PORT = 9042
# A request waits so long for its answer.
REQUEST_SECONDS = 20.0
# Rows that a task hands over at once, and how many of them are on their way.
_CHUNK, _CONCURRENT = 1000, 64


def cassandra(name: str = "", *, url: str = "") -> Cassandra:
    """Name a keyspace of Cassandra.

    :param name: where its address and password come from, the first of: the environment variable STREAM_SINK_NAME; the
        file that STREAM_SINK_NAME_FILE names. It is a URL: `cassandra://user:password@host1,host2:9042/keyspace`.
    :param url: the URL itself instead, for tests.
    :raises SinkError: there is none, or it is no such URL.
    """
    return Cassandra(name or "cassandra", url or address_of(name))


class Cassandra:
    """One keyspace; see `cassandra`. Its text never shows the address or a password."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        try:
            parts = urlsplit(url)
            scheme, hosts, port = parts.scheme, (parts.hostname or "").split(","), parts.port or PORT
        except ValueError:  # its text is a part of the URL
            scheme = ""
        self.keyspace = unquote(parts.path.strip("/")) if scheme == "cassandra" else ""
        if not (self.keyspace and all(hosts)):
            raise SinkError(
                f"The database {self.name} has no address of a keyspace of Cassandra.",
                next_step="Set STREAM_SINK_… to cassandra://user:password@host1,host2:9042/keyspace, or "
                "STREAM_SINK_…_FILE to a file with it.",
            )
        self._url = url
        self._open = _opening(hosts, port, unquote(parts.username or ""), unquote(parts.password or ""))

    def __repr__(self) -> str:
        return f"cassandra({self.name!r})"

    def place(self, target: Target) -> str:
        """Return where the ledgers of a target are kept: all of one keyspace are in one table."""
        return self._url

    def connect(self) -> Any:
        """Return a session, which ends with its cluster: `session.cluster.shutdown()`.

        :raises SinkError: the database cannot be reached, or refuses, or its module is missing.
        """
        try:
            return self._open()
        except ImportError:
            reason, next_step = "the module cassandra-driver is missing here", "Install it for driver and executors."
        # The driver's errors have no kind in common, and their texts name addresses.
        except Exception as error:  # noqa: BLE001
            reason = type(error).__name__
            next_step = "See that it runs, and that STREAM_SINK_… names it rightly. The query tries again."
            if reason == "DependencyException":
                next_step = "Install cassandra-driver's wheel: built from source it may lack an event loop."
        raise SinkError(
            f"The database {self.name} cannot be reached, or refuses the connection ({reason}).", next_step=next_step
        )

    def ledger(self, writer: Writer, target: Target) -> CassandraLedger:
        """Return the ledger of one query, for one writer.

        :raises BadRows: rows are to be appended.
        """
        if not target.key:
            raise BadRows(
                f"The sink appends rows to {target.table}, and Cassandra has no transaction for a batch: one that is "
                "run again would append its rows twice.",
                next_step="Name the columns of the table's primary key: exactly_once(..., key=['id']).",
                table=target.table,
            )
        return CassandraLedger(self, writer, target)

    def upsert(self, frame: DataFrame, target: Target, types: Mapping[str, str], stamp: int) -> int:
        """Let the executors write a batch; return the number of rows.

        :param types: the table's types, by column.
        :param stamp: the write time of all rows, in microseconds.
        :raises BadRows: two rows have the same key, or the table does not take a row; some may have been written.
        :raises SinkError: the database failed.
        """
        check_times(frame)
        # Computed once for the check and for the writing.
        rows = converted(frame, target, types).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            count = check_rows(rows, target, types)
            task = self.writing(target, types, stamp)
            with task_errors(self.name):
                tasks = rows.drop("why_not").rdd.mapPartitions(task).collect()
        finally:
            rows.unpersist()
        refused = next((said for _, said in tasks if said), "")
        if refused:
            raise BadRows(
                f"The database {self.name} does not take a row: {refused:.300}. Others of the batch may be in the "
                "table; the ledger does not have them.",
                next_step="Correct or leave out such rows in the script, or change the table.",
            )
        written = sum(each for each, _ in tasks)
        if written != count:
            raise SinkError(
                f"The batch had {count} rows when it was checked, and {written} when it was written.",
                next_step="Nothing, if an executor was lost meanwhile: the query runs the batch anew.",
            )
        return count

    def writing(
        self, target: Target, types: Mapping[str, str], stamp: int
    ) -> Callable[[Iterable[Any]], Iterator[tuple[int, str]]]:
        """Return the function of a task, which takes rows of `converted` and returns their number."""
        table = ".".join(map(quoted, named(target, self.keyspace)))
        names, places = ", ".join(map(quoted, types)), ", ".join("?" * len(types))
        keys = [number for number, name in enumerate(types) if name in target.key]
        where = " and ".join(f"{quoted(name)} = ?" for name in types if name in target.key)
        return _writing(
            self._open,
            f"insert into {table} ({names}) values ({places}) using timestamp ?",
            f"delete from {table} using timestamp ? where {where}",
            keys,
            [number for number, kind in enumerate(types.values()) if kind in ("uuid", "timeuuid")],
            stamp,
        )

    def check(self, frame: DataFrame, target: Target, types: Mapping[str, str]) -> None:
        """Check the rows of a batch without writing.

        :raises BadRows: two rows have the same key, or a row is not for this table.
        """
        check_times(frame)
        check_rows(converted(frame, target, types), target, types)


def _opening(hosts: list[str], port: int, user: str, password: str) -> Callable[[], Any]:
    """Return what opens a session. Executors may not have this package, so it uses nothing of it."""
    seconds = REQUEST_SECONDS

    def opened() -> Any:
        from cassandra import ConsistencyLevel
        from cassandra.auth import PlainTextAuthProvider
        from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
        from cassandra.policies import ConstantReconnectionPolicy, DCAwareRoundRobinPolicy, FallthroughRetryPolicy

        profile = ExecutionProfile(
            # In every data centre: the ledger must not have rows that are lost with one.
            consistency_level=ConsistencyLevel.QUORUM,
            serial_consistency_level=ConsistencyLevel.SERIAL,
            load_balancing_policy=DCAwareRoundRobinPolicy(),
            retry_policy=FallthroughRetryPolicy(),
            request_timeout=seconds,
        )
        cluster = Cluster(
            hosts,
            port=port,
            auth_provider=PlainTextAuthProvider(user, password) if user else None,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            # The oldest that has all that is needed; nothing is tried out.
            protocol_version=4,
            connect_timeout=seconds,
            reconnection_policy=ConstantReconnectionPolicy(1.0, max_attempts=None),
            schema_metadata_enabled=False,
            token_metadata_enabled=False,
        )
        try:
            return cluster.connect()
        except BaseException:
            cluster.shutdown()
            raise

    return opened


def _writing(
    opened: Callable[[], Any], insert: str, delete: str, keys: list[int], uuids: list[int], stamp: int
) -> Callable[[Iterable[Any]], Iterator[tuple[int, str]]]:
    """Return the function of a task. Executors may not have this package, so it uses nothing of it."""
    chunk, concurrent, not_taken = _CHUNK, _CONCURRENT, NOT_TAKEN

    def write(rows: Iterable[Any]) -> Iterator[tuple[int, str]]:
        from itertools import chain, islice
        from uuid import UUID

        rows = iter(rows)
        first = next(rows, None)
        if first is None:
            return
        from cassandra import InvalidRequest, Unauthorized
        from cassandra.concurrent import execute_concurrent

        session, written = None, 0
        try:
            session = opened()
            put, remove = session.prepare(insert), session.prepare(delete)

            def bound(row: Any) -> tuple[Any, list[Any]]:
                *values, gone = row
                for number in uuids:
                    values[number] = None if values[number] is None else UUID(values[number])
                return (remove, [stamp, *(values[number] for number in keys)]) if gone else (put, [*values, stamp])

            rows = chain([first], rows)
            while some := [bound(row) for row in islice(rows, chunk)]:
                execute_concurrent(session, some, concurrency=concurrent)
                written += len(some)
        except (InvalidRequest, Unauthorized) as error:
            # To try again changes nothing. The user's name is before what it may not.
            said = str(error).partition('message="')[2].strip('"') or type(error).__name__
            yield 0, said.partition(" has no ")[2] or said
            return
        except Exception as error:  # noqa: BLE001 - its text may name addresses, or quote a row
            raise RuntimeError(f"{not_taken} ({type(error).__name__}).") from None
        finally:
            if session is not None:
                session.cluster.shutdown()
        yield written, ""

    return write
