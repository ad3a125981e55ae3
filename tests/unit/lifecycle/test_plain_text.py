"""What is replaced in a text that a driver or a file says, and what stays."""

from __future__ import annotations

import json

import pytest

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.texts import plain, plain_within

UNDECODABLE = b"/data/\x80".decode(errors="surrogateescape")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a line\n\tand one that is déjà vu \U0001f600", "a line\n\tand one that is déjà vu \U0001f600"),
        (UNDECODABLE, "/data/\ufffd"),
        ("\ud83d alone", "\ufffd alone"),
        ("NUL \0", "NUL \ufffd"),
        ("\x1b]52;c;aGk=\x07", "\ufffd]52;c;aGk=\ufffd"),
        ("\x9b31m", "\ufffd31m"),
        ("\u202etxet", "\ufffdtxet"),
    ],
)
def test_what_cannot_be_encoded_or_steers_a_terminal_is_replaced(text: str, expected: str) -> None:
    assert plain(text) == expected
    assert plain(text).encode()


def test_keys_and_inner_texts_are_made_plain_and_all_else_stays() -> None:
    found = plain_within({"a\0": ["b\0", 1, None, {"c": "d\0"}]})
    assert found == {"a\ufffd": ["b\ufffd", 1, None, {"c": "d\ufffd"}]}


def test_what_a_driver_wrote_is_read_plain() -> None:
    beat = Heartbeat.from_json(json.dumps({"message": UNDECODABLE}).encode(), "orders-1-aaaa.00000001")
    assert beat.message == "/data/\ufffd"
    body = {"kind": "failed", "by": "driver", "at": 1, "nonce": "n", "reason": UNDECODABLE}
    assert Record.from_json(json.dumps(body).encode(), 1)["reason"] == "/data/\ufffd"


def test_an_error_can_be_encoded() -> None:
    assert str(StreamError(f"Found {UNDECODABLE}.", next_step="Look.\0")) == "Found /data/\ufffd. Look.\ufffd"
