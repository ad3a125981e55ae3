"""What a driver does in each situation, in which order, and what it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.errors import CheckpointError, RehearsalRefused
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.runtime import query_group
from airflow_stream_provider.runtime.freshness import FRESH_SECONDS, STALE_SECONDS
from airflow_stream_provider.runtime.ports import BoundaryMissed, QueryEnd
from tests.support.fake_driver import CUT, QUICK_STOP, STOP, FakeDriver, look_again, lose, work
from tests.support.fake_queries import Query, Run, group_of
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
    TWIN,
    acquired,
    failed,
    fenced,
    ready,
    requested,
    retired,
    standby,
    write,
)

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


def be_asked_while_the_old_job_writes(driver: FakeDriver) -> None:
    driver.process.waits_for = "The logs of /cp were written 1 s ago."
    be_asked(driver)
    driver.turn()
    assert driver.log.refresh().open_request is not None


def be_asked_until_the_old_job_is_still(driver: FakeDriver) -> None:
    be_asked_while_the_old_job_writes(driver)
    driver.process.waits_for = ""
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


@pytest.mark.parametrize("end", [lose_in_a_batch, drain_in_a_batch])
def test_whoever_is_cut_off_inside_a_batch_says_what_was_committed_before_it(end: Callable[[FakeDriver], None]) -> None:
    """Found by the simulation, seed 7135: a slow machine ran again what the log did not say was committed."""
    driver = FakeDriver(OLD, RUNNING)
    driver.queries.ends = {}
    driver.queries.cut = {"a": QueryEnd(completed=False, batch=7, checkpoint="/a")}
    end(driver)
    said = {"a": {"batch": 7, "boundary": "interrupted", "checkpoint": "/a"}}
    assert (driver.record()["boundary"], driver.record()["ends"]) == ("interrupted", said)


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


@pytest.mark.parametrize(
    ("story", "end", "did"),
    [
        (READY, hand_over, ["let go", "restart", "aborted"]),
        (STOPPING, lambda driver: work(driver.running()), ["let go", "restart", "aborted"]),
        (RUNNING, drain, ["let go", "released", "exit"]),
        (RUNNING, lose, ["let go", "failed", "halt"]),
    ],
    ids=["hand-over", "stop", "SIGTERM", "failure"],
)
def test_nobody_follows_a_query_of_which_nobody_can_say_where_it_stopped(
    story: list[Record],
    end: Callable[[FakeDriver], None],
    did: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the driver's own group of queries. Found by a review: holder and standby were lost."""
    query = Query(tmp_path / "orders")
    group = group_of(query)

    def stop(run: Run, seconds: float) -> QueryEnd:
        run.stop()
        raise CheckpointError("hdfs://n/commits cannot be read: its storage has not answered for 10 s.")

    monkeypatch.setattr(query_group, "stop_at_boundary", stop)
    driver = FakeDriver(OLD, story)
    for name in ("stop", "interrupt"):
        monkeypatch.setattr(driver.queries, name, getattr(group, name))
    monkeypatch.setattr(
        driver.queries, "restart_in_place", lambda: (driver.did.append("restart"), group.restart_in_place())
    )
    group.start(group.hold(), {})
    end(driver)
    assert driver.did == did
    assert driver.record().get("boundary", "interrupted") == "interrupted"
    assert query.starts == 1 + ("restart" in did)


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


def reads_again(*records: Record) -> list[Record]:
    """The same, of a new deployment that is to read records again."""
    wanted = {"to": 1764000000.0, "queries": {"a": {"orders": {"0": 5}}}}
    return [
        replace(each, fields={**each.fields, "rewind": wanted, "release": {**each["release"], "format": 2}})
        if each.kind == "declared" and each["deployment"] == NEW_DEPLOYMENT
        else each
        for each in records
    ]


def test_a_deployment_that_reads_again_goes_back_before_its_queries_start() -> None:
    driver = FakeDriver(NEW, reads_again(*RELEASED))
    work(driver)
    assert driver.did == ["acquired", "hold", f"rewind {NEW_DEPLOYMENT}", "start"]
    assert driver.queries.committed == {}, "as the release told nothing of checkpoints"


