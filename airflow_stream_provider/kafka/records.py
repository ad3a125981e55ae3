"""Write and read records of a partition, and the headers of their batches, one request each.

Headers tell offsets of records from markers of transactions; ListOffsets does not. The request is Kafka's Fetch, which
needs READ on the topic; only the headers of what it returns are looked at.

kafka-python's own producer and consumer are not used: each has a thread, connections and buffers of its own for what is
one request a second, and a watch looks at a thousand topics in one task.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.control.topic import Fetched, Message
from airflow_stream_provider.kafka.answers import Answers
from airflow_stream_provider.kafka.requests import ANY_SECONDS, Requests

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


# Bytes that a partition, and all partitions of a broker, may send. A marker's batch has 78.
HEADERS_PARTITION_BYTES, HEADERS_BROKER_BYTES = 16_384, 1_048_576

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
        return fetch_request(wanted, HEADERS_PARTITION_BYTES, HEADERS_BROKER_BYTES)

    def answers(response: Any) -> Iterator[tuple[str, int, int, tuple[RecordBatch, ...]]]:
        for found in response.responses:
            for each in found.partitions:
                code = response.error_code or each.error_code
                yield found.topic, each.partition_index, code, tuple(batches(each.records or b""))

    return await requests.ask_leaders(dict(positions), request, answers)


def batches(records: Any) -> Iterator[RecordBatch]:
    """Read the headers of batches; ends at a batch that is cut off, and at one of before Kafka 0.11 or of none."""
    data, at = bytes(records), 0
    while at + _HEADER.size <= len(data):
        first, length, _epoch, magic, _checksum, attributes, more = _HEADER.unpack_from(data, at)
        if magic != _FORMAT or length < _HEADER.size - _BEFORE_LENGTH:
            return
        yield RecordBatch(first, first + more, bool(attributes & _CONTROL), bool(attributes & _TRANSACTIONAL))
        at += _BEFORE_LENGTH + length


# The last version that names topics by name; Kafka 2.8 has it.
PRODUCE_VERSION = 9
# Beyond what a leader may wait for its replicas.
SLACK_SECONDS = 3.0
# That all partitions of a broker may send.
BROKER_BYTES = 16 * 1_048_576
_ALL_IN_SYNC = -1
_MAGIC = 2


async def produce(
    requests: Requests,
    partition: TopicPartition,
    key: bytes,
    value: bytes | None,
    headers: Mapping[str, bytes],
    milliseconds: int,
) -> Answers[TopicPartition, int]:
    """Write one message with acks=all, and return its offset; see `KafkaClient.write`.

    Never sent twice: a message without an answer, or refused because too few replicas have it
    (NOT_ENOUGH_REPLICAS_AFTER_APPEND), may stay all the same.
    """
    from kafka.protocol.producer import ProduceRequest

    batch = _batch(key, value, headers)
    topic_data = ProduceRequest.TopicProduceData

    def request(wanted: Mapping[TopicPartition, None]) -> Any:
        data = topic_data.PartitionProduceData(index=partition.partition, records=batch)
        return ProduceRequest(
            transactional_id=None,
            acks=_ALL_IN_SYNC,
            timeout_ms=milliseconds,
            topic_data=[topic_data(name=partition.topic, partition_data=[data])],
            max_version=PRODUCE_VERSION,
        )

    def answers(response: Any) -> Iterator[tuple[str, int, int, int]]:
        for found in response.responses:
            for each in found.partition_responses:
                yield found.name, each.index, each.error_code, each.base_offset

    seconds = milliseconds / 1000 + SLACK_SECONDS
    return await requests.ask_leaders({partition: None}, request, answers, once=True, seconds=seconds)


async def fetch(
    requests: Requests, positions: Mapping[TopicPartition, int], ids: Mapping[str, UUID], partition_bytes: int
) -> Answers[TopicPartition, Fetched]:
    """Return the messages from an offset on, of several partitions; see `KafkaClient.read`."""
    from kafka import TopicPartition

    names = {topic_id: name for name, topic_id in ids.items()}

    def request(wanted: Mapping[TopicPartition, int]) -> Any:
        return fetch_request(wanted, partition_bytes, BROKER_BYTES, ids)

    def answers(response: Any) -> Iterator[tuple[str, int, int, Fetched]]:
        for found in response.responses:
            name = names[found.topic_id]
            for each in found.partitions:
                code = response.error_code or each.error_code
                messages, behind = _read(each.records or b"", positions[TopicPartition(name, each.partition_index)])
                fetched = Fetched(messages, behind, each.high_watermark)
                yield name, each.partition_index, code, fetched

    return await requests.ask_leaders(dict(positions), request, answers, seconds=ANY_SECONDS)


def _batch(key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> bytes:
    from kafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(
        magic=_MAGIC,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    builder.append(0, timestamp=int(time.time() * 1000), key=key, value=value, headers=list(headers.items()))
    return bytes(builder.build())


def _read(records: Any, asked: int) -> tuple[tuple[Message, ...], int]:
    """Return the messages from `asked` on, and the offset behind the last whole batch.

    A batch may begin before what was asked for, and the last one may be cut off.

    :raises CorruptRecordError: the checksum of a batch is not right.
    """
    from kafka.errors import CorruptRecordError
    from kafka.record.memory_records import MemoryRecords

    found: list[Message] = []
    behind = asked
    for batch in MemoryRecords(bytes(records)):
        if batch.magic != _MAGIC or not batch.validate_crc():
            raise CorruptRecordError("A batch is not as it was written.")
        behind = max(behind, batch.base_offset + batch.last_offset_delta + 1)
        if batch.is_control_batch:
            continue
        found += [_message(each) for each in batch if each.offset >= asked]
    return tuple(found), behind


def _message(record: Any) -> Message:
    # Kafka knows headers without a value, which no version of this package writes.
    headers = {name: value or b"" for name, value in record.headers}
    return Message(record.offset, record.key, record.value, headers, record.timestamp / 1000)
