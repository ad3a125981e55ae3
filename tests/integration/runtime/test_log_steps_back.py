"""A real broker shows an earlier end of its log, as one does that comes back with an older disk; then the right one.

Spark plans a batch up to the earlier end before it looks whether that can be read, and fails at that batch for ever.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer

from airflow_stream_provider.checkpoint import read
from airflow_stream_provider.checkpoint.logs import boundary
from airflow_stream_provider.lifecycle.heartbeat import QueryHealth
from devstack.drivers import HandRunStream, wait_for
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics

pytestmark = pytest.mark.system

SCRIPT = Path(__file__).with_name("scripts") / "two_sources.py"


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path / "kafka") as brokers:
        with brokers.client() as client:
            create_topics(client, {"orders": 1})
        yield brokers


class Log:
    """The only partition of the topic, and copies of what the broker had of it on its disk."""

    def __init__(self, brokers: KafkaCluster, copies: Path) -> None:
        self._brokers, self._copies = brokers, copies
        self.written = 0

    def write(self, count: int = 10) -> None:
        producer = KafkaProducer(bootstrap_servers=self._brokers.servers, acks="all")
        for number in range(self.written, self.written + count):
            producer.send("orders", str(number).encode())
        producer.flush()
        producer.close()
        self.written += count

    def keep(self, name: str) -> None:
        """Stop the broker, and keep what it has."""
        self._brokers.stop(1)
        shutil.copytree(self._brokers.data(1) / "orders-0", self._copies / name)

    def begin(self, name: str = "") -> None:
        """Start the broker, with what was kept under a name; default: as it was stopped."""
        if name:
            shutil.rmtree(self._brokers.data(1) / "orders-0")
            shutil.copytree(self._copies / name, self._brokers.data(1) / "orders-0")
        self._brokers.start(1)


@pytest.fixture
def log(kafka: KafkaCluster, tmp_path: Path) -> Log:
    return Log(kafka, tmp_path)


def health(stream: HandRunStream) -> QueryHealth:
    beat = stream.log.heartbeat(str(stream.state.holder))
    found = beat.query("lines") if beat else None
    return (found.health if found else None) or QueryHealth()


def delivered(root: Path) -> Counter[int]:
    return Counter(
        int(json.loads(line)["id"]) for path in root.glob("lines/part-*.json") for line in path.read_text().splitlines()
    )


def committed(root: Path) -> int:
    (source,) = read(root / "checkpoints" / "lines").sources
    return (source.topics or {}).get("orders", {}).get(0, 0)


def run_and_step_back(stream: HandRunStream, log: Log, servers: str, root: Path, loss_seconds: float) -> None:
    """Let the query read 20 records, and the broker come back with the first ten."""
    log.write()
    log.keep("ten")
    log.begin()
    log.write()
    stream.deploy("orders-1", SCRIPT, str(root), servers, loss_seconds=loss_seconds)
    stream.hand_over(stream.standby("orders-1"))
    wait_for("twenty records", lambda: delivered(root).total() == 20)
    log.keep("twenty")
    log.begin("ten")
    wait_for("the query to fail", lambda: "orders-0" in health(stream).error)


def ticks(root: Path) -> int:
    return boundary(root / "checkpoints" / "ticks").commit or 0


def test_an_end_that_steps_back_for_a_moment_is_waited_for(
    stream: HandRunStream, kafka: KafkaCluster, log: Log, tmp_path: Path
) -> None:
    run_and_step_back(stream, log, kafka.servers, tmp_path, loss_seconds=3600.0)
    found = health(stream)
    assert found.state == "retrying"
    wait_for("it to say where the log ends", lambda: "ends at offset 10" in health(stream).error)
    before = ticks(tmp_path)
    wait_for("the other query to go on", lambda: ticks(tmp_path) > before + 2)

    kafka.stop(1)
    log.begin("twenty")
    log.write()
    wait_for("all records", lambda: delivered(tmp_path).total() == log.written)
    assert set(delivered(tmp_path).values()) == {1}
    wait_for("it to be well", lambda: health(stream).state == "running")
    assert "orders-0 at 10" in health(stream).note
    assert stream.records("failed") == []


def test_an_end_that_stays_back_is_lost_data_of_one_query(
    stream: HandRunStream, kafka: KafkaCluster, log: Log, tmp_path: Path
) -> None:
    run_and_step_back(stream, log, kafka.servers, tmp_path, loss_seconds=5.0)
    wait_for("it to be lost", lambda: health(stream).state == "lost")
    assert "orders-0 ends at offset 10" in health(stream).error
    assert "up to offset 20" in health(stream).error
    before = ticks(tmp_path)
    wait_for("the other query to go on", lambda: ticks(tmp_path) > before + 2)
    log.write(15)  # past the offset that was read: it must not go on there
    before = ticks(tmp_path)
    wait_for("the other query to go on", lambda: ticks(tmp_path) > before + 5)
    assert (health(stream).state, committed(tmp_path), delivered(tmp_path).total()) == ("lost", 20, 20)
    stream.request(None)
    wait_for("it to stop", lambda: stream.records("released"))
    assert stream.records("released")[0]["boundary"] == "completed"
    assert stream.records("failed") == []
