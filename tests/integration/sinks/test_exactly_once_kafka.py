"""A stream whose sink is Kafka: real drivers that hand over, and die between the sink's commit and Spark's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.drivers import HandRunStream, hand_run_stream, wait_for
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics
from tests.support.hand_run import show
from tests.support.kafka_sink import read
from tests.support.orders_files import Orders

pytestmark = pytest.mark.system
APP = Path(__file__).parents[2] / "support" / "app_orders_bus.py"
PARTITIONS = 2


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path / "kafka") as found:
        with found.client() as client:
            create_topics(client, {"daily": PARTITIONS, "both": PARTITIONS})
        yield found


@pytest.fixture
def stream(tmp_path: Path, kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[HandRunStream]:
    monkeypatch.setenv("STREAM_SINK_BUS", kafka.servers)
    with hand_run_stream(tmp_path / "stream") as found:
        yield found
    show(found)


def counted(kafka: KafkaCluster, topic: str) -> tuple[int, int]:
    """Records, and orders."""
    ids = [json.loads(record.value)["id"] for record in read(kafka.servers, topic, PARTITIONS)]
    return len(ids), len(set(ids))


def holders(kafka: KafkaCluster) -> set[str]:
    """The drivers that have claimed the ledger, as far as it is not compacted."""
    return {json.loads(record.value)["holder"] for record in read(kafka.servers, "stream_ledger", 1)}


def test_each_order_is_in_the_topic_once_through_hand_overs_and_a_kill_before_sparks_commit(
    stream: HandRunStream, kafka: KafkaCluster, tmp_path: Path
) -> None:
    orders = Orders(tmp_path)
    orders.flow()
    first = stream.deploy("orders-1", APP, str(tmp_path))
    one = stream.standby("orders-1")
    stream.hand_over(one)
    wait_for("the first orders", lambda: counted(kafka, "both")[0] > 100)
    stream.deploy("orders-2", APP, str(tmp_path))
    two = stream.standby("orders-2")
    assert stream.state.incarnations[two].rehearsal["queries"]["daily"]["batches"] >= 1

    (tmp_path / "die").touch()
    first.exit_code()
    stream.append("fenced", incarnation=one, reason="test", evidence={"cluster": "test"})
    stream.hand_over(two)
    before = counted(kafka, "both")[0]
    wait_for("orders by the next", lambda: counted(kafka, "both")[0] > before + 50)
    orders.dry()
    topics = ("daily", "both")
    wait_for("all orders", lambda: all(counted(kafka, topic)[1] == orders.written for topic in topics))
    assert counted(kafka, "daily") == counted(kafka, "both") == (orders.written, orders.written)
    assert holders(kafka) == {one, two}
