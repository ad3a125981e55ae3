"""What is to be read again, as a record carries it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.rewind import WantedRewind, at, back_to

WANTED = WantedRewind(1764000000.5, {"out": {"orders": {0: 7, 12: 0}}, "totals": {"orders": {}, "returns": {3: 9}}})


def test_it_is_read_as_it_was_written() -> None:
    assert WANTED.to_json()["queries"]["out"] == {"orders": {"0": 7, "12": 0}}
    assert WantedRewind.from_json(WANTED.to_json()) == WANTED


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "2h",
        {"to": 1.0},
        {"to": 1.0, "queries": {}},
        {"to": "soon", "queries": {"out": {"orders": {"0": 7}}}},
        {"queries": {"out": {"orders": {"0": 7}}}},
        {"to": -1.0, "queries": {"out": {"orders": {"0": 7}}}},
        {"to": float("nan"), "queries": {"out": {"orders": {"0": 7}}}},
        {"to": 1.0, "queries": {"out": {"orders": {"0": -2}}}},
        {"to": 1.0, "queries": {"out": {"orders": {"0": "7"}}}},
        {"to": 1.0, "queries": {"out": {"orders": {"0": True}}}},
        {"to": 1.0, "queries": {"out": {"orders": {"first": 7}}}},
        {"to": 1.0, "queries": {"out": {"orders": 7}}},
        {"to": 1.0, "queries": {"out": ["orders"]}},
    ],
)
def test_nothing_else_is_taken_for_it(data: Any) -> None:
    with pytest.raises(SpecError, match="fill in nothing by hand"):
        WantedRewind.from_json(data)


def test_its_time_for_people() -> None:
    assert at(WANTED.to) == "2025-11-24 16:00:00.500 UTC"
    assert at(WANTED.to - 0.5) == "2025-11-24 16:00:00 UTC"


def test_a_query_that_goes_back_never_goes_forward() -> None:
    committed = {"orders": {0: 100, 1: 30}, "returns": {0: 7}}
    assert back_to(committed, {"orders": {0: 40, 1: 40}}) == {"orders": {0: 40, 1: 30}, "returns": {0: 7}}
