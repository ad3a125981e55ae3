"""Offsets of consumer groups, read from and committed to a real coordinator."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.connect import BrokerUnreachable
from devstack.kafka_cluster import KafkaCluster


def produce(kafka: KafkaCluster, topic: str, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.servers)
    for _ in range(count):
        producer.send(topic, b"x", partition=0)
    producer.close()


def test_committed_offsets_of_groups(kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    produce(kafka, topic, 5)
    offsets = {TopicPartition(topic, 0): 4, TopicPartition(topic, 2): 0}
    client.commit_group("committed", offsets, "batch 7")
    assert client.groups_offsets(["committed"]) == {"committed": offsets}
    many = client.groups_offsets(["committed", "nobody"])
    assert (many, many.problems) == ({"committed": offsets, "nobody": {}}, {})
    with KafkaConsumer(bootstrap_servers=kafka.servers, group_id="committed", allow_auto_create_topics=False) as reader:
        assert reader.committed(TopicPartition(topic, 0), metadata=True).metadata == "batch 7"


def test_a_group_with_members_is_not_committed_for(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    produce(kafka, topic, 5)
    with KafkaConsumer(
        topic, bootstrap_servers=kafka.servers, group_id="busy", auto_offset_reset="earliest", max_poll_records=1
    ) as reader:
        assert next(reader).offset == 0
        with pytest.raises(BrokerUnreachable, match=f"for the group busy: .*partition 0 of the topic {topic}"):
            client.commit_group("busy", {TopicPartition(topic, 0): 3})
