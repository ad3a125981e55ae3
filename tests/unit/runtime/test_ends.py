"""Where the queries stopped, and what the stream has seen: what is written is what the next holder must find."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_stream_provider.checkpoint import Seen
from airflow_stream_provider.lifecycle.errors import CheckpointBroken
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.runtime.control_client import HOLDERS, seen_before
from airflow_stream_provider.runtime.ports import QueryEnd
from airflow_stream_provider.runtime.surroundings import described
from tests.support.fake_driver import FakeDriver, lose, work
from tests.support.story import (
    HANDED_OVER,
    NEW,
    OLD,
    PREPARED,
    READY,
    RUNNING,
    STARTED,
    STOPPING,
    acquired,
    declared,
    failed,
    fenced,
    play,
    ready,
    record,
    requested,
)

ENDS = {"a": QueryEnd(completed=False, batch=7, checkpoint="/a", id="x"), "b": QueryEnd(completed=True, batch=None)}
Beats = Mapping[str, Heartbeat]


def beat(batch: int | None, id: str = "x", *, seq: int = 0, place: str = "/a") -> Heartbeat:
    return Heartbeat(seq=seq, queries=(QueryProgress("a", place, id=id, batch=batch),))


def up(name: str, batch: int | None = None, id: str = "x") -> Record:
    """The `standby` record of a driver that has seen this batch in its rehearsal."""
    queries = [{"name": "a", "checkpoint": "/a", "id": id, "batch": batch}]
    return record("standby", deployment=name.partition(".")[0], incarnation=name, queries=queries, rehearsal={})


def changes(name: str, *places: str, **more: Any) -> Record:
    """A deployment that names checkpoints as changed."""
    first = declared(name.partition(".")[0])
    return record("declared", **{**first.fields, "policy": {"changed_checkpoints": list(places or ["/a"])}, **more})


def story(*later: Record, **first: Any) -> list[Record]:
    """The first driver has rehearsed on a checkpoint, and holds."""
    return [
        *STARTED[:2],
        up(OLD, **first),
        requested("start", OLD),
        ready("start", OLD),
        acquired(OLD, "start", 1),
        *later,
    ]


def seen(records: list[Record], who: str, beats: Beats | None = None) -> Mapping[str, Seen]:
    return seen_before(play(records), who, (beats or {}).get)


STOPPED_AT_70 = [
    requested("stop", None),
    record("released", incarnation=OLD, request="stop", to=None, boundary="completed",
           ends={"a": {"batch": 70, "boundary": "completed", "checkpoint": "/a", "id": "x"}}),
]  # fmt: skip


def test_what_is_said_is_what_the_next_one_must_see() -> None:
    said = described(ENDS)
    assert said["a"] == {"batch": 7, "boundary": "interrupted", "checkpoint": "/a", "id": "x"}
    assert seen([*RUNNING, failed(OLD, ends=said)], NEW) == {"/a": Seen("x", 7)}


@pytest.mark.parametrize("odd", [7, {}, {"batch": 7}, {"batch": "7", "checkpoint": ["/a"]}, {"checkpoint": ""}])
def test_what_others_wrote_may_be_anything(odd: Any) -> None:
    let_go = record("released", incarnation=OLD, request=None, to=None, boundary="completed", ends={"a": odd})
    assert seen([*RUNNING, let_go], NEW) == {}


def test_what_an_earlier_version_wrote_has_no_id() -> None:
    ends = {"a": {"batch": 7, "boundary": "completed", "checkpoint": "/a"}, "b": {"batch": "7", "checkpoint": "/b"}}
    stopped = record("released", incarnation=OLD, request="up", to=NEW, boundary="completed", ends=ends)
    driver = FakeDriver(NEW, [*READY, stopped])
    work(driver)
    assert driver.queries.seen == {"/a": Seen("", 7)}


@pytest.mark.parametrize("asked", ["stop", None], ids=["stopped", "SIGTERM"])
def test_whoever_holds_after_a_stop_must_see_as_much(asked: str | None) -> None:
    """It was only logged: a stream went on from yesterday's copy as if nothing had been lost."""
    ends = {"a": {"batch": 7, "boundary": "completed", "checkpoint": "/a"}}
    let_go = record("released", incarnation=OLD, request=asked, to=None, boundary="completed", ends=ends)
    stopped = [*(STOPPING if asked else PREPARED), let_go]
    driver = FakeDriver(NEW, [*stopped, requested("up", NEW), ready("up", NEW)])
    work(driver)
    assert driver.queries.seen == {"/a": Seen("", 7)}


