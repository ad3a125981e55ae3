"""How an agent keeps its lease: without the log, without its thread, and when something of its own fails."""

from __future__ import annotations

import pytest

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.policy import Policy
from tests.support.fake_driver import QUICK_STOP, STOP, FakeDriver, Waits, look_again, lose, work
from tests.support.story import (
    NEW,
    OLD,
    PREPARED,
    READY,
    RUNNING,
    STARTED,
    fenced,
    record,
    released,
    requested,
    write,
)


def test_a_holder_without_the_log_pauses_after_half_its_lease_and_goes_on_when_it_still_holds() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    driver.store.away = True
    driver.clock.now += 15.0
    driver.turn()
    assert driver.did == []
    driver.clock.now += 1.0
    driver.turn(2)
    assert driver.did == ["pause"]
    for _ in range(4):  # paused, it outlives its lease
        driver.clock.now += 20.0
        driver.turn()
    driver.store.away = False
    driver.turn()
    assert driver.did == ["pause", "resume"]


def test_a_holder_that_cannot_pause_lets_its_lease_run_out() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    before = driver.process.deadline
    driver.queries.pause_missed = driver.store.away = True
    driver.clock.now += 20.0
    driver.turn()
    assert (driver.did, driver.process.deadline) == (["pause"], before)


def test_a_paused_holder_that_was_fenced_halts() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    driver.store.away = True
    driver.clock.now += 16.0
    driver.turn()
    driver.store.away = False
    write(driver.log, fenced(OLD))
    driver.did.clear()
    driver.turn()
    assert driver.did == ["halt"]


