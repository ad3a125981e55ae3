"""Which messages of a control topic count, and what shows that a part of it is lost."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.control.topic import Message
from airflow_stream_provider.control.topic_index import (
    HELD_VALUE,
    READ_TO,
    Last,
    ReadTo,
    TopicIndex,
    cut,
    number_of,
    record_key,
)
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlLogReplaced
from airflow_stream_provider.lifecycle.record import MAX_BYTES, Record

DRIVER = "orders-1-aaaaaaaa.00000001"


class Writer:
    """Writes messages to an index, one behind the other; it has read all of them, unless it is told otherwise."""

    def __init__(self) -> None:
        self.index = TopicIndex("orders")

    def send(self, key: str, value: bytes | None = b"-", read_to: ReadTo | None = None, **headers: bytes) -> int | None:
        known = self.index.read_to if read_to is None else read_to
        return self.take(key.encode(), value, {READ_TO: known.to_header(), **headers})

    def take(self, key: bytes | None, value: bytes | None, headers: dict[str, bytes]) -> int | None:
        return self.index.take(Message(self.index.next_offset, key, value, headers))

    def record(self, seq: int, read_to: ReadTo | None = None) -> Record:
        record = make_record("kind", "me").numbered(seq, self.index.read_to.nonce)
        self.send(record_key(seq), record.to_json(), read_to)
        return record


def test_of_two_records_with_one_number_the_first_counts() -> None:
    writer = Writer()
    first = writer.record(1)
    before = writer.index.read_to
    winner = writer.record(2)
    writer.record(2, read_to=before)
    assert writer.index.nonces == {1: first.nonce, 2: winner.nonce}
    assert writer.index.offsets == {1: 0, 2: 1}
    assert writer.index.next_offset == 3
    assert writer.index.read_to == ReadTo(2, winner.nonce, first.nonce)


def test_a_record_that_comes_late_changes_nothing() -> None:
    writer = Writer()
    writer.record(1)
    slow = writer.index.read_to
    writer.record(2)
    third = writer.record(3)
    writer.record(2, read_to=slow)
    assert writer.index.read_to.nonce == third.nonce


def test_a_writer_that_had_read_more_than_there_is_shows_that_a_record_is_lost() -> None:
    writer = Writer()
    first = writer.record(1)
    with pytest.raises(ControlLogDamaged, match=r"Record 2 .* is missing"):
        writer.send(f"heartbeat/{DRIVER}", b"{}", ReadTo(2, "a" * 32, first.nonce))
    assert writer.index.next_offset == 1, "whoever reads on finds it again"


def test_a_number_that_does_not_follow_shows_that_a_record_is_lost() -> None:
    writer = Writer()
    writer.record(1)
    with pytest.raises(ControlLogDamaged, match=r"Record 2 .* is missing"):
        writer.record(3)


def test_a_writer_that_had_read_another_record_shows_that_the_log_was_put_back() -> None:
    writer = Writer()
    writer.record(1)
    writer.record(2)
    with pytest.raises(ControlLogReplaced, match=r"Record 2 .* is another one"):
        writer.send("look", b"-", ReadTo(2, "b" * 32, writer.index.read_to.first))


def test_a_writer_of_a_topic_that_is_no_more_changes_nothing_and_is_told_of() -> None:
    writer = Writer()
    writer.record(1)
    writer.send(f"heartbeat/{DRIVER}", b"{}", ReadTo(9, "b" * 32, "c" * 32))
    writer.send(record_key(2), b"{}", ReadTo(1, "b" * 32, "c" * 32))
    assert writer.index.foreign
    assert (writer.index.last, list(writer.index.offsets)) == ({}, [1])


def test_a_log_without_records_though_somebody_had_read_some_is_not_a_new_one() -> None:
    writer = Writer()
    with pytest.raises(ControlLogDamaged, match=r"Record 1 .* is missing"):
        writer.send(f"heartbeat/{DRIVER}", b"{}", ReadTo(9, "b" * 32, "c" * 32))


def test_the_last_heartbeat_counts_and_not_one_that_comes_late() -> None:
    writer = Writer()
    for count in (1, 2, 4, 3):
        writer.send(f"heartbeat/{DRIVER}", str(count).encode(), count=str(count).encode())
    assert writer.index.last == {f"heartbeat/{DRIVER}": Last(2, 4, b"4")}


def test_a_heartbeat_that_was_removed_is_none() -> None:
    writer = Writer()
    writer.send(f"heartbeat/{DRIVER}", b"1", count=b"9")
    writer.send(f"heartbeat/{DRIVER}", None)
    assert writer.index.last == {}
    writer.send(f"heartbeat/{DRIVER}", b"2", count=b"1")  # a driver that was thought dead
    assert writer.index.last == {f"heartbeat/{DRIVER}": Last(2, 1, b"2")}


def test_what_is_not_known_of_an_old_record_is_asked_for() -> None:
    writer = Writer()
    writer.record(1)
    first = writer.index.read_to
    writer.record(2)
    del writer.index.nonces[1]
    slow = Message(2, b"look", b"-", {READ_TO: first.to_header()})
    assert writer.index.lacks(slow) == 1
    other = Message(2, b"look", b"-", {READ_TO: ReadTo(1, "a" * 32, "b" * 32).to_header()})
    assert writer.index.lacks(other) is None
    assert writer.index.lacks(Message(2, b"look", b"-", {READ_TO: ReadTo().to_header()})) is None


def test_the_last_saved_state_and_the_last_topic_ids_count() -> None:
    writer = Writer()
    for value in (b"old", b"new"):
        writer.send("state", value)
        writer.send("topics", value)
    assert {key: last.value for key, last in writer.index.last.items()} == {"state": b"new", "topics": b"new"}
    for key in ("state", "topics"):
        writer.send(key, None)
    assert set(writer.index.last) == {"state"}, "a person removes the ids; a state that is gone would only cost time"


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (None, b"-", {}),
        (b"state", b"forged", {}),
        (b"state", b"forged", {READ_TO: b"0"}),
        (b"state", b"forged", {READ_TO: b"-1 a b"}),
        (b"state", b"forged", {READ_TO: b"\xff\xfe x y"}),
        (b"state", None, {READ_TO: b"0  "}),
        (b"something/new", b"-", {READ_TO: b"0  "}),
        (b"heartbeat/../../etc", b"-", {READ_TO: b"0  "}),
        (b"record/1/short", b"-", {READ_TO: b"0  "}),
        (b"record/0/" + b"a" * 32, b"-", {READ_TO: b"0  "}),
    ],
)
def test_what_no_version_writes_changes_nothing(
    key: bytes | None, value: bytes | None, headers: dict[str, Any]
) -> None:
    writer = Writer()
    assert writer.take(key, value, headers) is None
    assert writer.index == TopicIndex("orders", next_offset=1)


def test_what_is_too_large_for_a_record_is_one_that_nobody_can_read() -> None:
    writer = Writer()
    writer.send(record_key(1), b"x" * (MAX_BYTES + 1))
    assert writer.index.nonces == {1: Record.read(b"", 1).nonce}


def test_the_key_of_a_record_is_its_own() -> None:
    assert record_key(7) != record_key(7)
    assert number_of(record_key(7).encode()) == 7
    assert number_of(b"heartbeat/" + DRIVER.encode()) is None
    assert number_of(None) is None


@pytest.mark.parametrize(
    ("key", "kept"),
    [
        (f"record/1/{'a' * 32}", MAX_BYTES + 1),
        (f"heartbeat/{DRIVER}", HELD_VALUE + 1),
        ("state", HELD_VALUE + 1),
        ("sample/7", 1),
        ("look", 1),
        ("junk", 1),
    ],
)
def test_a_value_is_cut_where_it_is_too_large_already(key: str, kept: int) -> None:
    def cut_of(value: bytes | None) -> bytes | None:
        return cut(Message(0, key.encode(), value, {})).value

    assert [len(cut_of(b"x" * size) or b"") for size in (1, kept, kept + 1)] == [1, kept, kept]
    assert cut_of(None) is None
