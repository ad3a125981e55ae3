from __future__ import annotations

import json
from typing import Any

from airflow_stream_provider.operators.watched_files import LookMemory
from airflow_stream_provider.spec.watched import hash_of


def test_it_comes_back_as_it_was_left() -> None:
    memory = LookMemory(7.0, {"a": [1]}, {"incident": None}, "0f", 6.0, "orders", {"a": 1}, True, {"a": "file:///d"})
    assert LookMemory.from_json(json.loads(json.dumps(memory.to_json()))) == memory


def test_a_field_that_this_version_does_not_know_is_ignored() -> None:
    assert LookMemory.from_json({"at": 7.0, "later": 1}) == LookMemory(7.0)


def test_what_is_no_memory_is_none() -> None:
    nothing: list[Any] = [None, {}, [], "x", {"at": "noon"}, {"incident": 7}]
    for data in nothing:
        assert LookMemory.from_json(data) == LookMemory()


def test_the_hash_does_not_depend_on_the_order() -> None:
    assert hash_of({"a": 1, "b": 2}) == hash_of({"b": 2, "a": 1}) != hash_of({"a": 1})
