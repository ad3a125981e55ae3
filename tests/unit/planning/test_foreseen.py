"""What is foreseen goes through JSON, and is told in lines."""

from __future__ import annotations

import json

import pytest

from airflow_stream_provider.planning.foreseen import Foreseen, Held, Wanted
from airflow_stream_provider.planning.operation import Operation

HELD = Held("orders-1-aaaa.00000001", "orders-1-aaaa", "1", "0123456789abcdef")
WILL = Foreseen(
    "orders",
    Operation.FENCE,
    "handing_over",
    HELD,
    True,
    ("It is killed.",),
    "a batch.",
    (Operation.FENCE,),
    "orders-1-aaaa",
)


@pytest.mark.parametrize(
    "found", [WILL, Foreseen("orders", Operation.STOP, "empty", None, False, refused="Never ran.")]
)
def test_it_is_the_same_after_a_way_through_json(found: Foreseen) -> None:
    assert Foreseen.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_holder_and_release_come_first_and_what_is_read_again_last() -> None:
    assert str(WILL).splitlines() == [
        "orders is handing over: driver orders-1-aaaa.00000001 with release 1 (0123456789ab) holds it.",
        "It is killed.",
        "Read again: a batch.",
    ]
    last = Foreseen("orders", Operation.STOP, "stopped", HELD, False, done="By anna.").lines
    assert last[0].endswith("held it last.")
    assert last[1] == "Nothing to do: By anna."


def test_a_release_is_named_by_label_and_hash() -> None:
    assert str(Wanted("2", "0123456789abcdef")) == "release 2 (0123456789ab)"
