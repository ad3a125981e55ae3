"""Headers of batches, as the client library writes them; what a broker sends is in the integration tests."""

from __future__ import annotations

from kafka.record import MemoryRecordsBuilder

from airflow_stream_provider.kafka.records import RecordBatch, batches


def batch(records: int, *, transactional: bool = False, magic: int = 2) -> bytes:
    builder = MemoryRecordsBuilder(magic=magic, compression_type=0, batch_size=1_000_000)
    if transactional:
        builder.set_producer_state(7, 0, 0, True)
    for _ in range(records):
        builder.append(timestamp=1, key=None, value=b"x" * 50)
    builder.close()
    return bytes(builder.buffer())


def test_each_batch_has_its_offsets_and_whether_it_belongs_to_a_transaction() -> None:
    second = bytearray(batch(3, transactional=True))
    second[7] = 2
    assert list(batches(batch(2) + bytes(second))) == [
        RecordBatch(0, 1),
        RecordBatch(2, 4, transactional=True),
    ]


def test_a_marker_is_a_control_batch() -> None:
    data = bytearray(batch(1, transactional=True))
    data[22] |= 0x20
    assert list(batches(memoryview(data))) == [RecordBatch(0, 0, control=True, transactional=True)]


def test_bytes_that_end_within_a_batch_or_a_header_are_no_error() -> None:
    whole = batch(2)
    assert list(batches(whole + whole[:20])) == [RecordBatch(0, 1)]
    assert list(batches(whole[:-5])) == [RecordBatch(0, 1)]
    assert list(batches(b"")) == []


def test_a_batch_that_says_it_ends_before_its_header_is_the_last_one() -> None:
    data = bytearray(batch(1))
    data[8:12] = (-12).to_bytes(4, "big", signed=True)
    assert list(batches(data)) == []


def test_an_old_format_says_nothing() -> None:
    assert list(batches(batch(2, magic=1))) == []
