"""The packed ListOffsets request and response have the same bytes as those of kafka-python."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from airflow_stream_provider.kafka.list_offsets import VERSION, PackedListOffsetsRequest, PackedListOffsetsResponse

LONG = st.integers(-(2**63), 2**63 - 1)
TOPICS = st.text("ab.-_ä", min_size=1, max_size=200)
PLACES = st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1))


@given(times=st.dictionaries(PLACES, LONG, max_size=300), read_committed=st.booleans())
def test_a_request_has_the_bytes_that_kafka_python_would_send(
    times: Mapping[TopicPartition, int], read_committed: bool
) -> None:
    topic, partition = ListOffsetsRequest.ListOffsetsTopic, ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
    names = dict.fromkeys(place.topic for place in times)
    theirs = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[
            topic(
                name=name,
                partitions=[
                    partition(partition_index=place.partition, timestamp=at)
                    for place, at in times.items()
                    if place.topic == name
                ],
            )
            for name in names
        ],
    )
    ours = PackedListOffsetsRequest(times, read_committed)
    for request in (theirs, ours):
        request.API_VERSION = VERSION
        request.with_header(correlation_id=7, client_id="me")
    assert ours.encode(framed=True, header=True) == theirs.encode(framed=True, header=True)


@given(found=st.dictionaries(PLACES, st.tuples(st.integers(-1, 100), LONG, LONG), max_size=300))
def test_a_response_is_read_as_kafka_python_reads_it(found: Mapping[TopicPartition, tuple[int, int, int]]) -> None:
    body = answer(found)
    header = PackedListOffsetsResponse.parse_header(body)
    assert header.correlation_id == 7
    read = {
        TopicPartition(topic, number): (error, value.timestamp, value.offset)
        for topic, number, error, value in PackedListOffsetsResponse.decode(body).found
    }
    assert read == found


def test_a_truncated_response_is_an_error() -> None:
    whole = answer({TopicPartition("a", 1): (0, 1, 2)}).getvalue()
    with pytest.raises(struct.error):
        PackedListOffsetsResponse.decode(io.BytesIO(whole[5:-6]))


def answer(found: Mapping[TopicPartition, tuple[int, int, int]]) -> io.BytesIO:
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    partition = topic.ListOffsetsPartitionResponse
    response = ListOffsetsResponse(
        throttle_time_ms=0,
        topics=[
            topic(
                name=name,
                partitions=[
                    partition(partition_index=place.partition, error_code=error, timestamp=time, offset=offset)
                    for place, (error, time, offset) in found.items()
                    if place.topic == name
                ],
            )
            for name in dict.fromkeys(place.topic for place in found)
        ],
    )
    response.API_VERSION = VERSION
    response.with_header(correlation_id=7)
    return io.BytesIO(response.encode(header=True))
