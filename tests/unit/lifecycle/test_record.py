"""Records as they are stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.fields import sound_fields
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import MAX_BYTES, MAX_DEPTH, Kind, Record
from airflow_stream_provider.lifecycle.texts import plain
from tests.support import story
from tests.support.story import record

texts = st.text().filter(lambda text: plain(text) == text)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
names = texts.filter(lambda name: name not in ("", "kind", "by", "at", "nonce", "previous"))


@given(
    kind=texts,
    fields=st.dictionaries(names, json_values, max_size=4),
    by=texts,
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
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b'{"kind": "x"}',
        b"\xff\xfe",
        b'{"kind":"x","by":"","at":"soon","nonce":"n"}',
        b'{"kind":"x","by":"","at":NaN,"nonce":"n"}',
        b'{"kind":"x","by":"","at":1' + b"0" * 90 + b',"nonce":"n","n":1' + b"0" * 200 + b"}",
        b'{"kind":"x","by":"","at":0,"nonce":"n","n":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"kind":"x","by":"","at":0,"nonce":"n","n":' + b"[" * MAX_DEPTH + b"7" + b"]" * MAX_DEPTH + b"}",
        b'{"kind":"x","by":"","at":0,"nonce":"n","n":"' + b"x" * MAX_BYTES + b'"}',
    ],
)
def test_what_is_no_record_is_named_by_its_number(stored: bytes) -> None:
    with pytest.raises(StreamError, match="Record 17 of the control log is not readable"):
        Record.from_json(stored, 17)
    found = Record.read(stored, 17)
    assert (found.kind, found.seq) == (Kind.UNREADABLE, 17)
    assert found.nonce == Record.read(stored, 3).nonce != Record.read(stored + b" ", 17).nonce


def test_what_is_large_and_deep_but_within_the_limits_is_read() -> None:
    inner: Any = "x" * (MAX_BYTES // 2)
    for _ in range(MAX_DEPTH - 1):
        inner = [inner]
    written = Record("noted", {"inner": inner}, by="test", seq=1)
    assert Record.read(written.to_json(), 1) == written


def test_a_record_names_the_one_before_it() -> None:
    written = Record("noted", by="test").numbered(2, "abc")
    assert json.loads(written.to_json())["previous"] == "abc"
    assert Record.from_json(written.to_json(), 2) == written
    with pytest.raises(ValueError, match="previous"):
        make_record("noted", "test", previous="abc")


def test_a_field_cannot_hide_who_wrote_it() -> None:
    with pytest.raises(ValueError, match="nonce say who wrote"):
        make_record("declared", "airflow", nonce="mine")


def test_two_records_of_the_same_words_are_told_apart() -> None:
    assert make_record("retired", "a", deployment="d").nonce != make_record("retired", "a", deployment="d").nonce


RELEASE = {"version": "1", "hash": "0" * 64}


@pytest.mark.parametrize("records", [story.HANDED_OVER, story.INTERRUPTED, story.STOPPED])
def test_what_drivers_and_tasks_write_is_sound(records: list[Any]) -> None:
    assert all(sound_fields(each) for each in records)
    assert sound_fields(record("declared", deployment="d", release=RELEASE, policy=Policy().to_json()))


def test_what_is_missing_or_unknown_is_not_looked_at() -> None:
    assert sound_fields(record("acquired", epoch=None, later=object))
    assert sound_fields(record("a kind of a newer version", deployment=7))
    assert sound_fields(record("declared", release={**RELEASE, "later": 7}, policy={"later": 7}))


@pytest.mark.parametrize("value", [True, "1", float("nan"), float("inf"), [1.0]])
def test_a_time_is_a_finite_number(value: Any) -> None:
    assert not sound_fields(record("requested", request="r", expires=value))


@pytest.mark.parametrize("name", list(Policy().to_json()))
def test_every_limit_of_a_policy_has_its_type(name: str) -> None:
    assert not sound_fields(record("declared", release=RELEASE, policy={name: [{}]}))
