"""What a writer tells of its topic in a header comes back as it was, or not at all."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.control.log import SAVE_EVERY
from airflow_stream_provider.control.topic import Message
from airflow_stream_provider.control.topic_index import (
    INDEX,
    READ_TO,
    RECORDS,
    Last,
    ReadTo,
    TopicIndex,
    from_header,
    to_header,
)

DRIVER = "heartbeat/orders-1-aaaaaaaa.00000001"
TOPIC = "a" * 32


def known(records: int = 5) -> TopicIndex:
    """What a reader knows that has read so many records, at every third offset, and all else behind them."""
    nonces = {seq: f"{seq:032x}" for seq in range(1, records + 1)}
    return TopicIndex(
        "orders",
        3 * records + 10,
        ReadTo(records, nonces[records], nonces[1]) if records else ReadTo(),
        {seq: 3 * seq for seq in nonces},
        nonces,
        {DRIVER: Last(3 * records + 8, 77, b"beat", 1.0), "state": Last(3 * records + 2, 0, b"saved", 1.0)},
    )


def sent(index: TopicIndex, header: bytes | None = None) -> Message:
    data = to_header(index, TOPIC) if header is None else header
    headers = {READ_TO: index.read_to.to_header(), **({} if data is None else {INDEX: data})}
    return Message(index.next_offset + 2, b"look", b"-", headers)


def changed(**body: Any) -> Message:
    """A message whose header was written so, with a right checksum; what is None is left out."""
    index = known()
    right = json.loads((to_header(index, TOPIC) or b"").split(b" ", 2)[2])
    text = json.dumps({name: each for name, each in {**right, **body}.items() if each is not None}).encode()
    return sent(index, b"1 %08x %s" % (zlib.crc32(text, zlib.crc32(index.read_to.to_header())), text))


def test_it_comes_back_without_values() -> None:
    index = known()
    found = from_header(sent(index), TOPIC, "orders")
    last = {key: replace(each, value=None, at=0.0) for key, each in index.last.items()}
    assert found == replace(index, nonces={5: index.nonces[5]}, last=last)
    assert changed() != sent(index)  # other blanks
    assert from_header(changed(), TOPIC, "orders") == found


def test_it_has_the_last_records_only_and_more_than_are_written_between_two_saved_states() -> None:
    found = from_header(sent(known(1000)), TOPIC, "orders")
    assert found is not None
    assert (min(found.offsets), len(found.offsets)) == (1000 - RECORDS + 1, RECORDS)
    assert found.offsets[900] == 2700
    assert RECORDS > SAVE_EVERY
    assert len(to_header(known(1000), TOPIC) or b"") < 1500


def test_there_is_none_before_the_first_record_and_none_that_is_too_large() -> None:
    assert to_header(known(0), TOPIC) is None
    index = known()
    index.last = {f"{DRIVER[:-8]}{number:08x}": Last(number) for number in range(500)}
    assert to_header(index, TOPIC) is None


def test_one_of_another_topic_is_not_used() -> None:
    assert from_header(sent(known()), "b" * 32, "orders") is None


def test_one_that_was_changed_anywhere_is_not_used() -> None:
    index = known()
    data = to_header(index, TOPIC) or b""
    for place in range(len(data)):
        damaged = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        assert from_header(sent(index, damaged), TOPIC, "orders") is None
        assert from_header(sent(index, data[:place]), TOPIC, "orders") is None
    other = replace(index, read_to=ReadTo(4, index.nonces[4], index.nonces[1]))
    assert from_header(sent(other, data), TOPIC, "orders") is None


@pytest.mark.parametrize(
    "body",
    [
        {"records": []},
        {"records": [3, 3, 3, 3]},
        {"records": [3, 3, 3, 3, -1]},
        {"records": [3, 3, 3, 3, 300]},
        {"records": None},
        {"records": ["x"] * 5},
        {"next": 28},
        {"next": "later"},
        {"last": {DRIVER: [25, 1]}},
        {"last": {DRIVER: [-1, 1]}},
        {"last": {DRIVER: [1]}},
        {"last": {"something/new": [1, 1]}},
        {"last": []},
        {"last": {"\ud800": [1, 1]}},
        {"next": float("inf")},
        {"topic": None},
    ],
)
def test_one_that_cannot_be_is_not_used(body: dict[str, Any]) -> None:
    assert from_header(changed(**body), TOPIC, "orders") is None
