"""Kafka's ListOffsets for thousands of partitions: kafka-python's objects alone would take most of a report's time.

Version 7 (Kafka 3.0, KIP-734), packed and unpacked in place. Here is what kafka-python asks of a request and of the
class of its answer; it still sends, times and matches them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka import TopicPartition
    from kafka.structs import OffsetAndTimestamp

LIST_OFFSETS, VERSION = 2, 7
# Of a request: index, leader epoch, time, no tagged fields. Of an answer: index, error, time, offset, epoch, no tags.
_ASKED = struct.Struct(">iiqB")
_FOUND = struct.Struct(">ihqqiB")
_ANY_EPOCH = -1
_NO_TAGS = b"\0"

# Topic, partition, error code, and what was found.
PartitionOffset = tuple[str, int, int, "OffsetAndTimestamp"]


class PackedListOffsetsRequest:
    """A request for the offsets of partitions at a time each: see `KafkaClient.offsets`."""

    name = "ListOffsetsRequest"
    API_KEY = LIST_OFFSETS
    min_version = max_version = _min_version = _max_version = VERSION

    def __init__(self, times: Mapping[TopicPartition, int], read_committed: bool) -> None:
        self.API_VERSION: int | None = None  # set once the broker is known to have it
        self.header: _Header | None = None
        self._times = times
        self._level = 1 if read_committed else 0

    def __repr__(self) -> str:
        return f"ListOffsets of {len(self._times)} partitions"

    def expect_response(self) -> bool:
        """There is an answer."""
        return True

    def with_header(self, correlation_id: int = 0, client_id: str = "") -> None:
        """Take the number that the answer will have."""
        self.header = _Header(correlation_id, client_id)

    def encode(self, version: int | None = None, header: bool = False, framed: bool = False) -> bytes:
        """Return the whole request, with its header and its length."""
        from kafka.protocol.schemas.fields.codecs import String, UnsignedVarInt32

        assert self.header is not None
        text = String("utf-8")
        by_topic: dict[str, list[bytes]] = {}
        for partition, at in self._times.items():
            packed = _ASKED.pack(partition.partition, _ANY_EPOCH, at, 0)
            by_topic.setdefault(partition.topic, []).append(packed)
        parts = [
            struct.pack(">hhi", LIST_OFFSETS, VERSION, self.header.correlation_id),
            text.encode(self.header.client_id) + _NO_TAGS,
            struct.pack(">ib", -1, self._level),  # a consumer, not a replica
            UnsignedVarInt32.encode(len(by_topic) + 1),
        ]
        for topic, partitions in by_topic.items():
            count = UnsignedVarInt32.encode(len(partitions) + 1)
            parts += [text.encode(topic, compact=True), count, *partitions, _NO_TAGS]
        parts.append(_NO_TAGS)
        body = b"".join(parts)
        return struct.pack(">i", len(body)) + body


class PackedListOffsetsResponse:
    """What a broker answers, partition by partition."""

    def __init__(self, correlation_id: int, found: Sequence[PartitionOffset] = ()) -> None:
        self.correlation_id = correlation_id
        self.found = found

    def __repr__(self) -> str:
        return f"offsets of {len(self.found)} partitions"

    @classmethod
    def parse_header(cls, data: Any, version: int | None = None) -> PackedListOffsetsResponse:
        """Return the number of the request that this answers; its offsets are still to be read."""
        correlation_id, _ = struct.unpack(">iB", data.read(5))
        return cls(correlation_id)

    @classmethod
    def decode(
        cls, data: Any, version: int | None = None, header: bool = False, framed: bool = False
    ) -> PackedListOffsetsResponse:
        """Return what follows the header; kafka-python tells of the struct.error or ValueError of a damaged one."""
        return cls(0, list(_read(data)))


def _read(data: Any) -> Iterator[PartitionOffset]:
    from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32
    from kafka.structs import OffsetAndTimestamp

    data.read(4)  # the throttle time
    for _ in range(UnsignedVarInt32.decode(data) - 1):
        topic = data.read(UnsignedVarInt32.decode(data) - 1).decode()
        partitions = data.read((UnsignedVarInt32.decode(data) - 1) * _FOUND.size)
        for index, error, time, offset, _epoch, tags in _FOUND.iter_unpack(partitions):
            if tags:
                raise ValueError("ListOffsets has tagged fields, which version 7 does not know.")
            yield topic, index, error, OffsetAndTimestamp(offset, time, None)
        data.read(len(_NO_TAGS))


class _Header:
    """What is kept of a request while it waits for its answer."""

    def __init__(self, correlation_id: int, client_id: str) -> None:
        self.correlation_id = correlation_id
        self.client_id = client_id

    def get_response_class(self) -> type[PackedListOffsetsResponse]:
        return PackedListOffsetsResponse
