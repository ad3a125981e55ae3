"""The request for offsets, which is made of rows, has the bytes of one that is made of kafka-python's objects."""

from __future__ import annotations

from kafka import TopicPartition
from kafka.protocol.consumer import ListOffsetsRequest

from airflow_stream_provider.kafka.requests import OFFSETS_VERSION, offsets_request


def test_rows_are_sent_as_objects_are() -> None:
    topic, partition = ListOffsetsRequest.ListOffsetsTopic, ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
    theirs = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1,
        topics=[
            topic(name="a", partitions=[partition(partition_index=n, timestamp=at) for n, at in ((0, -1), (7, 2**40))]),
            topic(name="b", partitions=[partition(partition_index=1, timestamp=-2)]),
        ],
    )
    times = {TopicPartition("a", 0): -1, TopicPartition("b", 1): -2, TopicPartition("a", 7): 2**40}
    ours = offsets_request(times, read_committed=True)
    for request in (theirs, ours):
        request.API_VERSION = OFFSETS_VERSION
        request.with_header(correlation_id=7, client_id="me")
    assert ours.encode(framed=True, header=True) == theirs.encode(framed=True, header=True)
