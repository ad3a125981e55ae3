"""What the agent does in each situation, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.errors import RehearsalRefused, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.runtime.ports import BoundaryMissed, QueryEnd
from tests.support.fake_driver import FakeDriver, Waits
from tests.support.story import (
    HANDED_OVER,
    NEW,
    OLD,
    OLD_DEPLOYMENT,
    PREPARED,
    READY,
    RELEASED,
    REQUESTED,
    RUNNING,
    STARTED,
    STOPPING,
    failed,
    fenced,
    record,
    requested,
    retired,
    write,
)

MISSED = BoundaryMissed("It is still running a batch.")


def work(driver: FakeDriver) -> None:
    driver.turn()
    driver.work()


def announce(driver: FakeDriver) -> None:
    work(driver)
    driver.turn()


def refuse(driver: FakeDriver) -> None:
    driver.refusal = RehearsalRefused("Spark refuses the plan.")
    work(driver)


def still_building(driver: FakeDriver) -> None:
    driver.queries.ready = False
    driver.turn()


def be_asked(driver: FakeDriver) -> None:
    announce(driver)
    write(driver.log, requested("up", NEW))
    driver.turn()


def fit_no_more(driver: FakeDriver) -> None:
    driver.refusal = RehearsalRefused("No.")
    work(driver)


def hand_over(driver: FakeDriver) -> None:
    """The standby's heartbeat moves after the holder has seen its answer."""
    driver.running().turn()
    driver.moves(NEW, 1)
    work(driver)


def hand_over_in_back_off(driver: FakeDriver) -> None:
    """A query has failed inside a batch and waits to be tried again: no task of it runs."""
    driver.queries.ends = {"a": QueryEnd(completed=False, batch=7)}
    hand_over(driver)


def hand_over_with_tasks(driver: FakeDriver) -> None:
    driver.queries.ends = {"a": QueryEnd(completed=False, batch=7, running_tasks=1)}
    hand_over(driver)


def miss(driver: FakeDriver) -> None:
    driver.queries.missed = MISSED
    hand_over(driver)


def expire(driver: FakeDriver) -> None:
    driver.running()
    driver.clock.now += 51.0
    driver.process.deadline += 51.0
    driver.turn()


def terminate(driver: FakeDriver) -> None:
    driver.agent.terminate()
    driver.turn()


def drain(driver: FakeDriver) -> None:
    driver.running().agent.terminate()
    work(driver)
    driver.turn()


def drain_in_a_batch(driver: FakeDriver) -> None:
    driver.queries.missed = MISSED
    driver.running().agent.terminate()
    work(driver)


def run(driver: FakeDriver) -> None:
    driver.running().turn()


def look_again(driver: FakeDriver) -> None:
    driver.running()
    driver.clock.now += 1.0
    driver.turn()


def cure(driver: FakeDriver) -> None:
    driver.queries.due = [driver.queries]
    look_again(driver)
    driver.work()


def lose(driver: FakeDriver) -> None:
    driver.queries.lost = (driver.queries, ValueError("Partitions Set(1) are gone"))
    look_again(driver)
    driver.work()


def lose_with_tasks(driver: FakeDriver) -> None:
    driver.queries.ends = {"a": QueryEnd(completed=False, batch=7, running_tasks=1)}
    lose(driver)


def lose_in_a_batch(driver: FakeDriver) -> None:
    driver.queries.missed = MISSED
    lose(driver)


