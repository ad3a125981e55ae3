"""What tests, benchmarks and demos write to Kafka through a client of ours, which itself only looks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from airflow_stream_provider.kafka.requests import TOPIC, Requests
from devstack.drivers import wait_for

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.client import KafkaClient


def create_topics(client: KafkaClient, partitions: Mapping[str, int]) -> None:
    """Create the topics that do not exist yet, and wait until every broker knows the leaders of their partitions.

    :param partitions: number of partitions by topic.
    """
    there = client.topics(partitions)
    new = {name: {"num_partitions": count} for name, count in partitions.items() if name not in there}
    if new:
        client._admin.create_topics(new, wait_for_metadata=True)
        wait_until_known(client, new)


def wait_until_known(client: KafkaClient, topics: Iterable[str]) -> None:
    """Wait until every broker that answers knows the leaders of new topics: each learns them when it gets to it."""
    for topic in topics:
        wait_for(f"the brokers to know {topic}", partial(client.is_known, topic, 1))


def alter_topic(client: KafkaClient, topic: str, settings: Mapping[str, str]) -> None:
    """Change settings of a topic as a person does, and wait until every broker that answers says so."""
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.protocol.admin import DescribeConfigsRequest

    client._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, dict(settings))])
    asks = DescribeConfigsRequest(resources=[(TOPIC, topic, list(settings))])

    def known() -> bool:
        answers = client._run("for configs", Requests.ask_brokers, client._kafka.brokers(), lambda _: asks)
        told = [{each.name: each.value for each in answer.results[0].configs} for answer in answers.values()]
        return bool(told) and all(each == settings for each in told)

    wait_for(f"the brokers to know the settings of {topic}", known)


def commit_group(client: KafkaClient, group: str, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
    """Commit offsets for a consumer group without members; the first group of a cluster may take some tries.

    :raises AssertionError: Kafka refuses a partition, or the group has no coordinator for ten minutes.
    """
    from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NoError, NotCoordinatorError
    from kafka.structs import OffsetAndMetadata

    not_yet = (CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError)
    wanted = {partition: OffsetAndMetadata(offset, metadata, -1) for partition, offset in offsets.items()}

    def committed() -> bool:
        with contextlib.suppress(*not_yet):
            answers = client._admin.alter_group_offsets(group, wanted)
            refused = {partition: error for partition, error in answers.items() if error is not NoError}
            if not set(refused.values()) & set(not_yet):  # said of each partition, too
                assert not refused, refused
                return True
        return False

    wait_for(f"a coordinator of the group {group}", committed)
