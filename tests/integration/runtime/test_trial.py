"""A trial on a real Spark and Kafka: the same records with both settings, in a driver that never comes to hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from airflow_stream_provider.checkpoint import boundary
from airflow_stream_provider.lifecycle.state import RequestStage
from devstack.drivers import HandRunStream, wait_for
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics
from tests.support.hand_run import reads_kafka

APP = Path(__file__).parents[2] / "support" / "app_lines_kafka.py"
RECORDS = 12_000
# As the script caps its batches.
CAP = 20
BATCHES = 10


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path / "kafka") as brokers, brokers.client() as client:
        create_topics(client, {"orders": 2})
        producer = KafkaProducer(bootstrap_servers=brokers.servers)
        for number in range(RECORDS):
            producer.send("orders", str(number % 100).encode(), partition=number % 2)
        producer.close()
        yield brokers


@pytest.fixture
def stream(tmp_path: Path, kafka: KafkaCluster) -> Iterator[HandRunStream]:
    """A stream that is behind, and whose batches are small."""
    with reads_kafka(tmp_path) as found:
        found.deploy("orders-1", APP, *arguments(found, kafka))
        found.hand_over(found.standby("orders-1"))
        wait_for("some batches", lambda: (boundary(found.root / "checkpoints/counts").commit or 0) > 5)
        yield found


def arguments(stream: HandRunStream, kafka: KafkaCluster) -> tuple[str, str, str]:
    return kafka.servers, str(stream.root), str(stream.root / "checkpoints")


def tried(stream: HandRunStream, kafka: KafkaCluster, name: str, **trial: Any) -> Mapping[str, Any]:
    """Run a trial beside the holder, end it, and return what it says of each query."""
    policy: dict[str, Any] = {"trial": {"batches": BATCHES, **trial}, "rehearse_seconds": 900.0}
    driver = stream.deploy(name, APP, *arguments(stream, kafka), **policy)
    standby, holder = stream.standby(name), stream.state.holder
    found = stream.state.incarnations[standby].rehearsal["queries"]
    print(found)
    # It is asked to take over, and never answers.
    request = stream.request(standby)
    asked = stream.log.records()[-1].seq
    wait_for("its look at that", lambda: has_read(stream, standby, asked))
    assert stream.state.requests[request].stage is RequestStage.REQUESTED
    stream.append("aborted", request=request, reason="test")
    assert stream.state.holder == holder
    stream.append("retired", deployment=name, reason="test")
    assert driver.exit_code() == 0
    assert not list((stream.root / "checkpoints").glob("*.rehearsal-*")), "the clones are removed"
    return {query: each["trial"] for query, each in found.items()}


def has_read(stream: HandRunStream, incarnation: str, seq: int) -> bool:
    """Whether a driver has beaten twice since it has read a record."""
    beat = stream.log.heartbeat(incarnation)
    if beat is None or beat.seq < seq:
        return False
    return bool(wait_for("another heartbeat", lambda: _beats(stream, incarnation) > beat.counter + 1))


def _beats(stream: HandRunStream, incarnation: str) -> int:
    beat = stream.log.heartbeat(incarnation)
    return 0 if beat is None else beat.counter


@pytest.mark.system  # three minutes
def test_both_settings_run_the_same_records_in_turns(stream: HandRunStream, kafka: KafkaCluster) -> None:
    for query, found in tried(stream, kafka, "larger", options={"maxoffsetspertrigger": "100"}).items():
        assert (found["on"], found["note"]) == ("clones of the state", ""), query
        assert [rows for _, rows in found["old"]] == [CAP] * BATCHES
        assert [rows for _, rows in found["new"]] == [100] * BATCHES
        assert all(seconds > 0 for seconds, _ in [*found["old"], *found["new"]])

    # Spark keeps this one in a checkpoint: both sides begin with new ones.
    for query, found in tried(stream, kafka, "partitions", conf={"spark.sql.shuffle.partitions": "30"}).items():
        assert found["on"] == "new checkpoints, as one keeps spark.sql.shuffle.partitions", query
        assert len(found["old"]) == len(found["new"]) == BATCHES
    slower = {side: sorted(found[side])[BATCHES // 2][0] for side in ("old", "new")}
    assert slower["new"] > slower["old"], "thirty partitions of the counts cost more than two"
    assert stream.state.holder is not None
