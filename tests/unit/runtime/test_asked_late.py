"""A standby that has waited, and is asked to take over: it looks again before it answers."""

from __future__ import annotations

import pytest

from airflow_stream_provider.lifecycle.errors import CheckpointBroken, RehearsalRefused
from airflow_stream_provider.runtime.surroundings import FRESH_SECONDS, STALE_SECONDS
from tests.support.driver_acts import announce, hand_over
from tests.support.fake_driver import FakeDriver, work
from tests.support.story import NEW, OLD, PREPARED, READY, RUNNING, acquired, fenced, requested, write


def wait(driver: FakeDriver, seconds: float) -> None:
    """Let time pass, with turns in which nothing is asked of it."""
    until = driver.clock.now + seconds
    while driver.clock.now < until:
        driver.clock.now = min(until, driver.clock.now + 10.0)
        driver.turn()


def asked_after(seconds: float, changed: str = "") -> FakeDriver:
    """A standby that has rehearsed and waited, and is asked to take over."""
    driver = FakeDriver(NEW, [*RUNNING, *PREPARED[-3:-1]])
    announce(driver)
    driver.changed = changed
    wait(driver, seconds)
    write(driver.log, requested("up", NEW))
    driver.did.clear()
    return driver


@pytest.mark.parametrize(
    ("seconds", "changed", "did"),
    [
        (FRESH_SECONDS - 1, "other executors", ["ready"]),
        (FRESH_SECONDS + 1, "", ["look", "ready"]),
        (FRESH_SECONDS + 1, "other executors", ["look", "rehearse", "ready"]),
        (STALE_SECONDS + 1, "", ["rehearse", "ready"]),
    ],
    ids=["a moment ago", "and nothing has changed", "and something has", "long ago"],
)
def test_a_standby_that_has_waited_looks_again_before_it_answers(seconds: float, changed: str, did: list[str]) -> None:
    driver = asked_after(seconds, changed)
    driver.turn()
    if did != ["ready"]:
        assert driver.did == []
        driver.work()
        driver.turn()
    assert driver.did == did
    if "rehearse" in did:
        why = "other executors" if changed else f"its rehearsal is {seconds:.0f} s old"
        driver.turn()
        beat = driver.log.heartbeat(NEW)
        assert beat is not None
        assert beat.rehearsal["notes"] == [f"Rehearsed again, as {why}."]
        assert beat.phase == "standby"
        assert driver.record().kind == "ready", "it looks once for a request"


@pytest.mark.parametrize("seconds", [FRESH_SECONDS + 1, STALE_SECONDS + 1])
def test_one_that_cannot_take_over_any_more_says_so_instead_of_an_answer(seconds: float) -> None:
    driver = asked_after(seconds, "other topics")
    driver.refusal = RehearsalRefused("A file of the checkpoint is missing.")
    work(driver)
    assert driver.did[-2:] == ["failed", "halt"]
    assert (driver.record()["reason"], driver.record()["incarnation"]) == ("A file of the checkpoint is missing.", NEW)


@pytest.mark.parametrize("changed", ["", "other topics"])
def test_one_whose_checkpoint_was_replaced_meanwhile_says_so_instead_of_an_answer(changed: str) -> None:
    driver = asked_after(FRESH_SECONDS + 1, changed)
    driver.queries.another = CheckpointBroken("It is not the one.")
    work(driver)
    assert (driver.did[-2:], driver.record()["reason"]) == (["failed", "halt"], "It is not the one.")


def test_one_whose_checkpoint_lacks_a_file_names_it() -> None:
    """Without the file that has the id of the query, it is none that was seen, either."""
    driver = asked_after(FRESH_SECONDS + 1)
    driver.refusal = CheckpointBroken("Its file metadata is missing.")
    driver.queries.another = CheckpointBroken("It is not the one.")
    work(driver)
    assert (driver.did[-2:], driver.record()["reason"]) == (["failed", "halt"], "Its file metadata is missing.")


def test_one_that_has_held_answers_at_once() -> None:
    """A roll-back is urgent, and what it has run it need not rehearse."""
    driver = FakeDriver(OLD, READY)
    hand_over(driver)
    write(driver.log, acquired(NEW, "up", 2))
    wait(driver, STALE_SECONDS * 2)
    write(driver.log, requested("back", OLD))
    driver.did.clear()
    driver.turn()
    assert driver.did == ["ready"]


def test_one_that_has_no_time_to_rehearse_again_stays_a_standby_and_does_not_answer() -> None:
    """Nobody can be asked any more whether release or machine is slow, and nothing has failed."""
    driver = asked_after(STALE_SECONDS + 1)
    driver.summary = {"queries": {"out": {"doubt": "Only 0 of 3 batches of out ran within 180 s."}}}
    for _ in range(3):
        driver.turn()
        driver.work()
    assert set(driver.did) == {"rehearse"}
    driver.turn()
    beat = driver.log.heartbeat(NEW)
    assert beat is not None
    assert (beat.phase, beat.message) == ("standby", "Only 0 of 3 batches of out ran within 180 s.")
    driver.summary = {"queries": {}}
    driver.work()
    driver.turn()
    assert driver.record().kind == "ready"


def test_one_that_is_asked_while_no_driver_holds_rehearses_its_plans_again_and_answers_whatever_is_in_doubt() -> None:
    """It said nothing for hours: the backlog that had grown since the holder died could not be rehearsed in time."""
    driver = FakeDriver(NEW, [*RUNNING, *PREPARED[-3:-1]])
    announce(driver)
    wait(driver, STALE_SECONDS + 1)
    driver.summary = {"queries": {"out": {"doubt": "Spark did not plan a batch within 180 s."}}}
    write(driver.log, fenced(OLD), requested("up", NEW))
    driver.did.clear()
    work(driver)
    driver.turn()
    assert driver.did == ["rehearse the plans", "ready"]