def test_a_driver_that_was_fenced_while_its_machine_slept_in_its_turn_halts_in_that_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found by seed 214058: it read that it is to release, and slept until the request was over and it was fenced."""
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    write(driver.log, requested("r", None, expires=0.0))
    driver.did.clear()
    beat = driver.store.put_heartbeat

    def sleeps(incarnation: str, data: bytes) -> None:
        beat(incarnation, data)
        monkeypatch.undo()
        write(ControlLog(driver.store, "orders"), fenced(OLD))

    monkeypatch.setattr(driver.store, "put_heartbeat", sleeps)
    driver.turn()
    assert driver.did == ["fenced", "halt"]


def test_a_driver_that_reads_that_it_was_fenced_halts_though_it_can_write_no_heartbeat() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    driver.store.full = True
    driver.turn()
    assert driver.did == []
    write(driver.log, fenced(OLD))
    driver.did.clear()
    driver.turn()
    assert driver.did == ["halt"]


def test_a_holder_whose_last_record_is_damaged_pauses_says_why_and_goes_on_once_it_is_restored() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    last = len(RUNNING)
    whole, driver.store.stored[last] = driver.store.stored[last], b"torn"
    driver.clock.now += 10.0
    driver.turn(2)
    assert driver.did == []
    found = driver.log.heartbeat(OLD)
    assert found is not None
    assert f"Record {last} of the control log of orders cannot be read" in found.message
    driver.clock.now += 10.0
    driver.turn(2)
    assert driver.did == ["pause"]
    driver.store.stored[last] = whole
    driver.turn()
    assert driver.did == ["pause", "resume"]


def test_a_damaged_log_that_nobody_restores_ends_a_holder_like_one_that_is_away() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    driver.store.stored[len(RUNNING)] = b"torn"
    driver.clock.now += 20.0
    driver.turn()
    driver.clock.now += Policy().lease_seconds + Policy().pause_seconds
    driver.turn()
    assert driver.did == ["pause", "halt"]


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("grown", [False, True])
def test_a_driver_that_finds_another_log_halts_and_writes_nothing(paused: bool, grown: bool) -> None:
    """Put back from a copy, it says that this driver holds; but what came after the copy is not in it."""
    driver = FakeDriver(OLD, [*RUNNING, record("noted")]).running()
    driver.turn()
    driver.store.away = paused
    driver.clock.now += 16.0
    driver.turn()
    driver.store.away = False
    del driver.store.stored[len(RUNNING) + 1]
    if grown:
        write(ControlLog(driver.store, "orders"), record("another"), record("another"))
    stored = dict(driver.store.stored)
    driver.did.clear()
    driver.turn()
    assert (driver.did, driver.store.stored) == (["halt"], stored)


def test_a_release_that_finds_another_log_halts_without_a_record() -> None:
    driver = FakeDriver(OLD, READY[:-1]).running()
    driver.turn()
    write(driver.log, READY[-1])
    driver.turn()
    driver.moves(NEW, 1)
    driver.turn()
    del driver.store.stored[len(READY)]
    driver.did.clear()
    driver.work()
    assert driver.did == ["let go", "stop within 60 s", "halt"]


def test_a_standby_outlives_an_outage() -> None:
    driver = FakeDriver(NEW, PREPARED)
    driver.store.away = True
    for _ in range(4):
        driver.clock.now += 20.0
        driver.turn()
    assert driver.did == []


@pytest.mark.parametrize("rehearses", [False, True])
def test_sigterm_ends_a_driver_that_nobody_knows_of_though_the_log_is_away(rehearses: bool) -> None:
    driver = FakeDriver(OLD, STARTED[:2])
    if rehearses:
        driver.turn()
    driver.store.away = True
    driver.turn()
    assert driver.did == []
    driver.agent.terminate()
    driver.turn()
    assert driver.did == ["exit"]


def test_sigterm_ends_no_holder_that_cannot_say_so() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.store.away = True
    driver.agent.terminate()
    driver.turn()
    assert driver.did == []


@pytest.mark.parametrize("away", [False, True])
def test_a_lease_that_has_run_out_halts(away: bool) -> None:
    """With the log away, too: found by the model check."""
    driver = FakeDriver(NEW, PREPARED)
    driver.store.away = away
    driver.clock.now += 31.0
    driver.turn()
    assert driver.did == ["halt"]


def test_the_guard_refuses_batches_without_a_lease() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    driver.clock.now += 30.0
    driver.agent.guard()
    driver.clock.now += 0.1
    with pytest.raises(StreamError, match="has not renewed its lease for 30 s"):
        driver.agent.guard()


def test_the_guard_holds_batches_back_while_their_query_is_paused() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    driver.queries.paused = True
    with pytest.raises(Waits):
        driver.agent.guard()
    driver.queries.paused = False
    driver.agent.guard()


def test_a_driver_whose_queries_have_ended_is_not_halted_by_an_outage_either() -> None:
    """Found by the model check."""
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    driver.agent.script_finished()
    driver.store.away = True
    for _ in range(70):
        driver.clock.now += 10.0
        driver.turn()
    assert driver.did == ["finished", "pause"]


def test_the_heartbeat_tells_of_trouble_for_as_long_as_there_is_any() -> None:
    driver = FakeDriver(OLD, READY).running()
    driver.store.heartbeat = None  # type: ignore[method-assign, assignment]
    driver.turn(2)
    said = Heartbeat.from_json(driver.store.beats[OLD], OLD).message
    assert "The runtime cannot go on: TypeError" in said
    del driver.store.heartbeat
    driver.turn(2)
    assert Heartbeat.from_json(driver.store.beats[OLD], OLD).message == ""


def test_a_pause_ends_with_a_halt() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    driver.store.away = True
    for _ in range(62):
        driver.clock.now += 10.0
        driver.turn()
    assert driver.did == ["pause"]
    driver.clock.now += 10.0
    driver.turn()
    assert driver.did == ["pause", "halt"]


def test_a_holder_that_cannot_say_that_its_queries_have_stopped_ends_then_too() -> None:
    """Found by the simulation: what it has cut off may still write, and it is taken for ended by then."""
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    driver.store.away = True
    driver.agent._acts.running = False  # as `fail` and `release` leave it while they try to append
    for _ in range(62):
        driver.clock.now += 10.0
        driver.turn()
    assert driver.did == []
    assert driver.process.deadline == 1000.0 + 600.0 + 30.0
    driver.clock.now += 10.0
    driver.turn()
    assert driver.did == ["halt"]


def test_a_driver_that_has_said_that_it_cut_its_queries_off_ends_then_too() -> None:
    """Found by the simulation: its tasks may write on, and on a lost machine it is taken for ended by then."""
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    driver.agent._acts.running = False
    write(driver.log, released(OLD, None, None, "interrupted"))
    driver.agent._control._log.refresh()
    driver.store.away = True
    for _ in range(62):
        driver.clock.now += 10.0
        driver.turn()
    assert driver.did == ["released"]
    driver.clock.now += 10.0
    driver.turn()
    assert driver.did == ["released", "halt"]


def test_a_paused_driver_whose_turns_come_late_is_ended_by_its_timer_when_the_pause_is_over() -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    driver.store.away = True
    for _ in range(61):  # 610 s since its last renewal
        driver.clock.now += 10.0
        driver.turn()
    assert driver.process.deadline == 1000.0 + 600.0 + 30.0, "lease and pause are not lengthened by the turn between"


def test_a_holder_pauses_although_work_in_the_background_was_begun_and_is_over() -> None:
    """Found by a review: an outage right after any background work never paused."""
    driver = FakeDriver(OLD, RUNNING).running()
    driver.store.away = True
    driver.clock.now += 16.0
    driver.turn()
    assert driver.did == ["pause"]


def test_a_damaged_heartbeat_of_the_peer_does_not_fail_a_healthy_holder() -> None:
    driver = FakeDriver(OLD, READY).running()
    driver.store.beats[NEW] = b""
    for _ in range(3):
        driver.clock.now += 10.0
        driver.turn()
    assert (driver.did, len(driver.works)) == ([], 1)
    driver.moves(NEW, 1)
    driver.turn()
    driver.moves(NEW, 2)
    work(driver)
    assert driver.did == ["let go", STOP, "released"]


def test_a_log_that_cannot_be_understood_pauses_a_holder_and_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    driver.turn()
    with monkeypatch.context() as patch:
        patch.setattr(driver.store, "read", None)
        for _ in range(4):
            driver.clock.now += 16.0
            driver.turn()
        assert driver.did == ["pause"]
    driver.turn()
    assert driver.did == ["pause", "resume"]


def test_a_standby_outlives_a_log_that_cannot_be_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver(NEW, PREPARED)
    monkeypatch.setattr(driver.store, "read", None)
    for _ in range(4):
        driver.clock.now += 20.0
        driver.turn()
    assert (driver.did, driver.works) == ([], [])


def test_an_unexpected_error_ends_a_driver_that_runs_no_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver(OLD, STARTED[:2])
    work(driver)
    monkeypatch.setattr(driver.queries, "describe", None)
    driver.turn(2)
    driver.work()
    assert driver.did == ["rehearse", "failed", "halt"]
    assert driver.record()["reason"] == "The runtime itself failed"


def test_an_unexpected_error_leaves_running_queries_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver(OLD, RUNNING).running()
    tend = driver.queries.tend
    monkeypatch.setattr(driver.queries, "tend", None)
    look_again(driver)
    look_again(driver)
    assert (driver.did, len(driver.works)) == ([], 1)
    monkeypatch.setattr(driver.queries, "tend", tend)
    lose(driver)
    assert driver.did == ["let go", QUICK_STOP, "failed", "halt"]
