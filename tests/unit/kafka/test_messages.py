"""What is made of the batches that a broker sends, whoever has written them."""

from __future__ import annotations

from airflow_stream_provider.kafka.records import _batch, _read


def test_a_message_comes_back_as_it_was_written() -> None:
    (found,), behind = _read(_batch(b"k", None, {"a": b"1", "b": b""}), 0)
    assert (found.offset, found.key, found.value, found.headers) == (0, b"k", None, {"a": b"1", "b": b""})
    assert behind == 1


def test_a_header_without_a_value_is_an_empty_one() -> None:
    headers = {"read-to": None, "trace": b"1"}
    (found,), _ = _read(_batch(b"k", b"v", headers), 0)  # type: ignore[arg-type]  # what only other tools write
    assert found.headers == {"read-to": b"", "trace": b"1"}
