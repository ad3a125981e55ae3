"""A plain job with the sink: Kafka's offsets in the ledger, through kills, other checkpoints and second writers."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from airflow_stream_provider.checkpoint import boundary
from airflow_stream_provider.checkpoint.rewind import apply_rewind, plan_rewind
from airflow_stream_provider.operators import KafkaLagOperator
from devstack.drivers import wait_for
from devstack.kafka_cluster import KafkaCluster
from devstack.ports import HOST, free_port
from devstack.postgres import USER, PostgresServer
from tests.support.plain_job import ROOT, PlainJob

pytestmark = pytest.mark.system


class Job(PlainJob):
    """One with PostgreSQL."""

    def __init__(self, folder: Path, kafka: KafkaCluster, server: PostgresServer) -> None:
        super().__init__(folder, kafka, "app_plain_sink.py", "orders", STREAM_SINK_ORDERS_DB=server.dsn)
        self.server = server

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

    # A rewind of this provider is the only thing that moves the ledger back.
    job.produce(20)
    assert job.run("new")[0] == 0
    batch = boundary(job.folder / "new").commit
    assert batch is not None
    apply_rewind(plan_rewind(job.folder / "new", {"orders": {0: 1900, 1: 1960}}, "plain-2", batch))
    job.produce(20)
    code, said = job.run("new")
    assert code == 0, said
    assert job.counted() == (4040 + 110 + 50, 4040)


def airflow(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give Airflow, here and in commands, the connections of Kafka and of the sink's database."""
    database = {"conn_type": "postgres", "host": HOST, "port": job.server.port, "login": USER, "schema": "postgres"}
    monkeypatch.setenv("AIRFLOW_CONN_ORDERS_DB", json.dumps(database))
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": job.servers}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_HERE", json.dumps(kafka))


def command(*words: str) -> tuple[int, str, str]:
    """Return exit code, output and errors of `airflow streams`."""
    call = [sys.executable, "-m", "airflow", "streams", *words]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout, done.stderr


def test_airflow_shows_the_ledger_and_measures_the_lag_by_it(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.produce(1500)
    code, said = job.run("one")
    assert code == 0, said
    job.produce(30)
    airflow(job, monkeypatch)
    lag: Any = KafkaLagOperator(task_id="lag", group="plain", kafka="kafka_here", ledger="orders_db").execute({})
    assert (lag["records"], lag["complete"]) == (30, True)
    assert [(query["query"], query["batch"], query["problem"]) for query in lag["queries"]] == [("orders", 1, "")]

    code, out, err = command("ledger", "plain", "--connection", "orders_db", "--json")
    assert code == 0, err
    (row,) = json.loads(out.splitlines()[-1])
    assert (row["query"], row["epoch"], row["batch_id"]) == ("orders", 1, 1)
    assert row["offsets"] == [{"orders": {"0": 750, "1": 750}}]
    assert [(batch["batch_id"], batch["rows"]) for batch in row["history"]] == [(1, 500), (0, 1000)]
    assert "orders 0: 750, 1: 750" in command("ledger", "plain", "--connection", "orders_db")[1]

    code, _, err = command("ledger", "nobody", "--connection", "orders_db")
    assert (code, "has no ledger of nobody" in err) == (3, True), err
    monkeypatch.setenv("AIRFLOW_CONN_ORDERS_DB", f"postgres://me:hidden@{HOST}:{free_port()}/postgres")
    code, _, err = command("ledger", "plain", "--connection", "orders_db")
    assert (code, "cannot be read with the connection 'orders_db' (OperationalError)" in err) == (3, True), err
    assert "hidden" not in err


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
