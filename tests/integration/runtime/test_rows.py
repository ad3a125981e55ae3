"""Real drivers of a query whose function has three actions: what they say of its rows, and of how long it may wait."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer

from airflow_stream_provider.lifecycle.heartbeat import QueryProgress
from airflow_stream_provider.planning.comparison import Compared, compare, rehearsed, running
from devstack.drivers import HandRunStream, wait_for
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics

APP = Path(__file__).parents[2] / "support" / "app_orders_actions.py"


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path / "kafka") as brokers, brokers.client() as client:
        create_topics(client, {"orders-in": 2})
        yield brokers


@pytest.fixture
def flow(kafka: KafkaCluster) -> Iterator[None]:
    """Forty records a second, until the test ends."""
    over = threading.Event()

    def feed() -> None:
        producer = KafkaProducer(bootstrap_servers=kafka.servers)
        while not over.wait(0.5):
            for number in range(20):
                producer.send("orders-in", b"{}", partition=number % 2)
        producer.close()

    feeder = threading.Thread(target=feed)
    feeder.start()
    yield
    over.set()
    feeder.join()


@pytest.mark.system  # two minutes
def test_rows_are_offsets_though_a_function_reads_them_three_times(
    stream: HandRunStream, kafka: KafkaCluster, flow: None
) -> None:
    """Found by an audit: Spark's count was three times the offsets, and a release that kept up was refused."""
    checkpoint = stream.root / "checkpoint"
    stream.deploy("orders-1", APP, kafka.servers, str(checkpoint))
    stream.hand_over(stream.standby("orders-1"))
    holder = stream.state.holder or ""

    def progress() -> QueryProgress | None:
        found = stream.log.heartbeat(holder)
        query = found.query("actions") if found is not None else None
        return query if query is not None and len(query.batches) > 3 else None

    found = wait_for("some batches of the holder", progress)
    assert found is not None
    assert (found.rows_exact, found.quiet_seconds) == (True, 6.0), "a trigger of two seconds, and a delay of four"
    assert found.begun_at is not None
    ends = {
        int(path.name): sum(json.loads(path.read_text().splitlines()[2])["orders-in"].values())
        for path in (checkpoint / "offsets").iterdir()
        if path.name.isdigit()
    }
    # The very first batch says no start.
    rows = {batch.id: batch.rows for batch in found.batches if batch.id > 0}
    assert rows == {id: ends[id] - ends[id - 1] for id in rows}

    stream.deploy("orders-2", APP, kafka.servers, str(checkpoint), rehearse_batches=2)
    two = stream.standby("orders-2")
    summary = stream.state.incarnations[two].rehearsal["queries"]
    assert summary["actions"]["rows_exact"]
    compared = compare(rehearsed(summary), running(stream.log.heartbeat(holder))).queries["actions"]
    print(compared.to_json())
    # By Spark's count it would be three times what comes in.
    assert compared.old.arriving is not None
    assert compared.old.arriving < 2 * 40.0
    # What keeps up by far is not doubted, however busy this machine is: some thousand rows a second would be needed.
    if compared.new.capacity is not None and compared.new.capacity > 1.5 * compared.old.arriving:
        assert compared.verdict is Compared.PASS, compared.sentence
