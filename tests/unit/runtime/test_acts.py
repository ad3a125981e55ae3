"""What a driver does in each situation, in which order, and what it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from tests.support.driver_acts import (
    announce,
    be_asked,
    be_asked_though_it_only_looks,
    be_asked_until_the_old_job_is_still,
    be_asked_while_the_old_job_writes,
    cure,
    drain,
    drain_in_a_batch,
    expire,
    fit_no_more,
    hand_over,
    lose_in_a_batch,
    lose_with_tasks,
    miss,
    refuse,
    run,
    still_building,
    terminate,
)
from tests.support.fake_driver import QUICK_STOP, STOP, FakeDriver, lose, work
from tests.support.story import (
    HANDED_OVER,
    NEW,
    NEW_DEPLOYMENT,
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
    declared,
    failed,
    fenced,
    ready,
    requested,
    retired,
    standby,
    submitted,
    wanted,
    write,
)

TABLE: list[tuple[str, Sequence[Record], str, Callable[[FakeDriver], None], list[str]]] = [
    ("the script still builds its queries", STARTED[:2], OLD, still_building, []),
    ("rehearsed", STARTED[:2], OLD, announce, ["rehearse", "standby"]),
    ("refused", STARTED[:2], OLD, refuse, ["rehearse", "failed", "halt"]),
    ("asked", [*RUNNING, *PREPARED[-3:-1]], NEW, be_asked, ["rehearse", "standby", "requested", "ready"]),
    (
        "asked, while the job that it is to follow may write",
        [*RUNNING, *PREPARED[-3:-1]],
        NEW,
        be_asked_while_the_old_job_writes,
        ["rehearse", "standby", "requested"],
    ),
    (
        "asked, until that job's logs stand still",
        [*RUNNING, *PREPARED[-3:-1]],
        NEW,
        be_asked_until_the_old_job_is_still,
        ["rehearse", "standby", "requested", "ready"],
    ),
    (
        "asked, though it only looks for bad records",
        [*RUNNING, *PREPARED[-3:-1]],
        NEW,
        be_asked_though_it_only_looks,
        ["rehearse", "standby", "requested"],
    ),
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


# OLD runs for the wish `up`, and fails; its deployment serves that wish, as does that of TWIN.
FAILED = [
    *(wanted("up"), declared(OLD_DEPLOYMENT, "up"), submitted(OLD_DEPLOYMENT), standby(OLD)),
    *(requested("start", OLD), ready("start", OLD), acquired(OLD, "start", 1)),
    failed(OLD),
]
SAME = [declared(NEW_DEPLOYMENT, "up"), submitted(NEW_DEPLOYMENT)]
OTHER = [wanted("other"), declared(NEW_DEPLOYMENT, "other"), submitted(NEW_DEPLOYMENT)]


@pytest.mark.parametrize(
    ("records", "did"),
    [
        ([*FAILED, *SAME], "rehearse the plans"),
        ([*FAILED, *OTHER], "rehearse"),  # another release: all that can be seen of it before it holds
        ([*FAILED[:-1], *SAME], "rehearse"),  # nobody waits for it
    ],
)
def test_the_release_that_ran_last_runs_no_batch_twice_while_nobody_holds(records: Sequence[Record], did: str) -> None:
    """Brought back on a backlog, it ran each query's batch for 60 s, and then again: 238 s without the stream."""
    driver = FakeDriver(NEW, records)
    announce(driver)
    assert driver.did == [did, "standby"]


def test_a_release_that_ran_on_another_spark_is_rehearsed_as_a_whole_and_keeps_what_was_seen_of_the_way_back() -> None:
    seen = ["The query a writes commits/ in format v2 instead of v1."]
    records = [replace(r, fields={**r.fields, "rehearsal": {"one_way": seen}}) if r.kind == "standby" else r
               for r in FAILED]  # fmt: skip
    driver = FakeDriver(NEW, [*records, *SAME])
    driver.store.put_heartbeat(OLD, Heartbeat(1, spark_version="3.5.7").to_json())
    announce(driver)
    assert driver.did == ["rehearse", "standby"]
    assert driver.record()["rehearsal"]["one_way"] == seen


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


def test_the_wait_for_the_new_holder_begins_when_the_release_is_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a review: after twelve seconds without the log the old holder took the stream back at once."""
    driver = FakeDriver(OLD, READY).running()
    driver.turn()
    driver.moves(NEW, 1)
    driver.turn()

    def sleep(seconds: float) -> None:
        driver.clock.now += 12.0
        driver.process.deadline += 12.0
        driver.store.away = False

    monkeypatch.setattr(driver.clock, "sleep", sleep)
    driver.store.away = True
    driver.work()
    assert driver.record().kind == "released"
    driver.did.clear()
    driver.turn()
    assert driver.did == []
    driver.clock.now += 10.0
    driver.turn()
    assert driver.did == ["acquired", "hold"]


def test_sigterm_in_a_rehearsal_does_not_wait_for_it() -> None:
    driver = FakeDriver(OLD, STARTED[:2])
    driver.turn()
    driver.agent.terminate()
    driver.turn()
    assert driver.did == ["exit"]


def test_a_driver_that_is_retired_does_not_wait_for_its_rehearsal() -> None:
    """Which may wait itself, such as for the claims of its checkpoints."""
    driver = FakeDriver(OLD, STARTED[:2])
    driver.turn()
    write(driver.log, retired(OLD_DEPLOYMENT))
    driver.did.clear()
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


def test_a_driver_that_has_held_shows_its_script_how_far_the_holder_is() -> None:
    """Found by a review: a released, warm driver showed its script progress that stood still."""
    driver = FakeDriver(OLD, READY)
    hand_over(driver)
    write(driver.log, acquired(NEW, "up", 2))
    told = (QueryProgress("a", batch=9),)
    driver.log.beat(NEW, Heartbeat(epoch=2, queries=told))
    driver.clock.now += 1.0
    driver.turn()
    assert driver.queries.told == told


def test_one_that_has_never_held_shows_queries_that_have_not_begun() -> None:
    driver = FakeDriver(NEW, PREPARED)
    driver.log.beat(OLD, Heartbeat(epoch=1, queries=(QueryProgress("a", batch=9),)))
    driver.turn(2)
    assert driver.queries.told == ()


def test_a_standby_rehearses_once_the_late_queries_of_the_running_release_have_come() -> None:
    driver = FakeDriver(NEW, [*RUNNING, *PREPARED[-3:-1]])
    driver.to_come = "waiting for the script to start b"
    driver.turn(2)
    beat = driver.log.heartbeat(NEW)
    assert beat is not None
    assert (driver.did, beat.message) == ([], driver.to_come)
    driver.to_come = ""
    work(driver)
    assert driver.did == ["rehearse"]


def test_no_late_query_is_waited_for_while_nobody_holds() -> None:
    driver = FakeDriver(NEW, [*STARTED, *PREPARED[-3:-1]])
    driver.to_come = "waiting for the script to start b"
    work(driver)
    assert driver.did == ["rehearse"]
