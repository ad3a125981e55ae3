"""Where the queries stopped: what is written is what the next holder waits for."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.runtime.ends import EndsBefore, described, ends_before
from airflow_stream_provider.runtime.ports import QueryEnd
from tests.support.fake_driver import FakeDriver, lose, work
from tests.support.story import (
    HANDED_OVER,
    NEW,
    OLD,
    PREPARED,
    READY,
    RUNNING,
    STOPPING,
    acquired,
    failed,
    play,
    ready,
    record,
    requested,
)

ENDS = {"a": QueryEnd(completed=False, batch=7, checkpoint="/a"), "b": QueryEnd(completed=True, batch=None)}


def test_what_is_said_is_what_the_next_one_waits_for() -> None:
    said = described(ENDS)
    assert said["a"] == {"batch": 7, "boundary": "interrupted", "checkpoint": "/a"}
    assert ends_before(play([*RUNNING, failed(OLD, ends=said)])) == EndsBefore({"/a": 7}, False)


@pytest.mark.parametrize("odd", [7, {}, {"batch": 7}, {"batch": "7", "checkpoint": "/a"}])
def test_what_others_wrote_may_be_anything(odd: Any) -> None:
    let_go = record("released", incarnation=OLD, request=None, to=None, boundary="completed", ends={"a": odd})
    assert ends_before(play([*RUNNING, let_go])).committed == {}


def test_the_next_holder_is_told_where_the_one_before_stopped() -> None:
    ends = {
        "a": {"batch": 7, "boundary": "completed", "checkpoint": "/a"},
        "never committed": {"batch": None, "boundary": "completed", "checkpoint": "/b"},
        "by an older version": {"batch": 7, "boundary": "completed"},
        "by an unknown version": {"batch": 7, "boundary": "completed", "checkpoint": ["/c"]},
    }
    stopped = record("released", incarnation=OLD, request="up", to=NEW, boundary="completed", ends=ends)
    driver = FakeDriver(NEW, [*READY, stopped])
    work(driver)
    assert (driver.queries.committed, driver.queries.required) == ({"/a": 7}, True)


@pytest.mark.parametrize("asked", ["stop", None], ids=["stopped", "SIGTERM"])
def test_whoever_holds_after_a_stop_is_told_too(asked: str | None) -> None:
    ends = {"a": {"batch": 7, "boundary": "completed", "checkpoint": "/a"}}
    let_go = record("released", incarnation=OLD, request=asked, to=None, boundary="completed", ends=ends)
    stopped = [*(STOPPING if asked else PREPARED), let_go]
    driver = FakeDriver(NEW, [*stopped, requested("up", NEW), ready("up", NEW)])
    work(driver)
    assert (driver.queries.committed, driver.queries.required) == ({"/a": 7}, False)


def test_whoever_holds_after_a_failure_is_told_too() -> None:
    ends = {"a": {"batch": 7, "boundary": "interrupted", "checkpoint": "/a"}}
    driver = FakeDriver(NEW, [*HANDED_OVER[:-2], failed(OLD, ends=ends)])
    work(driver)
    assert (driver.queries.committed, driver.queries.required) == ({"/a": 7}, False)


def test_a_holder_that_fails_or_finishes_says_what_it_has_committed() -> None:
    driver = FakeDriver(OLD, RUNNING)
    driver.queries.ends = {"a": QueryEnd(completed=False, batch=7, checkpoint="/a")}
    lose(driver)
    assert driver.record()["ends"] == {"a": {"batch": 7, "boundary": "interrupted", "checkpoint": "/a"}}
    driver = FakeDriver(OLD, RUNNING).running()
    # Spark's last progress, of batch 7, is older than the last commit.
    driver.queries.ends = {"a": QueryEnd(completed=True, batch=8, checkpoint="/a")}
    driver.agent.script_finished()
    assert driver.record()["ends"] == {"a": {"batch": 8, "boundary": "completed", "checkpoint": "/a"}}


def test_nobody_is_told_of_a_stop_before_another_hold() -> None:
    ends = {"a": {"batch": 7, "boundary": "completed", "checkpoint": "/a"}}
    let_go = record("released", incarnation=OLD, request=None, to=None, boundary="completed", ends=ends)
    since = [requested("again", OLD), ready("again", OLD), acquired(OLD, "again", 2), failed(OLD)]
    driver = FakeDriver(NEW, [*PREPARED, let_go, *since, requested("up", NEW), ready("up", NEW)])
    work(driver)
    assert driver.queries.committed == {}


def test_a_holder_that_starts_again_in_place_is_told_nothing() -> None:
    driver = FakeDriver(OLD, RUNNING)
    work(driver)
    assert driver.queries.committed == {}
