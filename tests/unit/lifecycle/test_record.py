"""Records as they are stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.record import Record
from tests.support import story

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
names = st.text(min_size=1).filter(lambda name: name not in ("kind", "by", "at", "nonce"))


@given(
    kind=st.text(min_size=1),
    fields=st.dictionaries(names, json_values, max_size=4),
    by=st.text(),
    at=st.floats(0, 2e9),
    seq=st.integers(1, 10**19),
)
def test_what_was_written_is_read(kind: str, fields: dict[str, Any], by: str, at: float, seq: int) -> None:
    written = Record(kind=kind, fields=fields, by=by, at=at, seq=seq)
    assert Record.from_json(written.to_json(), seq) == written


def test_a_record_is_one_flat_json_object() -> None:
    body = json.loads(story.acquired(story.NEW, "up", 2).to_json())
    assert {"kind": "acquired", "incarnation": story.NEW, "request": "up", "epoch": 2}.items() <= body.items()
    assert set(body) == {"kind", "by", "at", "nonce", "incarnation", "request", "epoch"}


@pytest.mark.parametrize(
    "stored",
    [b"", b"{", b"[]", b"7", b'{"kind": "x"}', b"\xff\xfe", b'{"kind":"x","by":"","at":"soon","nonce":"n"}'],
)
def test_what_is_no_record_is_named_by_its_number(stored: bytes) -> None:
    with pytest.raises(StreamError, match="Record 17 of the control log is not readable"):
        Record.from_json(stored, 17)


def test_a_field_cannot_hide_who_wrote_it() -> None:
    with pytest.raises(ValueError, match="nonce say who wrote"):
        make_record("declared", "airflow", nonce="mine")


def test_two_records_of_the_same_words_are_told_apart() -> None:
    assert make_record("retired", "a", deployment="d").nonce != make_record("retired", "a", deployment="d").nonce
