"""What a driver does in each situation, in which order, and what it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from airflow_stream_provider.lifecycle.errors import ControlLogReplaced, RehearsalRefused
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.runtime.ports import BoundaryMissed, QueryEnd
from tests.support.fake_driver import QUICK_STOP, STOP, FakeDriver, Waits, look_again, lose, work
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
    acquired,
    failed,
    fenced,
    ready,
    record,
    requested,
    retired,
    write,
)

# What a driver does first that ends as failed.
CUT = ["let go", QUICK_STOP]
MISSED = BoundaryMissed("It is still running a batch.")


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


def cure(driver: FakeDriver) -> None:
    driver.queries.due = [driver.queries]
    look_again(driver)
    driver.work()


def lose_with_tasks(driver: FakeDriver) -> None:
    driver.queries.ends = {"a": QueryEnd(completed=False, batch=7, running_tasks=1)}
    lose(driver)


def lose_in_a_batch(driver: FakeDriver) -> None:
    driver.queries.missed = MISSED
    lose(driver)


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
    ("a query is lost", RUNNING, OLD, lose, ["let go", QUICK_STOP, "failed", "halt"]),
    ("and tasks of it run on", RUNNING, OLD, lose_with_tasks, ["let go", QUICK_STOP, "failed", "halt"]),
    ("and one is in a batch", RUNNING, OLD, lose_in_a_batch, ["let go", QUICK_STOP, "interrupt", "failed", "halt"]),
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


def test_a_driver_whose_queries_cannot_be_stopped_is_recorded_as_failed_and_must_be_fenced() -> None:
    driver = FakeDriver(OLD, RUNNING)
    driver.queries.stop_fails = ValueError("Cannot call methods on a stopped SparkContext.")
    lose(driver)
    assert driver.did == [*CUT, "failed", "halt"]
    assert driver.record()["boundary"] == "interrupted"


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


@pytest.mark.parametrize("end", [lose_in_a_batch, drain_in_a_batch])
def test_whoever_is_cut_off_inside_a_batch_says_what_was_committed_before_it(end: Callable[[FakeDriver], None]) -> None:
    """Found by the simulation, seed 7135: a slow machine ran again what the log did not say was committed."""
    driver = FakeDriver(OLD, RUNNING)
    driver.queries.ends = {}
    driver.queries.cut = {"a": QueryEnd(completed=False, batch=7, checkpoint="/a")}
    end(driver)
    said = {"a": {"batch": 7, "boundary": "interrupted", "checkpoint": "/a"}}
    assert (driver.record()["boundary"], driver.record()["ends"]) == ("interrupted", said)


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


def test_a_holder_that_gets_no_thread_to_start_its_queries_in_ends_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a review: it held the stream, beat, and ran nothing for ever."""
    driver = FakeDriver(OLD, RUNNING)

    def spawn(work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(driver.agent._acts, "_spawn", spawn)
    driver.turn()
    assert driver.did == ["hold", *CUT, "failed", "halt"]
    said = driver.record()
    assert (said["reason"], said["error"]) == (
        "The queries could not be started",
        "RuntimeError: can't start new thread",
    )


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


@pytest.mark.parametrize("name", [OLD, NEW])
def test_a_script_that_fails_where_no_thread_is_left_is_recorded_all_the_same(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The thread of the turns ended with the error: the lease ran out, and nobody knew why."""

    def spawn(work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    driver = FakeDriver(name, PREPARED)
    driver = driver.running() if name == OLD else driver
    monkeypatch.setattr(driver.agent._acts, "_spawn", spawn)
    with pytest.raises(Waits):
        driver.agent.script_failed("The script raised", ValueError("x"))
    driver.turn()
    assert driver.did == [*(CUT if name == OLD else []), "failed", "halt"]
    assert driver.record()["reason"] == "The script raised"


@pytest.mark.parametrize("name", [OLD, NEW])
def test_a_failure_that_finds_another_log_where_no_thread_is_left_halts(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    driver = FakeDriver(name, PREPARED)

    def replaced(reason: str, error: BaseException) -> None:
        raise ControlLogReplaced("It is another log.")

    monkeypatch.setattr(driver.agent._acts, "end_as_failed", replaced)
    with pytest.raises(Waits):
        driver.agent.script_failed("The script raised", ValueError("x"))
    driver.turn()
    assert driver.did == ["halt"]


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
