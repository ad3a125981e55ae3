"""What tests, benchmarks and demos write to Kafka through a client of ours, which itself only looks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.client import KafkaClient


def create_topics(client: KafkaClient, partitions: Mapping[str, int]) -> None:
    """Create the topics that do not exist yet, and wait until their partitions have leaders.

    :param partitions: number of partitions by topic.
    """
    there = client.topics(partitions)
    new = {name: {"num_partitions": count} for name, count in partitions.items() if name not in there}
    if new:
        client._admin.create_topics(new, wait_for_metadata=True)


def commit_group(client: KafkaClient, group: str, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
    """Commit offsets for a consumer group without members; the first group of a cluster may take some tries.

    :raises AssertionError: Kafka refuses a partition.
    """
    from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NoError, NotCoordinatorError
    from kafka.structs import OffsetAndMetadata

    not_yet = (CoordinatorNotAvailableError, CoordinatorLoadInProgressError, NotCoordinatorError)
    wanted = {partition: OffsetAndMetadata(offset, metadata, -1) for partition, offset in offsets.items()}
    for _ in range(100):
        with contextlib.suppress(*not_yet):
            answers = client._admin.alter_group_offsets(group, wanted)
            refused = {partition: error for partition, error in answers.items() if error is not NoError}
            if not set(refused.values()) & set(not_yet):  # said of each partition, too
                assert not refused, refused
                return
        time.sleep(0.2)
    raise AssertionError(f"The group {group} has no coordinator.")
