from __future__ import annotations

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from chaos.states import STATES, driver_beside, state_of
from tests.support import story
from tests.support.story import NEW, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, play

COMMITS = Heartbeat(phase="running", queries=(QueryProgress("a", batch=3, commits=(Commit(1.0),)),))
STARTS = Heartbeat(phase="running", queries=(QueryProgress("a"),))
REHEARSES = Heartbeat(phase="rehearsing")
COMING_UP = story.PREPARED[:-1]

CASES = [
    ("running", story.RUNNING, {OLD: COMMITS}),
    ("acquired", story.RUNNING, {OLD: STARTS}),
    ("acquired", story.RUNNING, {}),
    ("submitted", COMING_UP, {OLD: COMMITS}),
    ("submitted", COMING_UP, {OLD: COMMITS, NEW: Heartbeat()}),
    ("rehearsing", COMING_UP, {OLD: COMMITS, NEW: REHEARSES}),
    ("ready", story.PREPARED, {OLD: COMMITS}),
    ("requested", story.REQUESTED, {OLD: COMMITS}),
    ("requested", story.READY, {OLD: COMMITS}),
    ("released", story.RELEASED, {}),
    ("acquired", story.HANDED_OVER, {NEW: STARTS}),
    ("ready", story.HANDED_OVER, {NEW: COMMITS}),  # the old release is kept warm
    ("acquired", story.TAKEN_BACK, {OLD: STARTS}),
    ("down", story.STARTED, {}),
    ("down", [*story.RUNNING, story.fenced(OLD)], {OLD: COMMITS}),
]


@pytest.mark.parametrize(("name", "records", "beats"), CASES)
def test_the_state_is_read_from_log_and_heartbeats(
    name: str, records: list[Record], beats: dict[str, Heartbeat]
) -> None:
    assert state_of(play(records), beats) == name


def test_every_state_has_a_case() -> None:
    assert {name for name, _, _ in CASES} == set(STATES)


def test_the_driver_beside_is_the_newest_that_may_live() -> None:
    assert driver_beside(play(story.RUNNING)) is None
    beside = driver_beside(play(COMING_UP))
    assert beside is not None
    assert beside.id == NEW_DEPLOYMENT
    assert driver_beside(play([*story.PREPARED, story.fenced(NEW)])) is None


def test_the_driver_beside_is_the_one_that_is_asked_to_hold() -> None:
    back = [
        *story.HANDED_OVER,
        story.requested("back", OLD),
        story.ready("back", OLD),
        story.released(NEW, "back", OLD),
    ]
    beside = driver_beside(play(back))
    assert beside is not None
    assert beside.id == OLD_DEPLOYMENT
