"""What is foreseen goes through JSON, and is told in lines."""

from __future__ import annotations

import json
from dataclasses import replace

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


def test_what_is_quoted_adds_no_lines() -> None:
    quoted = replace(WILL, will=("A stop by bob (x\n```\n![](http://evil)) is under way.",))
    assert quoted.lines[1:] == ["A stop by bob (x ``` ![](http://evil)) is under way.", "Read again: a batch."]


def test_a_release_is_named_by_label_and_hash() -> None:
    assert str(Wanted("2", "0123456789abcdef")) == "release 2 (0123456789ab)"


def test_what_is_refused_besides_has_nothing_left_to_do() -> None:
    found = replace(WILL, release="abc").refuse("It is paused.")
    assert found.lines[1:] == ["Refused: It is paused."]
    assert (found.parts, found.deployment, found.release) == ((), "", "")


def test_what_an_earlier_command_has_asked_for_is_followed() -> None:
    found = WILL.refuse("An upgrade is under way.").followed(Operation.UPGRADE, "Run r")
    assert (found.refused, found.done, found.parts) == ("", "", (Operation.UPGRADE,))
    assert found.will == ("Run r, which was asked for before, is under way. It is followed.",)


def test_a_yes_is_to_holder_release_and_parts() -> None:
    assert WILL.same_as(replace(WILL, will=("Otherwise.",)))
    for other in (replace(WILL, parts=()), replace(WILL, held=None), replace(WILL, holds=not WILL.holds)):
        assert not WILL.same_as(other)
    assert not WILL.same_as(replace(WILL, release="abc"))
    assert not WILL.same_as(replace(WILL, deployment="orders-2-bbbb")), "another standby is called off, or promoted"


def test_what_an_earlier_version_has_left_is_read() -> None:
    old = {name: value for name, value in WILL.to_json().items() if name != "release"}
    assert Foreseen.from_json(old) == WILL