STOP, QUICK_STOP = "stop within 60 s", "stop within 8 s"
TABLE: list[tuple[str, Sequence[Record], str, Callable[[FakeDriver], None], list[str]]] = [
    ("the script still builds its queries", STARTED[:2], OLD, still_building, []),
    ("rehearsed", STARTED[:2], OLD, announce, ["rehearse", "standby"]),
    ("refused", STARTED[:2], OLD, refuse, ["rehearse", "failed", "halt"]),
    ("asked", [*RUNNING, *PREPARED[-3:-1]], NEW, be_asked, ["rehearse", "standby", "requested", "ready"]),
    ("asked, with another holder than it has rehearsed against", REQUESTED, NEW, FakeDriver.turn, ["compare", "ready"]),
    ("and it does not fit that one", REQUESTED, NEW, fit_no_more, ["compare", "failed", "halt"]),
    ("released to it", RELEASED, NEW, work, ["acquired", "hold", "start"]),
    ("holds, not started", RUNNING, OLD, work, ["hold", "start"]),
    ("holds and runs", RUNNING, OLD, run, []),
    ("asked to hand over, nothing moves there", READY, OLD, run, []),
    ("hands over", READY, OLD, hand_over, ["let go", STOP, "released"]),
    ("misses its boundary", READY, OLD, miss, ["let go", STOP, "restart in place", "aborted"]),
    ("asked to stop", STOPPING, OLD, lambda d: work(d.running()), ["let go", STOP, "released"]),
    ("the request has expired", STOPPING, OLD, expire, ["aborted"]),
    ("SIGTERM as the holder", RUNNING, OLD, drain, ["let go", QUICK_STOP, "released", "exit"]),
    ("and no boundary in time", RUNNING, OLD, drain_in_a_batch, ["let go", QUICK_STOP, "interrupt", "released"]),
    ("SIGTERM as a standby", PREPARED, NEW, terminate, ["exit"]),
    ("retired", [*HANDED_OVER, retired(OLD_DEPLOYMENT)], OLD, FakeDriver.turn, ["exit"]),
    ("fenced", [*PREPARED, fenced(NEW)], NEW, FakeDriver.turn, ["halt"]),
    ("a query failed, to be restarted", RUNNING, OLD, cure, ["restart"]),
    ("a query is lost", RUNNING, OLD, lose, [QUICK_STOP, "failed", "halt"]),
    ("and tasks of it run on", RUNNING, OLD, lose_with_tasks, [QUICK_STOP, "failed", "halt"]),
    ("and another is inside a batch", RUNNING, OLD, lose_in_a_batch, [QUICK_STOP, "interrupt", "failed", "halt"]),
]  # fmt: skip


