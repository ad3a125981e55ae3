"""The stored form of a state: what was saved is loaded, and what is not whole is not used."""

from __future__ import annotations

import json

import pytest

from airflow_stream_provider.lifecycle import saved_state
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.saved_state import dump, load
from tests.support import story
from tests.support.story import play

STORIES = [
    [],
    story.STARTED,
    story.INTERRUPTED,
    story.TAKEN_BACK,
    story.STOPPED,
    [story.wanted("w"), story.wanted("v", "stand_by", rewind={"to": 1.0}), story.declared("orders-3-cccc", "w")],
    [story.wanted("w"), story.wanted("v"), story.wanted("u", family="w", back=True), story.wanted("t", "leave")],
    story.JOB_ENDING,
    [*story.JOB_GONE, story.aborted("adopt", at=300.0)],
    [*story.RUNNING, story.failed(story.OLD), story.wanted("enough", "stop")],
    [*story.HANDED_OVER, story.failed(story.NEW, committed=False)],
    [*story.HANDED_OVER, story.failed(story.NEW, boundary="interrupted"), story.retired(story.OLD_DEPLOYMENT)],
]


@pytest.mark.parametrize("records", STORIES)
def test_what_was_saved_is_loaded(records: list[Record]) -> None:
    state = play(records)
    assert load(dump(state)) == state
    assert list((load(dump(state)) or state).incarnations) == list(state.incarnations), "oldest first"


def test_what_is_illegal_or_forgotten_is_saved_too() -> None:
    state = fold([story.acquired(story.NEW, "up", 7).numbered(7)], play(story.RUNNING))
    assert state.illegal
    assert load(dump(state)) == state


def test_what_is_not_whole_is_not_used() -> None:
    whole = dump(play(story.HANDED_OVER))
    head, line, _ = whole.split(b"\n")
    forged = line.replace(story.NEW.encode(), story.OLD.encode())
    other = json.dumps({**json.loads(head), "format": saved_state.FORMAT + 1}).encode()
    deep = b"[" * 100_000
    for data in (b"", b"\n\n", b"{}\n{}\n", head, whole[:-1], whole + b"more", head + b"\n" + forged + b"\n"):
        assert load(data) is None
    for data in (other + b"\n" + line + b"\n", deep + b"\n" + line + b"\n", head + b"\n" + deep + b"\n"):
        assert load(data) is None
    assert load(whole) is not None
