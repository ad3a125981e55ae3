"""A script that fails or ends: what its driver records, and when, whatever is under way just then."""

from __future__ import annotations

import pytest

from tests.support.fake_driver import QUICK_STOP, Ended, FakeDriver, Waits, work
from tests.support.story import HANDED_OVER, NEW, OLD, RELEASED, REQUESTED, RUNNING, STARTED, acquired, write


def test_a_script_that_fails_during_a_start_is_recorded_once_that_is_over() -> None:
    """Found by the model check: what starts after the look at what runs would run beside the next holder."""
    driver = FakeDriver(NEW, RELEASED)
    driver.turn()
    with pytest.raises(Waits):
        driver.agent.script_failed("The script failed", ValueError("x"))
    driver.turn()
    assert driver.did == ["acquired", "hold"]
    driver.work()
    driver.turn()
    driver.work()
    assert driver.did == ["acquired", "hold", "start", "let go", QUICK_STOP, "failed", "halt"]


def test_a_script_that_fails_during_its_rehearsal_is_recorded_at_once() -> None:
    driver = FakeDriver(OLD, STARTED[:2])
    driver.turn()
    with pytest.raises(Waits):
        driver.agent.script_failed("The script failed", ValueError("x"))
    driver.turn()
    driver.work()
    assert driver.did == ["failed", "halt"]


def test_a_script_that_fails_while_the_log_is_away_is_recorded_when_it_is_back() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.store.away = True
    with pytest.raises(Waits):
        driver.agent.script_failed("The script failed", ValueError("x"))
    driver.turn()
    with pytest.raises(Waits):
        driver.work()  # it has stopped, and waits for the log
    for _ in range(5):
        driver.clock.now += 20.0
        driver.turn()
    assert driver.did == ["let go", QUICK_STOP]
    driver.store.away = False
    driver.work()
    assert driver.did == ["let go", QUICK_STOP, "failed", "halt"]
    assert driver.record()["reason"] == "The script failed"


def test_a_script_that_fails_while_its_queries_are_paused_lets_them_go_on_before_it_stops_them() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    driver.store.away = True
    driver.clock.now += 16.0
    driver.turn()
    with pytest.raises(Waits):
        driver.agent.script_failed("The script failed", ValueError("x"))
    driver.turn()
    assert driver.did == ["pause"]
    driver.store.away = False
    driver.turn(2)
    driver.work()
    assert driver.did == ["pause", "resume", "let go", QUICK_STOP, "failed", "halt"]


def test_a_driver_whose_script_has_failed_answers_nobody_and_keeps_its_first_reason() -> None:
    driver = FakeDriver(NEW, REQUESTED)
    driver.store.put_heartbeat = None  # type: ignore[method-assign, assignment]
    for error in ("x", "y"):
        with pytest.raises(Waits):
            driver.agent.script_failed(error, ValueError(error))
    driver.turn(2)
    driver.work()
    assert driver.did == ["failed", "halt"]
    assert driver.record()["reason"] == "x"


def test_a_script_that_ends_is_recorded_by_the_holder_only() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.agent.script_finished()
    driver.turn(2)
    assert driver.did == ["finished"], "the script ends by itself, and well: it is not halted"
    driver = FakeDriver(OLD, HANDED_OVER)
    driver.agent.script_finished()
    assert driver.did == []


def test_a_script_that_ends_after_sigterm_is_released_and_not_finished() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.agent.terminate()
    with pytest.raises(Waits):
        driver.agent.script_finished()
    work(driver)
    driver.turn()
    assert driver.did == ["let go", QUICK_STOP, "released", "exit"]
    assert driver.record()["to"] is None


def test_a_driver_that_acquired_without_knowing_so_yet_says_that_it_has_committed_nothing() -> None:
    """Found by a seed: the answer to its `acquired` was late when its script failed."""
    driver = FakeDriver(NEW, RELEASED)
    write(driver.log, acquired(NEW, "up", 2))
    with pytest.raises(Ended):
        driver.agent._acts.fail("The script failed", ValueError("x"))
    assert driver.did[-2:] == ["failed", "halt"]
    assert driver.record()["committed"] is False