@pytest.mark.parametrize(("records", "name", "act", "did"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_acts(records: Sequence[Record], name: str, act: Callable[[FakeDriver], None], did: list[str]) -> None:
    driver = FakeDriver(name, records)
    act(driver)
    assert driver.did == did


@pytest.mark.parametrize(
    ("records", "act", "boundary"),
    [
        (READY, hand_over, "completed"),
        (READY, hand_over_in_back_off, "completed"),
        (READY, hand_over_with_tasks, "interrupted"),
        (RUNNING, drain_in_a_batch, "interrupted"),
        (RUNNING, lose, "completed"),
        (RUNNING, lose_with_tasks, "interrupted"),
        (RUNNING, lose_in_a_batch, "interrupted"),
    ],
)
def test_the_boundary_that_is_recorded(
    records: Sequence[Record], act: Callable[[FakeDriver], None], boundary: str
) -> None:
    driver = FakeDriver(OLD, records)
    act(driver)
    assert driver.record()["boundary"] == boundary


def test_what_the_records_say() -> None:
    driver = FakeDriver(OLD, STARTED[:2])
    announce(driver)
    said = driver.record()
    assert (said["queries"], said["rehearsal"], said.by) == ([{"name": "a"}], {"seconds": 1.0}, f"driver:{OLD}")
    driver = FakeDriver(OLD, READY)
    hand_over(driver)
    said = driver.record()
    assert (said["request"], said["to"], said["ends"]) == (
        "up",
        NEW,
        {"a": {"batch": 7, "boundary": "completed", "checkpoint": "/a"}},
    )
    driver = FakeDriver(NEW, RELEASED)
    driver.turn()
    assert (driver.record()["epoch"], driver.record()["request"]) == (2, "up")
    driver = FakeDriver(OLD, RUNNING)
    lose(driver)
    said = driver.record()
    assert said["reason"] == "The query a failed and no restart cures it"
    assert said["error"] == "ValueError: Partitions Set(1) are gone"


def test_a_rehearsal_knows_the_queries_that_run() -> None:
    driver = FakeDriver(NEW, PREPARED[:-1])
    work(driver)
    assert driver.rehearsed == [[{"name": "a"}]]


def test_the_next_holder_is_told_where_the_one_before_stopped() -> None:
    ends = {
        "a": {"batch": 7, "boundary": "completed", "checkpoint": "/a"},
        "never committed": {"batch": None, "boundary": "completed", "checkpoint": "/b"},
        "by an older version": {"batch": 7, "boundary": "completed"},
    }
    stopped = record("released", incarnation=OLD, request="up", to=NEW, boundary="completed", ends=ends)
    driver = FakeDriver(NEW, [*READY, stopped])
    work(driver)
    assert driver.queries.committed == {"/a": 7}


def test_a_holder_that_starts_again_in_place_is_told_nothing() -> None:
    driver = FakeDriver(OLD, RUNNING)
    work(driver)
    assert driver.queries.committed == {}


def test_a_stop_cuts_off_a_query_that_has_no_boundary() -> None:
    driver = FakeDriver(OLD, STOPPING).running()
    driver.queries.missed = BoundaryMissed("It has no batch boundaries.", never=True)
    work(driver)
    assert driver.did == ["let go", STOP, "interrupt", "released"]
    assert driver.record()["boundary"] == "interrupted"


def test_a_stop_waits_for_a_query_that_has_one() -> None:
    driver = FakeDriver(OLD, STOPPING).running()
    driver.queries.missed = MISSED
    work(driver)
    assert driver.did == ["let go", STOP, "restart in place", "aborted"]


def test_a_hand_over_does_not_cut_off_a_query_that_has_no_boundary() -> None:
    driver = FakeDriver(OLD, READY)
    driver.queries.missed = BoundaryMissed("It has no batch boundaries.", never=True)
    hand_over(driver)
    assert driver.did == ["let go", STOP, "restart in place", "aborted"]


def test_one_work_at_a_time() -> None:
    driver = FakeDriver(OLD, RUNNING)
    driver.turn(3)
    assert (len(driver.works), driver.did) == (1, ["hold"])
    assert driver.agent.in_hurry
    driver.work()
    driver.turn()
    assert not driver.agent.in_hurry


def test_a_driver_that_does_not_hold_any_more_halts_though_work_is_under_way() -> None:
    driver = FakeDriver(OLD, RUNNING)
    driver.turn()
    write(driver.log, fenced(OLD))
    driver.turn()
    assert driver.did[-1] == "halt"


def test_a_standby_that_is_lost_during_the_stop_is_not_released_to() -> None:
    driver = FakeDriver(OLD, READY).running()
    driver.turn()
    driver.moves(NEW, 1)
    driver.turn()
    write(driver.log, failed(NEW))
    driver.work()
    driver.turn()
    driver.work()
    assert driver.did == ["failed", "let go", STOP, "hold", "start"]


def test_a_releaser_takes_back_after_its_wait() -> None:
    driver = FakeDriver(OLD, READY)
    hand_over(driver)
    driver.did.clear()
    driver.clock.now += 9.9
    driver.turn()
    assert driver.did == []
    driver.clock.now += 0.2
    driver.turn()
    assert driver.did == ["acquired", "hold"]


def test_sigterm_in_a_rehearsal_does_not_wait_for_it() -> None:
    driver = FakeDriver(OLD, STARTED[:2])
    driver.turn()
    driver.agent.terminate()
    driver.turn()
    assert driver.did == ["exit"]


def test_sigterm_lets_a_release_be_written_before_the_exit() -> None:
    """Found by the model check: the queries have stopped, and `released` is not written yet."""
    driver = FakeDriver(OLD, RUNNING).running()
    driver.agent.terminate()
    driver.turn()
    withdraw = driver.agent.offsets.withdraw

    def meanwhile() -> None:
        withdraw()
        driver.agent.turn()

    driver.agent.offsets.withdraw = meanwhile  # type: ignore[method-assign]
    driver.work()
    assert driver.did == ["let go", QUICK_STOP, "released"]


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
    assert driver.did == ["acquired", "hold", "start", QUICK_STOP, "failed", "halt"]


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
    assert driver.did == [QUICK_STOP]
    driver.store.away = False
    driver.work()
    assert driver.did == [QUICK_STOP, "failed", "halt"]
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
    assert driver.did == ["pause", "resume", QUICK_STOP, "failed", "halt"]


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


# -- the lease ---------------------------------------------------------------------------------------------------------


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
    assert driver.did == [QUICK_STOP, "failed", "halt"]
