"""What a broker reads in our Fetch; real ones answer it in tests/integration/kafka."""

from __future__ import annotations

from uuid import UUID

import pytest
from kafka import TopicPartition
from kafka.protocol.consumer import FetchRequest

from airflow_stream_provider.kafka.records import fetch_request

POSITIONS = {TopicPartition("a", 0): 5, TopicPartition("b", 0): 6, TopicPartition("a", 2): 7}
IDS = {"a": UUID(int=1), "b": UUID(int=2), "other": UUID(int=3)}


@pytest.mark.parametrize("ids", [None, IDS])
def test_topics_go_by_their_names_or_by_their_ids(ids: dict[str, UUID] | None) -> None:
    version = 12 if ids is None else 13
    request = fetch_request(POSITIONS, 100, 1000, ids)
    assert (request._min_version, request._max_version) == (None if ids is None else version, version)
    request.API_VERSION = version
    request.with_header(1, "test")
    read = FetchRequest.decode(request.encode(header=True), version=version, header=True)
    assert (read.max_wait_ms, read.min_bytes, read.max_bytes) == (0, 0, 1000)
    found = {
        topic.topic if ids is None else topic.topic_id: [
            (each.partition, each.fetch_offset, each.partition_max_bytes) for each in topic.partitions
        ]
        for topic in read.topics
    }
    one, two = ("a", "b") if ids is None else (IDS["a"], IDS["b"])
    assert found == {one: [(0, 5, 100), (2, 7, 100)], two: [(0, 6, 100)]}
