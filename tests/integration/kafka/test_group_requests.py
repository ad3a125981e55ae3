"""Offsets of consumer groups, read from a real coordinator."""

from __future__ import annotations

from collections.abc import Callable

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from airflow_stream_provider.kafka.client import KafkaClient
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import commit_group


def produce(kafka: KafkaCluster, topic: str, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.servers)
    for _ in range(count):
        producer.send(topic, b"x", partition=0)
    producer.close()


def test_committed_offsets_of_groups(kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    produce(kafka, topic, 5)
    offsets = {TopicPartition(topic, 0): 4, TopicPartition(topic, 2): 0}
    commit_group(client, "committed", offsets, "batch 7")
    assert client.groups_offsets(["committed"]) == {"committed": offsets}
    many = client.groups_offsets(["committed", "nobody"])
    assert (many, many.problems) == ({"committed": offsets, "nobody": {}}, {})
    with KafkaConsumer(bootstrap_servers=kafka.servers, group_id="committed", allow_auto_create_topics=False) as reader:
        assert reader.committed(TopicPartition(topic, 0), metadata=True).metadata == "batch 7"