def test_whoever_holds_after_a_failure_must_see_as_much() -> None:
    ends = {"a": {"batch": 7, "boundary": "interrupted", "checkpoint": "/a"}}
    driver = FakeDriver(NEW, [*HANDED_OVER[:-2], failed(OLD, ends=ends)])
    work(driver)
    assert driver.queries.seen == {"/a": Seen("", 7)}


def test_a_holder_that_fails_or_finishes_says_what_it_has_committed() -> None:
    driver = FakeDriver(OLD, RUNNING)
    driver.queries.ends = {"a": QueryEnd(completed=False, batch=7, checkpoint="/a", id="x")}
    lose(driver)
    assert driver.record()["ends"] == {"a": {"batch": 7, "boundary": "interrupted", "checkpoint": "/a", "id": "x"}}
    driver = FakeDriver(OLD, RUNNING).running()
    # Spark's last progress, of batch 7, is older than the last commit.
    driver.queries.ends = {"a": QueryEnd(completed=True, batch=8, checkpoint="/a", id="x")}
    driver.agent.script_finished()
    assert driver.record()["ends"] == {"a": {"batch": 8, "boundary": "completed", "checkpoint": "/a", "id": "x"}}


def test_of_a_holder_that_died_its_heartbeat_tells() -> None:
    died = story(fenced(OLD))
    assert seen(died, NEW, {OLD: beat(70)}) == {"/a": Seen("x", 70)}
    assert seen(died, NEW) == {"/a": Seen("x")}
    # It has died before its first progress: what it had rehearsed on is known.
    assert seen(story(fenced(OLD), batch=60), NEW, {OLD: beat(None, "")}) == {"/a": Seen("x", 60)}


def test_the_running_holder_is_asked_in_a_rehearsal() -> None:
    assert seen(story(), NEW, {OLD: beat(70)}) == {"/a": Seen("x", 70)}


def test_of_one_that_died_before_its_first_commit_the_holder_before_it_tells() -> None:
    start = [requested("again", NEW), ready("again", NEW), acquired(NEW, "again", 2), fenced(NEW)]
    died = story(declared("orders-2-bbbb"), up(NEW, 40), fenced(OLD), *start)
    assert seen(died, "orders-3-cccc.00000004", {OLD: beat(70), NEW: beat(None, "")}) == {"/a": Seen("x", 70)}


def test_an_adopted_job_is_known_from_the_rehearsal_of_its_follower() -> None:
    assert seen(story(batch=12), OLD) == {"/a": Seen("x", 12)}


def test_who_takes_over_asks_for_no_heartbeat_where_the_record_says_all() -> None:
    ends = {"a": {"batch": 71, "boundary": "completed", "checkpoint": "/a", "id": "x"}}
    let_go = record("released", incarnation=OLD, request="up", to=NEW, boundary="completed", ends=ends)
    over = story(declared("orders-2-bbbb"), up(NEW, 40), requested("up", NEW), ready("up", NEW), let_go)

    def never(incarnation: str) -> Heartbeat:
        raise AssertionError(f"the heartbeat of {incarnation} takes time")

    assert seen_before(play([*over, acquired(NEW, "up", 2)]), NEW, never) == {"/a": Seen("x", 71)}
    # So does who takes the stream back.
    assert seen_before(play([*over, acquired(OLD, "up", 2)]), OLD, never) == {"/a": Seen("x", 71)}


