"""Open transactions, as their coordinator tells of them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from kafka import KafkaProducer, TopicPartition

from airflow_stream_provider.kafka.client import KafkaClient
from devstack.kafka_cluster import KafkaCluster


def test_a_transaction_is_open_since_it_began_and_with_its_own_time_out(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str]
) -> None:
    """Whatever the times of its records are."""
    topic = new_topic(2)
    assert not any(client.transactions().values())
    producer = KafkaProducer(bootstrap_servers=kafka.servers, transactional_id="mine", transaction_timeout_ms=50_000)
    producer.init_transactions()
    producer.begin_transaction()
    before = time.time()
    producer.send(topic, b"x", partition=1, timestamp_ms=round((before - 7200) * 1000))
    producer.flush()
    found = client.transactions()
    (transaction,) = found[1]
    assert (transaction.id, transaction.timeout) == ("mine", 50.0)
    assert transaction.partitions == {TopicPartition(topic, 1)}
    assert transaction.started == pytest.approx(before, abs=60)
    assert found.problems == {}
    producer.commit_transaction()
    kafka.wait(lambda: not any(client.transactions().values()))
    producer.close()
