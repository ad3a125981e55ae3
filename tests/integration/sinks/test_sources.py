"""A sink behind two sources, and behind windows that Spark writes in batches without records."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from kafka import KafkaProducer

from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics
from devstack.postgres import PostgresServer
from tests.support.jvm_drivers import submit_arguments

pytestmark = pytest.mark.system
ROOT = Path(__file__).parents[3]
APP = ROOT / "tests/support/app_sources_sink.py"
ORDERS, RETURNS = 1000, 500
# The last window is never closed.
WINDOW = 10


def run(server: PostgresServer, *words: str) -> tuple[int, str]:
    env = {**os.environ, "PYSPARK_SUBMIT_ARGS": submit_arguments(), "STREAM_SINK_ORDERS_DB": server.dsn}
    env |= {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, str(APP), *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stderr


def one(server: PostgresServer, statement: str) -> tuple[object, ...]:
    with psycopg.connect(server.dsn) as connection:
        found = connection.execute(statement).fetchone()
    assert found is not None
    return tuple(found)


def test_each_record_and_each_window_is_written_once(tmp_path: Path, server: PostgresServer) -> None:
    checkpoints = str(tmp_path / "checkpoints")
    with KafkaCluster(tmp_path / "kafka") as kafka:
        with kafka.client() as client:
            create_topics(client, {"orders": 2, "returns": 1})
        # A record a second. Kafka takes none of the future, and deletes old ones.
        begin = int(time.time()) // WINDOW * WINDOW - 2 * ORDERS
        producer = KafkaProducer(bootstrap_servers=kafka.servers)
        for number in range(ORDERS):
            at = (begin + number) * 1000
            producer.send("orders", str(number).encode(), partition=number % 2, timestamp_ms=at)
        for number in range(RETURNS):
            producer.send("returns", str(number).encode(), partition=0)
        producer.flush()
        producer.close()
        for dies in ("united", "windows"):
            code, said = run(server, kafka.servers, checkpoints, dies)
            assert code == -signal.SIGKILL, said
        code, said = run(server, kafka.servers, checkpoints)
        assert code == 0, said

    assert one(server, "select count(*), count(distinct (topic, id)) from united") == (ORDERS + RETURNS,) * 2
    (offsets,) = one(server, "select offsets from stream_ledger where stream = 'sources' and query = 'united'")
    assert offsets == [{"orders": {"0": ORDERS // 2, "1": ORDERS // 2}}, {"returns": {"0": RETURNS}}]
    closed = ORDERS // WINDOW - 1
    assert one(server, "select count(*), count(distinct since), sum(orders) from windows") == (
        closed,
        closed,
        closed * WINDOW,
    )
    (empty,) = one(server, "select count(*) from stream_ledger_history where query = 'windows' and begins = ends")
    assert empty, "Spark has closed windows in a batch without records"
