"""Kafka's ListOffsets request, packed and unpacked with `struct`.

For thousands of partitions kafka-python's own request objects take most of the time of a lag report. The classes here
have the methods that kafka-python needs in order to send the request and match its response. The version is 7, of
Kafka 3.0 (KIP-734).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka import TopicPartition
    from kafka.structs import OffsetAndTimestamp

LIST_OFFSETS, VERSION = 2, 7
# A partition of the request: index, leader epoch, time, number of tagged fields.
# A partition of the response: index, error code, time, offset, leader epoch, number of tagged fields.
_ASKED = struct.Struct(">iiqB")
_FOUND = struct.Struct(">ihqqiB")
_ANY_EPOCH = -1
_NO_TAGS = b"\0"

# Topic, partition, error code, offset with its timestamp.
PartitionOffset = tuple[str, int, int, "OffsetAndTimestamp"]


class PackedListOffsetsRequest:
    """A ListOffsets request; see `KafkaClient.offsets`.

    :param times: which offset to return, by partition: -2, -1, -3 or milliseconds since 1970.
    :param read_committed: return the last stable offset as the end of the log.
    """

    name = "ListOffsetsRequest"
    API_KEY = LIST_OFFSETS
    min_version = max_version = _min_version = _max_version = VERSION

    def __init__(self, times: Mapping[TopicPartition, int], read_committed: bool) -> None:
        self.API_VERSION: int | None = None  # set by kafka-python once it knows that the broker supports it
        self.header: _Header | None = None
        self._times = times
        self._level = 1 if read_committed else 0

    def __repr__(self) -> str:
        return f"ListOffsets of {len(self._times)} partitions"

    def expect_response(self) -> bool:
        """Return True: the broker always sends a response."""
        return True

    def with_header(self, correlation_id: int = 0, client_id: str = "") -> None:
        """Set the correlation id by which kafka-python matches the response."""
        self.header = _Header(correlation_id, client_id)

    def encode(self, version: int | None = None, header: bool = False, framed: bool = False) -> bytes:
        """Return the request as bytes, with its length and header. The parameters are kafka-python's and not used."""
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
            struct.pack(">ib", -1, self._level),  # replica id -1: a consumer
            UnsignedVarInt32.encode(len(by_topic) + 1),
        ]
        for topic, partitions in by_topic.items():
            count = UnsignedVarInt32.encode(len(partitions) + 1)
            parts += [text.encode(topic, compact=True), count, *partitions, _NO_TAGS]
        parts.append(_NO_TAGS)
        body = b"".join(parts)
        return struct.pack(">i", len(body)) + body


class PackedListOffsetsResponse:
    """A ListOffsets response.

    :param correlation_id: that of the request.
    :param found: an entry for each partition.
    """

    def __init__(self, correlation_id: int, found: Sequence[PartitionOffset] = ()) -> None:
        self.correlation_id = correlation_id
        self.found = found

    def __repr__(self) -> str:
        return f"offsets of {len(self.found)} partitions"

    @classmethod
    def parse_header(cls, data: Any, version: int | None = None) -> PackedListOffsetsResponse:
        """Read only the header, with the correlation id of the request."""
        correlation_id, _ = struct.unpack(">iB", data.read(5))
        return cls(correlation_id)

    @classmethod
    def decode(
        cls, data: Any, version: int | None = None, header: bool = False, framed: bool = False
    ) -> PackedListOffsetsResponse:
        """Read what follows the header.

        :raises struct.error, ValueError: the response is damaged; kafka-python reports it.
        """
        return cls(0, list(_read(data)))


def _read(data: Any) -> Iterator[PartitionOffset]:
    from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32
    from kafka.structs import OffsetAndTimestamp

    data.read(4)  # throttle time
    for _ in range(UnsignedVarInt32.decode(data) - 1):
        topic = data.read(UnsignedVarInt32.decode(data) - 1).decode()
        partitions = data.read((UnsignedVarInt32.decode(data) - 1) * _FOUND.size)
        for index, error, time, offset, _epoch, tags in _FOUND.iter_unpack(partitions):
            if tags:
                raise ValueError("The ListOffsets response has tagged fields, which version 7 does not define.")
            yield topic, index, error, OffsetAndTimestamp(offset, time, None)
        data.read(len(_NO_TAGS))


class _Header:
    """The header of a request, kept until its response arrives."""

    def __init__(self, correlation_id: int, client_id: str) -> None:
        self.correlation_id = correlation_id
        self.client_id = client_id

    def get_response_class(self) -> type[PackedListOffsetsResponse]:
        return PackedListOffsetsResponse
