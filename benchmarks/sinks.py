"""What rows cost in PostgreSQL: the sink of this package beside Spark's own JDBC append and upserts from executors.

    python -m benchmarks.sinks [--rounds 3] [--rows 1000 100000 1000000]

One Spark on two cores and one PostgreSQL beside it. Sides take turns, each on an empty table of its own; the rows are
made by Spark itself, so that only the sink is measured. Without a key: `ours`, as foreachBatch calls it, and `jdbc`,
Spark's append, with its defaults and (`jdbc, rewritten`) with `reWriteBatchedInserts` and batches of 5,000.
With a key: `ours, key`, and `upserts`: each task sends an `insert … on conflict` for each row, in one transaction and
with psycopg's pipeline. Only ours writes the offsets with the rows.

Beside the seconds are those of CPU, of Spark, its Python and PostgreSQL together: they depend less on what else runs.

Then the statements of the driver's session are counted in the server's log, with its own times: those that are there
for the ledger alone, and those that bring the rows from the staging table into the table.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import psycopg
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from airflow_stream_provider.sinks.ledger import Batch, Target, Writer, is_to_be_written
from airflow_stream_provider.sinks.postgres import postgres
from airflow_stream_provider.sinks.sql_ledger import SqlLedger
from benchmarks.results import machine, show, spread, write
from benchmarks.spark import session
from devstack.jars import postgres_jdbc
from devstack.postgres import PostgresServer, missing
from devstack.processes import Processes

ROWS = (1_000, 100_000, 1_000_000)
# 120 bytes a row.
COLUMNS = "id bigint not null, customer integer, amount double precision, at timestamptz, note text"
MADE = (
    "id",
    "cast(id % 1000 as int) customer",
    "id * 0.25d amount",
    "timestamp_micros(1764300000000000 + id) at",
    "concat('order ', id, ': ', repeat('x', 80)) note",
)
UPSERT = (
    "insert into {} values (%s, %s, %s, %s, %s) on conflict (id) do update set "
    "customer = excluded.customer, amount = excluded.amount, at = excluded.at, note = excluded.note"
)
OURS, JDBC, REWRITTEN, KEYED, UPSERTS = "ours", "jdbc", "jdbc, rewritten", "ours, key", "upserts"
# Table of each side: those with a key have an index to keep.
TABLES = {OURS: "ours", JDBC: "jdbc", REWRITTEN: "jdbc_rewritten", KEYED: "ours_key", UPSERTS: "upserts"}
WITH_KEY = (KEYED, UPSERTS)
COUNTED_BATCHES = 20
WANTED_OVERHEAD = 0.05  # of a batch of a second
_LOGGED = re.compile(
    r"^(?P<who>stream sink: benchmark[^|]*)\|LOG: +duration: (?P<ms>[\d.]+) ms  "
    r"(?P<step>statement|parse|bind|execute)[^:]*: (?P<text>.*)$",
    re.MULTILINE,
)

Side = Callable[[DataFrame], None]


class Ours:
    """The sink of this package, as foreachBatch calls it: batch after batch of one query."""

    def __init__(self, dsn: str, table: str, key: Sequence[str] = ()) -> None:
        self._batch = 0
        self._ledger = SqlLedger(postgres(dsn=dsn), Writer("benchmark", table, "the benchmark"), Target(table, key))
        self._ledger.claim()

    def __call__(self, frame: DataFrame) -> None:
        """Write a batch."""
        batch = Batch("query", self._batch, [self._batch], [self._batch + 1])
        if not is_to_be_written(self._ledger.entry(), self._ledger.id, batch):
            raise SystemExit(f"batch {self._batch} is in the sink already")
        self._ledger.write(frame, batch)
        self._batch += 1

    def close(self) -> None:
        """End its session."""
        self._ledger.close()


def jdbc(url: str, table: str, options: Mapping[str, str], frame: DataFrame) -> None:
    """Append by Spark's own JDBC sink."""
    frame.write.jdbc(url, table, "append", {"driver": "org.postgresql.Driver", **options})


