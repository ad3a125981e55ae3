"""Real drivers that commit what they have finished to a consumer group of a real broker, whatever becomes of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import CoordinatorNotAvailableError
from kafka.structs import OffsetAndMetadata

from airflow_stream_provider.checkpoint import read
from airflow_stream_provider.lifecycle.state import StreamPhase
from devstack.drivers import HandRunStream, wait_for
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics

APP = Path(__file__).parents[3] / "devstack" / "app_orders_kafka.py"
GROUP = "orders-stream"
PARTITIONS = 2


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("kafka")) as brokers, brokers.client() as client:
        create_topics(client, {f"orders-{part}": PARTITIONS for part in ("in", "out", "totals")})
        yield brokers


class Group:
    """The consumer group as Kafka's own tools see it."""

    def __init__(self, brokers: KafkaCluster) -> None:
        self._brokers = brokers

    def commits(self) -> dict[int, OffsetAndMetadata]:
        """Offset and metadata by partition of the input."""
        admin = KafkaAdminClient(bootstrap_servers=self._brokers.servers)
        try:
            try:
                found = admin.list_group_offsets(GROUP).get(GROUP, {})
            except CoordinatorNotAvailableError:  # the first to ask makes the topic in which Kafka keeps them
                found = {}
            return {tp.partition: commit for tp, commit in found.items() if tp.topic == "orders-in"}
        finally:
            admin.close()

    def total(self) -> int:
        return sum(commit.offset for commit in self.commits().values())

    def batch(self) -> int:
        return max(int(commit.metadata) for commit in self.commits().values())


class Orders:
    def __init__(self, brokers: KafkaCluster) -> None:
        self._brokers = brokers
        self.sent = 0

    def send(self, count: int) -> None:
        producer, sent = KafkaProducer(bootstrap_servers=self._brokers.servers), []
        for number in range(self.sent, self.sent + count):
            order = {"id": number, "customer": f"c{number % 7}", "country": "NL", "cents": number}
            sent.append(producer.send("orders-in", json.dumps(order).encode(), partition=number % PARTITIONS))
        for each in sent:
            each.get(60)
        producer.close()
        self.sent += count


@pytest.mark.system
def test_a_group_follows_the_holder_through_trouble_and_hand_over(stream: HandRunStream, kafka: KafkaCluster) -> None:
    group, orders, checkpoint = Group(kafka), Orders(kafka), stream.root / "checkpoint"
    arguments = (kafka.servers, "orders", str(checkpoint))
    stream.deploy("orders-1", APP, *arguments, offsets_group=GROUP)
    one = stream.standby("orders-1")
    assert group.commits() == {}, "a standby commits nothing, nor does its rehearsal"
    orders.send(100)
    stream.hand_over(one)
    wait_for("the first batches in the group", lambda: group.total() == 100)
    assert {c.offset for c in group.commits().values()} == {50}

    def status() -> dict[str, object]:
        heartbeat = stream.log.heartbeat(one)
        return {} if heartbeat is None else vars(heartbeat.offsets_group)

    assert not status()["problem"]

    # Somebody reads under the group's name: Kafka refuses us, and the stream runs on.
    member = KafkaConsumer("orders-in", bootstrap_servers=kafka.servers, group_id=GROUP, enable_auto_commit=False)
    # Not poll after short poll, in which kafka-python 3.0.12 has been seen never to end a join that it had begun.
    wait_for("the consumer to join", lambda: member.poll(5_000) is not None and member.assignment())
    orders.send(100)
    wait_for("the stream to commit", lambda: member.poll(0) is not None and committed(checkpoint) == {200})
    wait_for("the driver to say what is wrong", lambda: member.poll(50) is not None and status().get("problem"))
    assert GROUP in str(status()["problem"])
    assert group.total() == 100
    member.close()
    wait_for("the group to follow again", lambda: group.total() == 200)

    # The broker is away for a while.
    kafka.stop(1)
    time.sleep(8)
    kafka.start(1)
    orders.send(100)
    wait_for("the group after the outage", lambda: group.total() == 300)
    assert (stream.state.holder, stream.state.epoch) == (one, 1)

    before = group.batch()
    stream.deploy("orders-2", APP, *arguments, offsets_group=GROUP)
    stream.hand_over(stream.standby("orders-2"))
    orders.send(100)
    wait_for("the group after the hand-over", lambda: group.total() == 400)
    assert group.batch() > before

    # Back to the driver that ran its last batch long ago: what it knew then is no news.
    stream.hand_over(one)
    orders.send(100)
    seen: set[int] = set()
    wait_for("the group after the hand-over back", lambda: seen.add(group.total()) or 500 in seen)
    assert min(seen) >= 400
    orders.send(7)
    stream.request(None)
    wait_for("the stop", lambda: stream.state.phase is StreamPhase.STOPPED)
    # With the last word of the holder, the group stands where the slower query does.
    assert group.total() == min(committed(checkpoint))
    released = stream.records("released")[-1]
    assert released["boundary"] == "completed"
    assert group.batch() <= max(end["batch"] for end in released["ends"].values())


def committed(checkpoint: Path) -> set[int]:
    """How far the queries are, summed over the partitions."""
    return {sum(read(checkpoint / query).committed["orders-in"].values()) for query in ("out", "totals")}
