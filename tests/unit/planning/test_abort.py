"""A release is called off before it holds the stream, and not after."""

from __future__ import annotations

import pytest

from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.conditions import RequestOver
from airflow_stream_provider.planning.retire import abort
from airflow_stream_provider.planning.steps import Append, Done, GiveUp, Skip, Wait
from tests.support.snapshots import BOTH, UPGRADED, given_up, snapshot
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD_DEPLOYMENT, READY, RUNNING, declared, fenced, retired


def test_what_never_held_is_ended() -> None:
    assert abort(snapshot(*BOTH), NEW_DEPLOYMENT, None, "why") == Append(
        "retired", {"deployment": NEW_DEPLOYMENT, "reason": "why"}
    )
    over = abort(snapshot(*RUNNING, declared("b"), retired("b")), "b", None, "why")
    assert isinstance(over, Done)
    assert isinstance(abort(snapshot(*BOTH), "nobody", None, "why"), Skip)


def test_an_open_hand_over_to_it_is_waited_for() -> None:
    step = abort(snapshot(*READY), NEW_DEPLOYMENT, None, "why")
    assert isinstance(step, Wait)
    assert isinstance(step.condition, RequestOver)


@pytest.mark.parametrize("records", [UPGRADED, [*UPGRADED, fenced(NEW)]])
def test_what_has_taken_over_meanwhile_is_not_touched(records: list[Record]) -> None:
    said = given_up(abort(snapshot(*records), NEW_DEPLOYMENT, None, "why"))
    assert "has taken the stream over meanwhile" in said
    assert "Roll it back" in said
    assert isinstance(abort(snapshot(*records), OLD_DEPLOYMENT, None, "why"), GiveUp)
