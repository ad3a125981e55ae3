"""Topics are read to their end, or it is said why not: nobody waits for ever for a broker that is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from kafka import KafkaProducer

from airflow_stream_provider.lifecycle.errors import StreamError
from devstack import audit
from devstack.audit import end_offsets, read_topic
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics
from tests.support.one_broker import kafka

__all__ = ["kafka"]
# More than the consumer asks for at once.
COUNT, VALUE = 400, b"x" * 10_000

Act = Callable[[KafkaCluster, int], None]


@pytest.fixture(scope="module", autouse=True)
def orders(kafka: KafkaCluster) -> None:
    with kafka.client() as client:
        create_topics(client, {"orders": 2, "empty": 1})
    producer = KafkaProducer(bootstrap_servers=kafka.servers)
    for number in range(COUNT):
        producer.send("orders", VALUE, str(number).encode(), partition=number % 2)
    producer.close()


def test_a_whole_topic_is_read(kafka: KafkaCluster) -> None:
    assert end_offsets(kafka.servers, "orders") == {0: COUNT // 2, 1: COUNT // 2}
    assert sorted(int(record.key) for record in read_topic(kafka.servers, "orders")) == list(range(COUNT))
    assert list(read_topic(kafka.servers, "empty")) == []
    assert end_offsets(kafka.servers, "nothing") == {}
    with pytest.raises(StreamError, match="There is no topic nothing"):
        list(read_topic(kafka.servers, "nothing"))


@pytest.mark.parametrize(
    ("goes", "comes_back"),
    [(KafkaCluster.freeze, KafkaCluster.thaw), (KafkaCluster.kill, KafkaCluster.start)],
    ids=["frozen", "killed"],
)
def test_a_broker_that_is_gone_in_the_middle(
    kafka: KafkaCluster, goes: Act, comes_back: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = read_topic(kafka.servers, "orders")
    next(records)
    goes(kafka, 1)
    monkeypatch.setattr(audit, "SILENT_SECONDS", 3.0)
    try:
        with pytest.raises(StreamError, match=rf"orders was read up to .* Kafka at {kafka.servers} has sent no more"):
            list(records)
        with pytest.raises(StreamError, match=kafka.servers):
            end_offsets(kafka.servers, "orders")
    finally:
        comes_back(kafka, 1)
        kafka.wait(lambda: _served(kafka))  # its controller has fenced it meanwhile


def _served(kafka: KafkaCluster) -> bool:
    with contextlib.suppress(StreamError):
        return bool(end_offsets(kafka.servers, "orders"))
    return False
