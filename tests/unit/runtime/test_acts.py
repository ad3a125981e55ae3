"""What a driver does in each situation, in which order, and what it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from airflow_stream_provider.lifecycle.due_rewind import due_rewind
from airflow_stream_provider.lifecycle.errors import CheckpointAway, CheckpointError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from tests.support.driver_acts import (
    announce,
    be_asked,
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
    TWIN,
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


def reads_again(*records: Record) -> list[Record]:
    """The same, of a new deployment that is to read records again."""
    wanted = {"to": 1764000000.0, "queries": {"a": {"orders": {"0": 5}}}}
    return [
        replace(each, fields={**each.fields, "rewind": wanted})
        if each.kind == "declared" and each["deployment"] == NEW_DEPLOYMENT
        else each
        for each in records
    ]


def test_a_deployment_that_reads_again_goes_back_before_its_queries_start() -> None:
    driver = FakeDriver(NEW, reads_again(*RELEASED))
    work(driver)
    assert driver.did == ["acquired", "hold", f"rewind {NEW_DEPLOYMENT}", "start"]
    assert driver.queries.seen == {}, "as the release told nothing of checkpoints"


def test_so_does_one_that_learns_late_that_it_holds() -> None:
    driver = FakeDriver(NEW, reads_again(*HANDED_OVER))
    work(driver)
    assert driver.did == ["hold", f"rewind {NEW_DEPLOYMENT}", "start"]


def beat(driver: FakeDriver, incarnation: str) -> Heartbeat:
    driver.turn()
    found = driver.log.heartbeat(incarnation)
    assert found is not None
    return found


def test_one_that_has_let_go_had_done_it() -> None:
    driver = FakeDriver(NEW, reads_again(*HANDED_OVER))
    work(driver)
    assert beat(driver, NEW).rewind == "It went back."
    write(driver.log, requested("back", OLD), ready("back", OLD))
    driver.turn()
    driver.moves(OLD, 1)
    work(driver)
    assert driver.did[-1] == "released"
    driver.did.clear()
    driver.clock.now += 10.2
    work(driver)
    assert driver.did == ["acquired", "hold", "start"], "it has taken the stream back"


def test_one_that_is_terminated_before_it_has_begun_leaves_it_to_the_next() -> None:
    """Found by a review: it had acquired, and learned that late; by its release the log took it for done."""
    driver = FakeDriver(NEW, reads_again(*HANDED_OVER))
    driver.queries.ends = {}  # as of queries that were not started
    driver.agent.terminate()
    work(driver)
    assert driver.did == ["let go", QUICK_STOP, "released"]
    due = due_rewind(driver.log.refresh(), OLD)
    assert due is not None, "nobody has read anything again"
    assert due.owed


def test_one_that_starts_again_in_place_looks_no_more_whether_it_went_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a review: with its storage away, or a query over by then, a holder of weeks failed instead."""
    driver = FakeDriver(NEW, reads_again(*HANDED_OVER))
    work(driver)
    write(driver.log, requested("back", OLD), ready("back", OLD))
    driver.turn()
    driver.moves(OLD, 1)
    driver.turn()
    write(driver.log, failed(OLD))
    driver.work()

    def away(*arguments: object) -> None:
        raise CheckpointError("The storage is away.")

    monkeypatch.setattr(driver.queries, "rewind", away)
    driver.did.clear()
    driver.turn()
    driver.work()
    assert driver.did == ["hold", "start"]
    assert beat(driver, NEW).rewind == "It went back."


AFTER_ITS_LOSS = [*reads_again(*HANDED_OVER), standby(TWIN), fenced(NEW), requested("more", TWIN), ready("more", TWIN)]


def test_who_follows_a_driver_that_was_lost_finds_out_whether_it_is_done() -> None:
    """Found by a review: a person had asked for it, and only the log of a driver said that nobody had done it."""
    driver = FakeDriver(TWIN, AFTER_ITS_LOSS)
    work(driver)
    assert driver.did == ["acquired", "hold", f"rewind {NEW_DEPLOYMENT}", "start"]
    found = beat(driver, TWIN)
    assert (found.rewind, found.rewind_undone) == ("It went back.", False)


def test_so_does_one_that_was_warm_and_had_held_before() -> None:
    driver = FakeDriver(OLD, reads_again(*REQUESTED)).running()
    write(driver.log, ready("up", NEW))
    driver.turn()
    driver.moves(NEW, 1)
    work(driver)
    assert driver.did[-1] == "released"
    write(driver.log, acquired(NEW, "up", 2), fenced(NEW), requested("back", OLD))
    driver.did.clear()
    driver.turn()
    work(driver)
    assert driver.did[-3:] == ["hold", f"rewind {NEW_DEPLOYMENT}", "start"]


@pytest.mark.parametrize("kind", [CheckpointError, ValueError])
def test_where_that_is_not_possible_any_more_it_starts_and_says_so(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def refuse(*arguments: object) -> None:
        raise kind("Batches were run after batch 4.")

    driver = FakeDriver(TWIN, AFTER_ITS_LOSS)
    monkeypatch.setattr(driver.queries, "rewind", refuse)
    work(driver)
    assert driver.did == ["acquired", "hold", "start"]
    found = beat(driver, TWIN)
    assert found.rewind_undone
    assert found.rewind == (
        f"{NEW_DEPLOYMENT} was to read records since 2025-11-24 16:00:00 UTC again, and was lost before it was seen to "
        "do so. Nobody does it any more. Batches were run after batch 4."
    )


@pytest.mark.parametrize(
    ("incarnation", "records"), [(TWIN, AFTER_ITS_LOSS), (NEW, reads_again(*RELEASED))], ids=["owed", "its own"]
)
def test_where_the_storage_may_yet_do_it_no_query_starts_before_this_driver_is_dead(
    monkeypatch: pytest.MonkeyPatch, incarnation: str, records: list[Record]
) -> None:
    """Found by a review: the write landed behind the start, and a restart read the records a third time."""

    def times_out(*arguments: object) -> None:
        raise CheckpointAway("offsets/4 cannot be replaced: its storage has not answered for 10 s.", may_land=True)

    driver = FakeDriver(incarnation, records)
    monkeypatch.setattr(driver.queries, "rewind", times_out)
    work(driver)
    assert driver.did == ["acquired", "hold", "let go", QUICK_STOP, "failed", "halt"]
    state = driver.log.refresh()
    assert (driver.record()["boundary"], list(state.must_fence)) == ("interrupted", [incarnation])
    due = due_rewind(state, "the next one")
    assert (due is not None) is (incarnation == TWIN), "whoever follows looks whether what was owed was done"


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


def test_a_driver_that_the_cluster_starts_again_later_needs_no_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a review: Kafka had deleted by then what its deployment had read again, and each one failed for that."""

    def refuse(wanted: object) -> None:
        raise CheckpointError("Kafka has deleted it.")

    driver = FakeDriver(TWIN, reads_again(*HANDED_OVER))
    monkeypatch.setattr(driver.queries, "check_rewind", refuse)
    work(driver)
    assert driver.did == ["rehearse"]


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