def upserts(dsn: str, table: str, frame: DataFrame) -> None:
    """Upsert row by row from the executors, a transaction for each task."""
    statement = UPSERT.format(table)

    def send(rows: Iterable[Any]) -> None:
        with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
            cursor.executemany(statement, rows)

    frame.foreachPartition(send)


@contextmanager
def server(folder: Path) -> Iterator[PostgresServer]:
    """Run a PostgreSQL whose log names each session's application."""
    if why := missing():
        raise SystemExit(why)
    with contextlib.closing(Processes(folder / "logs")) as processes:
        running = PostgresServer(folder / "server", processes, {"log_line_prefix": "%a|", "shared_buffers": "256MB"})
        running.start()
        with psycopg.connect(running.dsn, autocommit=True) as connection:
            connection.execute(f"create table counted ({COLUMNS})".encode())
            for side, table in TABLES.items():
                key = ", primary key (id)" if side in WITH_KEY else ""
                connection.execute(f"create table {table} ({COLUMNS}{key})".encode())
        yield running


@contextmanager
def sides(running: PostgresServer) -> Iterator[Mapping[str, Side]]:
    """Return the ways to write, by name."""
    dsn = running.dsn
    url = f"jdbc:postgresql://127.0.0.1:{running.port}/postgres?user=stream"
    with (
        contextlib.closing(Ours(dsn, TABLES[OURS])) as ours,
        contextlib.closing(Ours(dsn, TABLES[KEYED], ("id",))) as keyed,
    ):
        yield {
            OURS: ours,
            JDBC: partial(jdbc, url, TABLES[JDBC], {}),
            REWRITTEN: partial(jdbc, f"{url}&reWriteBatchedInserts=true", TABLES[REWRITTEN], {"batchsize": "5000"}),
            KEYED: keyed,
            UPSERTS: partial(upserts, dsn, TABLES[UPSERTS]),
        }


def batch(spark: SparkSession, rows: int) -> DataFrame:
    """Return a batch, in two partitions."""
    return spark.range(0, rows, 1, 2).selectExpr(*MADE)


