"""JSON objects of other versions, and what is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.stored import known_fields, parse_object


@dataclass
class Thing:
    count: int = 0
    size: float = 0.0
    name: str = ""
    maybe: int | None = None
    many: tuple[Any, ...] = ()
    more: Mapping[str, Any] | None = None


def test_an_object_is_parsed() -> None:
    assert parse_object(b'{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[1]", b"null", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"])
def test_all_else_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_object(data)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"count": 1},
        {"size": 1},
        {"size": 1.5},
        {"count": 2**63 - 1},
        {"size": -1e18},
        {"maybe": None},
        {"maybe": 2},
        {"many": [1]},
        {"more": {"a": 1}},
    ],
)
def test_fields_that_fit_are_kept(data: dict[str, Any]) -> None:
    assert known_fields(Thing, {**data, "of_next_year": 1}) == data


@pytest.mark.parametrize(
    "data",
    [
        *({"count": value} for value in (None, 1.5, True, 2**63, -(2**63), int("9" * 400))),
        *({"size": value} for value in (True, 10**400, 1e300, float("nan"), float("inf"), float("-inf"))),
        *({"maybe": value} for value in (2**63, True)),
        *({"size": "1"}, {"name": 1}, {"maybe": "2"}, {"many": {}}, {"more": []}, [], "x"),
    ],
)
def test_those_that_do_not_are_named(data: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(data)) if isinstance(data, dict) else "is no Thing"):
        known_fields(Thing, data)