def test_holders_of_long_ago_are_not_asked() -> None:
    asked: list[str] = []

    def note(incarnation: str) -> None:
        asked.append(incarnation)

    records = list(RUNNING)
    names = [f"orders-{number}-cccc.0000000{number}" for number in range(3, 10)]
    for number, name in enumerate(names, start=2):
        before = OLD if number == 2 else names[number - 3]
        records += [fenced(before), declared(name.partition(".")[0]), up(name), requested(f"r{number}", name)]
        records += [ready(f"r{number}", name), acquired(name, f"r{number}", number)]
    seen_before(play(records), NEW, note)
    assert asked == names[::-1][:HOLDERS]


# -- a person has put another one there on purpose ---------------------------------------------------------------------


def test_what_a_person_names_as_changed_begins_with_what_is_there() -> None:
    put_back = story(*STOPPED_AT_70, changes(NEW), up(NEW, 40, "y"))
    beats = {OLD: beat(70, seq=8)}
    assert seen(put_back, NEW, beats) == {"/a": Seen("y", 40)}
    holds = [*put_back, requested("start 2", NEW), ready("start 2", NEW), acquired(NEW, "start 2", 2)]
    assert seen(holds, NEW, beats) == {"/a": Seen("y", 40)}
    # Whoever comes next goes by what was committed since.
    later = {**beats, NEW: beat(45, "y", seq=13)}
    assert seen(holds, "orders-3-cccc.00000004", later) == {"/a": Seen("y", 45)}
    assert seen([*holds, fenced(NEW)], "orders-3-cccc.00000004", later) == {"/a": Seen("y", 45)}


@pytest.mark.parametrize("places", [["/b"], []], ids=["another", "none"])
def test_nobody_else_begins_with_what_is_there(places: list[str]) -> None:
    put_back = story(*STOPPED_AT_70, changes(NEW, *(places or ["/other"])))
    assert seen(put_back, NEW) == {"/a": Seen("x", 70)}


def test_one_that_is_run_again_was_not_told_anew() -> None:
    put_back = story(*STOPPED_AT_70, changes(NEW, again=OLD.partition(".")[0]))
    assert seen(put_back, NEW) == {"/a": Seen("x", 70)}


def test_one_that_never_held_has_changed_nothing() -> None:
    tried = story(*STOPPED_AT_70, changes(NEW), failed(NEW))
    assert seen(tried, "orders-3-cccc.00000004") == {"/a": Seen("x", 70)}


def test_who_runs_while_another_is_named_as_changed_is_believed() -> None:
    """The form names the checkpoint for another reason; it is the one that the holder goes on with."""
    over = story(changes(NEW), up(NEW, 40), requested("up", NEW), ready("up", NEW))
    ends = {"a": {"batch": 71, "boundary": "completed", "checkpoint": "/a", "id": "x"}}
    let_go = record("released", incarnation=OLD, request="up", to=NEW, boundary="completed", ends=ends)
    assert seen([*over, let_go], NEW, {OLD: beat(70, seq=9)}) == {"/a": Seen("x", 71)}
    assert seen([*over, fenced(OLD)], NEW, {OLD: beat(70, seq=9)}) == {"/a": Seen("x", 70)}


# -- what the agent does with it ---------------------------------------------------------------------------------------


def test_a_standby_checks_it_before_it_announces_itself() -> None:
    driver = FakeDriver(NEW, PREPARED[:-1])
    driver.queries.another = CheckpointBroken("It is not the one.")
    work(driver)
    assert (driver.record().kind, driver.record()["reason"]) == ("failed", "It is not the one.")


def test_a_holder_that_starts_again_in_place_goes_by_what_it_knew() -> None:
    driver = FakeDriver(OLD, story(batch=3))
    work(driver)
    assert driver.queries.seen == {"/a": Seen("x", 3)}