def test_so_does_one_that_learns_late_that_it_holds() -> None:
    driver = FakeDriver(NEW, reads_again(*HANDED_OVER))
    work(driver)
    assert driver.did == ["hold", f"rewind {NEW_DEPLOYMENT}", "start"]


def test_nobody_goes_back_twice() -> None:
    """Neither when it holds again, nor in another driver."""
    driver = FakeDriver(NEW, reads_again(*HANDED_OVER))
    work(driver)
    write(driver.log, requested("back", OLD), ready("back", OLD))
    driver.turn()
    driver.moves(OLD, 1)
    work(driver)
    assert driver.did[-1] == "released"
    driver.did.clear()
    driver.clock.now += 10.2
    work(driver)
    assert driver.did == ["acquired", "hold", "start"], "it has taken the stream back"

    twin = [standby(TWIN), fenced(NEW), requested("up again", TWIN), ready("up again", TWIN)]
    driver = FakeDriver(TWIN, reads_again(*HANDED_OVER, *twin))
    work(driver)
    assert driver.did == ["acquired", "hold", "start"]


def test_a_rehearsal_begins_with_the_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver(NEW, reads_again(*PREPARED[:-1]))
    work(driver)
    assert driver.did == ["check the way back", "rehearse"]

    def refuse(wanted: object) -> None:
        raise CheckpointError("The query keeps state.")

    driver = FakeDriver(NEW, reads_again(*PREPARED[:-1]))
    monkeypatch.setattr(driver.queries, "check_rewind", refuse)
    work(driver)
    assert (driver.did, driver.record()["reason"]) == (["failed", "halt"], "The query keeps state.")


def test_a_driver_that_cannot_go_back_fails_and_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise CheckpointError("Batch 8 is not committed.")

    driver = FakeDriver(NEW, reads_again(*HANDED_OVER))
    monkeypatch.setattr(driver.queries, "rewind", refuse)
    work(driver)
    assert driver.did == ["hold", "let go", QUICK_STOP, "failed", "halt"]
    assert (driver.record()["boundary"], driver.record()["reason"]) == ("completed", "Batch 8 is not committed.")


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


def finish(driver: FakeDriver) -> None:
    driver.running().agent.script_finished()


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(
    ("story", "end"), [(READY, hand_over), (RUNNING, finish), (RUNNING, lose)], ids=["hands over", "finishes", "fails"]
)
def test_whoever_lets_go_says_whether_it_has_committed(
    story: list[Record], end: Callable[[FakeDriver], None], committed: bool
) -> None:
    driver = FakeDriver(OLD, story)
    driver.queries.proven = committed
    end(driver)
    assert driver.record()["committed"] is committed


def test_what_was_committed_while_the_control_log_was_away_is_said() -> None:
    """Found by a review: no heartbeat was composed meanwhile, and an older release followed one that had committed."""
    driver = FakeDriver(OLD, RUNNING).running()
    driver.store.away = True
    driver.clock.now += 5.0
    driver.turn()
    driver.queries.proven = True
    driver.store.away = False
    lose(driver)
    assert (driver.record().kind, driver.record()["committed"]) == ("failed", True)


def test_one_that_has_let_go_does_not_take_the_commits_of_others_for_its_own() -> None:
    driver = FakeDriver(OLD, READY)
    hand_over(driver)
    write(driver.log, acquired(NEW, "up", 2))
    driver.queries.proven = True
    driver.queries.stopped_context = (driver.queries, ValueError("its context was stopped"))
    for _ in range(3):
        driver.clock.now += 5.0
        driver.turn()
    driver.work()
    assert (driver.record().kind, driver.record()["committed"]) == ("failed", False)
    # It has said in `released` where its queries stopped.
    assert "ends" not in driver.record().fields


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


@pytest.mark.parametrize(
    ("who", "story", "end"),
    [(OLD, STARTED[:2], refuse), (NEW, REQUESTED, fit_no_more)],
    ids=["in its rehearsal", "when it is asked"],
)
def test_one_that_fails_before_its_first_hold_says_nothing_of_a_checkpoint(
    who: str, story: list[Record], end: Callable[[FakeDriver], None]
) -> None:
    driver = FakeDriver(who, story)
    end(driver)
    assert driver.record().kind == "failed"
    assert driver.record().fields.keys().isdisjoint({"ends", "committed"})
