"""`SINK=postgres`: a third query of the stream writes into a table with the sink of this package, which is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from chaos.records import Place
from devstack.postgres import PostgresServer
from devstack.processes import Processes

QUERY = "places"
VARIABLE = "STREAM_SINK_CHAOS_DB"
_BEFORE = "    spark.streams.awaitAnyTermination()\n"
# Where each record is in the input: what is counted, whatever Kafka took twice.
_QUERY = f"""
    from airflow_stream_provider.sinks import exactly_once, postgres

    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", args.kafka)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 2_000)
        .load()
    )
    (
        records.select("partition", "offset")
        .writeStream.foreachBatch(exactly_once(postgres("chaos_db"), table="{QUERY}", create=True))
        .queryName("{QUERY}")
        .option("checkpointLocation", f"{{args.checkpoint}}/{QUERY}")
        .trigger(processingTime="1 second")
        .start()
    )
"""
CHANGE = {_BEFORE: _QUERY + _BEFORE}


@contextmanager
def server(folder: Path) -> Iterator[PostgresServer]:
    """Yield a running PostgreSQL."""
    with closing(Processes(folder)) as processes:
        found = PostgresServer(folder / "server", processes)
        found.start()
        yield found


def rows(dsn: str) -> Counter[Place]:
    """Return how often each record of the input is in the table."""
    import psycopg

    with psycopg.connect(dsn) as connection:
        found = connection.execute(f'select "partition", "offset", count(*) from {QUERY} group by 1, 2')
        return Counter({Place(partition, offset): count for partition, offset, count in found.fetchall()})
