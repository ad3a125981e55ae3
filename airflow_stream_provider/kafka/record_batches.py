"""Ask for the headers of record batches: which offsets hold records, and which only markers of transactions.

ListOffsets does not tell them apart. The request is Kafka's Fetch, which needs READ on the topic; only the headers of
what it returns are looked at.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.kafka.answers import Answers
from airflow_stream_provider.kafka.fetch_request import fetch_request
from airflow_stream_provider.kafka.requests import Requests

if TYPE_CHECKING:
    from kafka import TopicPartition

# Bytes that a partition, and all partitions of a broker, may send. A marker's batch has 78.
PARTITION_BYTES, BROKER_BYTES = 16_384, 1_048_576

# The head of a batch: its first offset, the length of the rest, the leader's epoch, the format, the checksum, the
# attributes, the last offset less the first one.
_HEADER = struct.Struct(">qiibIhi")
_BEFORE_LENGTH = 12
_FORMAT = 2
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


@dataclass(frozen=True)
class RecordBatch:
    """A batch: the offsets from `first` to `last`.

    :param control: it is a marker that ends a transaction, and holds no record.
    :param transactional: it belongs to a transaction, as its marker does too.
    """

    first: int
    last: int
    control: bool = False
    transactional: bool = False


async def fetch_batches(
    requests: Requests, positions: Mapping[TopicPartition, int]
) -> Answers[TopicPartition, tuple[RecordBatch, ...]]:
    """Return the first batches from an offset on; see `KafkaClient.batches`."""

    def request(wanted: Mapping[TopicPartition, int]) -> Any:
        return fetch_request(wanted, PARTITION_BYTES, BROKER_BYTES)

    def answers(response: Any) -> Iterator[tuple[str, int, int, tuple[RecordBatch, ...]]]:
        for found in response.responses:
            for each in found.partitions:
                code = response.error_code or each.error_code
                yield found.topic, each.partition_index, code, tuple(headers(each.records or b""))

    return await requests.ask_leaders(dict(positions), request, answers)


def headers(records: Any) -> Iterator[RecordBatch]:
    """Read the headers of batches; ends at a batch that is cut off, and at one of before Kafka 0.11 or of none."""
    data, at = bytes(records), 0
    while at + _HEADER.size <= len(data):
        first, length, _epoch, magic, _checksum, attributes, more = _HEADER.unpack_from(data, at)
        if magic != _FORMAT or length < _HEADER.size - _BEFORE_LENGTH:
            return
        yield RecordBatch(first, first + more, bool(attributes & _CONTROL), bool(attributes & _TRANSACTIONAL))
        at += _BEFORE_LENGTH + length
