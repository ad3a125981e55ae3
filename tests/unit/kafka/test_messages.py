"""What is made of the batches that a broker sends, whoever has written them."""

from __future__ import annotations

from kafka.record.default_records import DefaultRecordBatchBuilder

from airflow_stream_provider.kafka.messages import _batch, _read


def batch(headers: list[tuple[str, bytes | None]]) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    builder.append(0, timestamp=1, key=b"k", value=b"v", headers=headers)
    return bytes(builder.build())


def test_a_message_comes_back_as_it_was_written() -> None:
    (found,), behind = _read(_batch(b"k", None, {"a": b"1", "b": b""}), 0)
    assert (found.offset, found.key, found.value, found.headers) == (0, b"k", None, {"a": b"1", "b": b""})
    assert behind == 1


def test_a_header_without_a_value_is_an_empty_one() -> None:
    (found,), _ = _read(batch([("read-to", None), ("trace", b"1")]), 0)
    assert found.headers == {"read-to": b"", "trace": b"1"}
