"""A plain job with the sink: Kafka's offsets in the ledger, through kills, other checkpoints and second writers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from kafka import KafkaProducer

from devstack.drivers import wait_for
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics
from devstack.postgres import PostgresServer
from tests.support.jvm_drivers import submit_arguments

pytestmark = pytest.mark.system
ROOT = Path(__file__).parents[3]
APP = ROOT / "tests/support/app_plain_sink.py"


class Job:
    """Runs the job on a topic of two partitions."""

    def __init__(self, folder: Path, kafka: KafkaCluster, server: PostgresServer) -> None:
        self.folder = folder
        self.server = server
        self.servers = kafka.servers
        self.written = 0
        with kafka.client() as client:
            create_topics(client, {"orders": 2})

    def produce(self, count: int) -> None:
        producer = KafkaProducer(bootstrap_servers=self.servers)
        for number in range(self.written, self.written + count):
            producer.send("orders", str(number).encode(), partition=number % 2)
        producer.flush()
        producer.close()
        self.written += count

    def start(self, checkpoint: str, *how: str) -> subprocess.Popen[str]:
        env = {**os.environ, "PYSPARK_SUBMIT_ARGS": submit_arguments(), "STREAM_SINK_ORDERS_DB": self.server.dsn}
        env |= {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        command = [sys.executable, str(APP), self.servers, "orders", str(self.folder / checkpoint), *how]
        return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)

    def run(self, checkpoint: str, *how: str) -> tuple[int, str]:
        """Return its exit code, and what it says last."""
        job = self.start(checkpoint, *how)
        _, said = job.communicate(timeout=300)
        return job.returncode, said

    def counted(self) -> tuple[int, int]:
        with psycopg.connect(self.server.dsn) as connection:
            found = connection.execute("select count(*), count(distinct id) from orders").fetchone()
        assert found is not None
        return int(found[0]), int(found[1])


@pytest.fixture
def job(tmp_path: Path, server: PostgresServer) -> Iterator[Job]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("drop table if exists orders, stream_ledger, stream_ledger_history")
        connection.execute("create table orders (id bigint not null, customer text)")
    with KafkaCluster(tmp_path / "kafka") as kafka:
        yield Job(tmp_path, kafka, server)


def test_a_plain_job_writes_each_record_once(job: Job) -> None:
    job.produce(3500)
    assert job.run("one", "die")[0] == -signal.SIGKILL
    assert job.counted() == (1000, 1000)
    shutil.copytree(job.folder / "one", job.folder / "yesterday")
    assert job.run("one")[0] == 0
    assert job.counted() == (3500, 3500)

    # A checkpoint from yesterday, and a new one that begins at the beginning.
    job.produce(500)
    for checkpoint in ("yesterday", "anew"):
        code, said = job.run(checkpoint)
        assert code == 50
        assert "Batch 0 of plain/orders begins at offset 0 of orders, partition" in said
        assert "offsets would be written twice" in said
    assert job.counted() == (3500, 3500)

    # One that begins where the sink is.
    code, said = job.run("new", "new")
    assert code == 0, said
    assert job.counted() == (4000, 4000)


def test_a_second_job_is_refused_while_the_first_lives(job: Job) -> None:
    job.produce(500)
    first = job.start("one", "stay")
    try:
        wait_for("the first rows", lambda: job.counted()[0] == 500)
        code, said = job.run("two")
        assert code == 50
        assert "AnotherWriter" in said
        assert "writes plain/orders since" in said
        job.produce(500)
        wait_for("the others", lambda: job.counted() == (1000, 1000))
    finally:
        first.kill()
        first.communicate()