def cpu() -> float:
    """Return the CPU seconds until now of this process and all that it has started."""
    used, here = 0.0, psutil.Process()
    for each in (here, *here.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            used += sum(each.cpu_times()[:4])
    return used


def timed(running: PostgresServer, side: str, does: Side, frame: DataFrame, rows: int) -> tuple[float, float]:
    """Write a batch into an empty table; return the seconds that it took, and those of CPU."""
    with psycopg.connect(running.dsn, autocommit=True) as connection:
        connection.execute(f"truncate {TABLES[side]}".encode())
        connection.execute("checkpoint")  # or a side would pay for what the one before has written
        used, began = cpu(), time.perf_counter()
        does(frame)
        seconds, used = time.perf_counter() - began, cpu() - used
        found = connection.execute(f"select count(*), sum(amount) from {TABLES[side]}".encode()).fetchone()
    if found != (rows, 0.25 * rows * (rows - 1) / 2):
        raise SystemExit(f"{side} has written {found}, and not {rows} rows")
    return seconds, used


def measured(spark: SparkSession, running: PostgresServer, sizes: Sequence[int], rounds: int) -> dict[str, Any]:
    """Return the seconds of a batch by size and side, and those of CPU as `cpu, SIDE`."""
    found: dict[str, Any] = {}
    with sides(running) as ways:
        for side, does in ways.items():
            timed(running, side, does, batch(spark, 1_000), 1_000)  # warm
        for rows in sizes:
            seconds: dict[str, list[float]] = {each: [] for side in ways for each in (side, f"cpu, {side}")}
            for number in range(rounds):
                for side, does in ways.items():
                    taken, used = timed(running, side, does, batch(spark, rows), rows)
                    seconds[side].append(taken)
                    seconds[f"cpu, {side}"].append(used)
                latest = {side: round(each[-1], 2) for side, each in seconds.items()}
                print(f"{rows} rows, round {number + 1}, s: {latest}", flush=True)
            found[str(rows)] = {side: spread(each) for side, each in seconds.items()}
    return found


def ratios(found: Mapping[str, Any], ours: str, other: str) -> float:
    """Return how many times as long the other one takes: the median of the rounds' ratios."""
    pairs = zip(found[ours]["values"], found[other]["values"], strict=True)
    return float(round(statistics.median(b / a for a, b in pairs), 2))


def statements(spark: SparkSession, running: PostgresServer, batches: int) -> dict[str, Any]:
    """Return what the driver's session sends for a batch of 1,000 rows: how often, and the server's milliseconds."""
    assert running.process is not None
    dsn = f"{running.dsn} options='-c log_min_duration_statement=0'"
    with contextlib.closing(Ours(dsn, "counted")) as ours:
        ours(batch(spark, 1_000))  # it checks the table and makes the staging table
        before = running.process.log.stat().st_size
        for _ in range(batches):
            ours(batch(spark, 1_000))
    with running.process.log.open(errors="replace") as log:
        log.seek(before)
        return per_batch(log.read(), batches)


def per_batch(log: str, batches: int) -> dict[str, Any]:
    """Return the statements in a server's log by kind: `count` and `ms` for each batch."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: {"count": 0.0, "ms": 0.0})
    for each in _LOGGED.finditer(log):
        if each["who"].startswith("stream sink: task"):
            continue
        one = found[kind(each["text"])]
        # Parse and bind are steps of the one that is executed.
        one["count"] += each["step"] in ("statement", "execute")
        one["ms"] += float(each["ms"])
    return {name: {key: round(value / batches, 3) for key, value in one.items()} for name, one in found.items()}


def kind(text: str) -> str:
    """Return whether a statement is there for the `ledger`, or for the `rows` between staging and table.

    >>> kind("COMMIT"), kind("insert into stream_ledger_history (a)"), kind('delete from "stream_staging_1"')
    ('ledger', 'ledger', 'rows')
    """
    words = text.lower()
    return "ledger" if words in ("begin", "commit") or "stream_ledger" in words else "rows"


def report(found: Mapping[str, Any], sent: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Print and write what was found."""
    table = Table("rows", "side", "s, p50", "rows/s", "ours: rows/s x", "CPU s", "ours: CPU x", title="PostgreSQL")
    faster: dict[str, dict[str, float]] = {}
    for rows, by_side in found.items():
        faster[rows] = {
            f"{way}{other}": ratios(by_side, f"{way}{ours}", f"{way}{other}")
            for way in ("", "cpu, ")
            for ours, other in ((OURS, JDBC), (OURS, REWRITTEN), (KEYED, UPSERTS))
        }
        for side in TABLES:
            taken, used = by_side[side]["p50"], by_side[f"cpu, {side}"]["p50"]
            times = [str(faster[rows].get(each, "")) for each in (side, f"cpu, {side}")]
            table.add_row(rows, side, f"{taken:.3f}", f"{int(rows) / taken:,.0f}", times[0], f"{used:.3f}", times[1])
        table.add_section()
    Console(width=110).print(table)
    counts = Table("statements of the driver, per batch", "count", "ms", title="the driver's session")
    for name, one in sent.items():
        counts.add_row(name, f"{one['count']:.1f}", f"{one['ms']:.2f}")
    Console(width=110).print(counts)
    targets = {f"{rows} rows: ours / jdbc, rows per second": (each[JDBC], ">=", 1.0) for rows, each in faster.items()}
    overhead = sent["ledger"]["ms"] / 1000
    show("the driver", {}, {**targets, "the ledger's share of a batch of a second": (overhead, "<=", WANTED_OVERHEAD)})
    write("sinks", {"seconds": found, "ours_faster": faster, "statements": sent, "machine": before})


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--batches", type=int, default=COUNTED_BATCHES, help="in which statements are counted")
    options = parser.parse_args()
    before = machine()
    with (
        tempfile.TemporaryDirectory() as folder,
        server(Path(folder)) as running,
        session("sinks", [postgres_jdbc()]) as spark,
    ):
        found = measured(spark, running, options.rows, options.rounds)
        sent = statements(spark, running, options.batches)
    report(found, sent, before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
