"""What a driver does that is to read records again: when it goes back, and what it does where it cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.lifecycle.due_rewind import due_rewind
from airflow_stream_provider.lifecycle.errors import CheckpointAway, CheckpointError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from tests.support.fake_driver import QUICK_STOP, FakeDriver, work
from tests.support.story import (
    HANDED_OVER,
    NEW,
    NEW_DEPLOYMENT,
    OLD,
    PREPARED,
    RELEASED,
    REQUESTED,
    TWIN,
    acquired,
    failed,
    fenced,
    ready,
    requested,
    standby,
    write,
)


def reads_again(*records: Record) -> list[Record]:
    """The same, of a new deployment that is to read records again."""
    wanted = {"to": 1764000000.0, "queries": {"a": {"orders": {"0": 5}}}}
    return [
        replace(each, fields={**each.fields, "rewind": wanted})
        if each.kind == "declared" and each["deployment"] == NEW_DEPLOYMENT
        else each
        for each in records
    ]


def refuses(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, error: Exception, act: str = "rewind") -> None:
    """Let an act of its queries fail from now on."""

    def refuse(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(driver.queries, act, refuse)


@pytest.mark.parametrize(
    ("records", "acquires"), [(RELEASED, ["acquired"]), (HANDED_OVER, [])], ids=["released to it", "learns it late"]
)
def test_a_driver_goes_back_before_its_queries_start(records: list[Record], acquires: list[str]) -> None:
    driver = FakeDriver(NEW, reads_again(*records))
    work(driver)
    assert driver.did == [*acquires, "hold", f"rewind {NEW_DEPLOYMENT}", "start"]
    assert driver.queries.seen == {}, "as the release told nothing of checkpoints"


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
    refuses(driver, monkeypatch, CheckpointError("The storage is away."))
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
    driver = FakeDriver(TWIN, AFTER_ITS_LOSS)
    refuses(driver, monkeypatch, kind("Batches were run after batch 4."))
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
    driver = FakeDriver(incarnation, records)
    away = CheckpointAway("offsets/4 cannot be replaced: its storage has not answered for 10 s.", may_land=True)
    refuses(driver, monkeypatch, away)
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

    driver = FakeDriver(NEW, reads_again(*PREPARED[:-1]))
    refuses(driver, monkeypatch, CheckpointError("The query keeps state."), "check_rewind")
    work(driver)
    assert (driver.did, driver.record()["reason"]) == (["failed", "halt"], "The query keeps state.")


def test_a_driver_that_the_cluster_starts_again_later_needs_no_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a review: Kafka had deleted by then what its deployment had read again, and each one failed for that."""
    driver = FakeDriver(TWIN, reads_again(*HANDED_OVER))
    refuses(driver, monkeypatch, CheckpointError("Kafka has deleted it."), "check_rewind")
    work(driver)
    assert driver.did == ["rehearse"]


def test_a_driver_that_cannot_go_back_fails_and_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver(NEW, reads_again(*HANDED_OVER))
    refuses(driver, monkeypatch, CheckpointError("Batch 8 is not committed."))
    work(driver)
    assert driver.did == ["hold", "let go", QUICK_STOP, "failed", "halt"]
    assert (driver.record()["boundary"], driver.record()["reason"]) == ("completed", "Batch 8 is not committed.")
