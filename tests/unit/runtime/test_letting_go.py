"""What a driver does and writes when it lets its queries go: by a request, on SIGTERM, because they failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.runtime import query_group
from airflow_stream_provider.runtime.ports import BoundaryMissed, QueryEnd
from tests.support.driver_acts import (
    MISSED,
    drain,
    drain_in_a_batch,
    finish,
    fit_no_more,
    hand_over,
    hand_over_in_back_off,
    hand_over_with_tasks,
    lose_in_a_batch,
    lose_with_tasks,
    refuse,
)
from tests.support.fake_driver import CUT, STOP, FakeDriver, lose, work
from tests.support.fake_queries import Query, Run, group_of
from tests.support.story import NEW, OLD, READY, REQUESTED, RUNNING, STARTED, STOPPING, acquired, write


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

    def stop(run: Run, seconds: float, committed: int | None) -> QueryEnd:
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
