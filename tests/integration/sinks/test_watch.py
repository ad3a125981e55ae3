"""The watch measures a stream by the ledger of its sink, in tables as docs/exactly_once.md has them."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from kafka import KafkaProducer

from airflow_stream_provider.monitoring import folder_reading
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics
from devstack.many_streams import PARTITIONS
from devstack.ports import HOST
from devstack.postgres import USER, PostgresServer
from tests.support.watched_folder import Folder

pytestmark = pytest.mark.system
TABLES = """
create table stream_ledger (stream text, query text, epoch bigint, holder text, query_id text, batch_id bigint,
    offsets text, rows bigint, claimed_at timestamptz, written_at timestamptz, primary key (stream, query));
create table stream_ledger_history (stream text, query text, epoch bigint, holder text, query_id text, batch_id bigint,
    begins text, ends text, rows bigint, written_at timestamptz, seq bigint)
"""


def test_the_watch_measures_by_what_the_sink_holds(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("EACH_SECONDS", "WRITE_SECONDS"):  # what a loaded machine has no time for is not what is tested here
        monkeypatch.setattr(folder_reading, limit, 300.0)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HERE", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    database = {"conn_type": "postgres", "host": HOST, "port": server.port, "login": USER, "schema": "postgres"}
    monkeypatch.setenv("AIRFLOW_CONN_ORDERS_DB", json.dumps(database))
    with KafkaCluster(tmp_path / "kafka") as kafka, psycopg.connect(server.dsn, autocommit=True) as tables:
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_HERE", json.dumps({"conn_type": "kafka", "extra": kafka.extra}))
        with kafka.client() as client:
            create_topics(client, {"t0": PARTITIONS})
        producer = KafkaProducer(bootstrap_servers=kafka.servers)
        for record in range(3 * PARTITIONS):
            producer.send("t0", b"an order", partition=record % PARTITIONS)
        producer.close()
        folder = Folder(tmp_path, 1, kafka.servers)  # its checkpoints are at offset 2 of each partition
        folder.more["s0000"] = {"lag": {"ledger": "orders_db"}}
        id = json.loads((folder.streams[0].checkpoint("enrich") / "metadata").read_text())["id"]
        tables.execute("drop table if exists stream_ledger, stream_ledger_history")
        for table in TABLES.split(";"):
            tables.execute(table)
        offsets = json.dumps([{"t0": {"0": 3, "1": 3}}])
        tables.execute(
            "insert into stream_ledger values ('s0000', 'orders', 1, 'a driver', %s, 3, %s, 2, now(), now())",
            (id, offsets),
        )

        folder.look(0.0)
        queries = folder.sample(0).queries
        assert queries["enrich"].records == 0, "the sink holds a batch that the checkpoint does not have yet"
        assert queries["totals"].records == PARTITIONS, "the ledger does not have it"

        tables.execute("drop table stream_ledger")
        folder.look(60.0)
        assert "cannot be read with the connection 'orders_db' (UndefinedTable)" in folder.sample(0).problem
