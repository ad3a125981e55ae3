"""Build Kafka's Fetch: of what a leader has of several partitions now, without waiting for more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uuid import UUID

    from kafka import TopicPartition

# The last version that names topics by name; Kafka 3.0 has it.
NAMES_VERSION = 12
# The first version that names topics by their ids, so that one made anew is another one (KIP-516); Kafka 3.1 has it.
IDS_VERSION = 13


def fetch_request(
    positions: Mapping[TopicPartition, int],
    partition_bytes: int,
    broker_bytes: int,
    ids: Mapping[str, UUID] | None = None,
) -> Any:
    """Return the request for what one leader has.

    :param positions: an offset by partition.
    :param partition_bytes: that a partition may send.
    :param broker_bytes: that all of them may send.
    :param ids: of the topics, to ask for these alone; None: topics go by their names.
    """
    from kafka.protocol.consumer import FetchRequest

    topic, partition = FetchRequest.FetchTopic, FetchRequest.FetchTopic.FetchPartition
    by_topic: dict[str, list[Any]] = {}
    for tp, offset in positions.items():
        asked = partition(partition=tp.partition, fetch_offset=offset, partition_max_bytes=partition_bytes)
        by_topic.setdefault(tp.topic, []).append(asked)
    if ids is None:
        topics = [topic(topic=name, partitions=each) for name, each in by_topic.items()]
        versions = {"max_version": NAMES_VERSION}
    else:
        topics = [topic(topic_id=ids[name], partitions=each) for name, each in by_topic.items()]
        versions = {"min_version": IDS_VERSION, "max_version": IDS_VERSION}
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=broker_bytes, topics=topics, **versions)
