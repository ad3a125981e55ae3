"""A SparkContext that somebody has stopped: which drivers end as failed by it, when, and with which reason."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from airflow_stream_provider.lifecycle.record import Record
from tests.support.fake_driver import CUT, FakeDriver, Waits, work
from tests.support.story import HANDED_OVER, NEW, OLD, PREPARED, RELEASED, REQUESTED, RUNNING


def lose_context(driver: FakeDriver, seconds: float) -> None:
    """Its SparkContext is found stopped, and still after so many seconds."""
    driver.queries.stopped_context = (driver.queries, ValueError("It was stopped."))
    driver.turn()
    for _ in range(int(seconds)):
        driver.clock.now += 1.0
        driver.turn()


def test_a_holder_whose_context_was_stopped_tries_nothing_again_and_ends_as_failed() -> None:
    """Found by a review: once a batch was committed its queries were tried again for ever."""
    driver = FakeDriver(OLD, RUNNING).running()
    driver.queries.due = [driver.queries]
    lose_context(driver, 4)
    assert (driver.did, len(driver.works)) == ([], 1)
    driver.clock.now += 1.0
    work(driver)
    assert driver.did == [*CUT, "failed", "halt"]
    said = driver.record()
    assert (said["reason"], said["error"], said["boundary"]) == (
        "The query a cannot run in this driver any more",
        "ValueError: It was stopped.",
        "completed",
    )


@pytest.mark.parametrize(("records", "name"), [(PREPARED, NEW), (REQUESTED, NEW), (RELEASED, NEW), (HANDED_OVER, OLD)])
def test_a_standby_whose_context_was_stopped_follows_nobody_and_ends_as_failed(
    records: Sequence[Record], name: str
) -> None:
    driver = FakeDriver(name, records)
    lose_context(driver, 5)
    driver.work()
    assert driver.did == ["failed", "halt"]


def test_a_context_that_a_failing_script_stops_does_not_hide_why_it_failed() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    lose_context(driver, 2)
    with pytest.raises(Waits):
        driver.agent.script_failed("The script failed", ValueError("x"))
    work(driver)
    assert driver.record()["reason"] == "The script failed"


def test_a_script_that_makes_itself_another_context_goes_on() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    for _ in range(3):
        lose_context(driver, 4)
        driver.queries.stopped_context = None
        driver.clock.now += 1.0
        driver.turn()
    assert (driver.did, len(driver.works)) == ([], 1)
