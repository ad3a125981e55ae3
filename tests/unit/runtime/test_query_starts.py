"""Queries whose storage is away when they are to start: they wait, and the driver stays responsive."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_stream_provider.checkpoint import Seen, visible
from airflow_stream_provider.checkpoint.local_files import LocalFiles
from airflow_stream_provider.lifecycle.errors import (
    CheckpointAway,
    CheckpointError,
    ControlUnavailable,
    StreamError,
)
from airflow_stream_provider.runtime import query_group, query_starts
from airflow_stream_provider.runtime.jvm_topic import TopicDenied
from airflow_stream_provider.runtime.ports import QueryEnd
from airflow_stream_provider.runtime.query_group import QueryGroup
from tests.support.fake_driver import FakeDriver
from tests.support.fake_queries import Query, Run, group_of, tended
from tests.support.story import NEW, OLD, RELEASED, fenced, ready, requested, write

SILENT = TimeoutError(110, "its storage has not answered for 10 s")


class Storage:
    """The storage of all checkpoints here, and the time."""

    def __init__(self) -> None:
        self.away: OSError | None = None
        self.now = 1000.0
        self.asked = 0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Storage:
    found, names = Storage(), LocalFiles.names

    def listed(self: LocalFiles, folder: Any, **how: Any) -> list[str]:
        found.asked += 1
        if found.away is not None:
            raise found.away
        return names(self, folder, **how)

    monkeypatch.setattr(LocalFiles, "names", listed)
    for module in (query_group, query_starts):
        monkeypatch.setattr(module, "time", found)
    return found


@pytest.fixture
def query(tmp_path: Path) -> Query:
    found = Query(tmp_path / "orders")
    found.commits(7)
    return found


def driver_of(name: str, story: Any, group: QueryGroup) -> FakeDriver:
    """A driver with a real group of queries."""
    driver = FakeDriver(name, story)
    driver.queries = group  # type: ignore[assignment]
    driver.agent._queries = driver.agent._acts._queries = driver.agent._heartbeat._queries = group
    return driver


def turns(driver: FakeDriver, storage: Storage, seconds: int) -> None:
    """Let time pass, with all the work that comes up."""
    for _ in range(seconds):
        storage.now += 1.0
        driver.clock.now += 1.0
        begun = len(driver.works)
        driver.turn()
        if len(driver.works) > begun:
            driver.work()


def test_a_new_holder_waits_for_a_silent_storage_as_long_as_it_takes(query: Query, storage: Storage) -> None:
    """Found by a review: ten silent seconds ended the new release, then the old one."""
    group = group_of(query)
    driver = driver_of(NEW, RELEASED, group)
    storage.away = SILENT
    turns(driver, storage, 900)
    assert (driver.record().kind, query.starts) == ("acquired", 0)
    assert "The query orders waits for its checkpoint, and is tried again after 10 s" in group.trouble
    assert not group.has_committed()
    assert 900 / 12 < storage.asked < 900 / 9
    storage.away = None
    turns(driver, storage, 11)
    assert (driver.did, query.starts, group.trouble) == (["acquired"], 1, "")


def test_a_new_holder_that_waits_is_relieved_at_once(query: Query, storage: Storage) -> None:
    group = group_of(query)
    driver = driver_of(NEW, RELEASED, group)
    storage.away = SILENT
    turns(driver, storage, 30)
    write(driver.log, requested("stop", None, expires=1e6))
    turns(driver, storage, 1)
    assert (driver.record().kind, driver.record()["boundary"]) == ("released", "completed")
    assert driver.record()["committed"] is False
    storage.away = None
    turns(driver, storage, 20)
    assert query.starts == 0


def test_sigterm_and_the_loss_of_the_hold_end_the_wait(query: Query, storage: Storage) -> None:
    storage.away = SILENT
    driver = driver_of(NEW, RELEASED, group_of(query))
    turns(driver, storage, 3)
    driver.agent.terminate()
    turns(driver, storage, 2)
    assert driver.did == ["acquired", "released", "exit"]
    driver = driver_of(NEW, RELEASED, group_of(query))
    turns(driver, storage, 3)
    write(driver.log, fenced(NEW))
    driver.turn()
    assert driver.did[-1] == "halt"
    assert query.starts == 0


def test_a_query_that_waits_is_not_started_before_it_shows_the_last_batch(query: Query, storage: Storage) -> None:
    group = group_of(query)
    storage.away = SILENT
    group.start(group.hold(), {query.checkpoint: Seen(batch=8)})
    group.restart_in_place()
    storage.away, storage.now = None, storage.now + 10.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(visible, "time", SimpleNamespace(monotonic=count(0, 30).__next__, sleep=lambda seconds: None))
        with pytest.raises(CheckpointError, match="batch 8 committed was seen before"):
            group.restart(tended(group)[0])
    assert query.starts == 0
    query.commits(8)
    group.restart([query])  # type: ignore[list-item]
    assert query.starts == 1


def test_what_time_does_not_mend_ends_the_start(query: Query, storage: Storage) -> None:
    for error in (
        CheckpointError("The checkpoint belongs to the stream payments.", owner="payments"),
        CheckpointError("The checkpoint is being written by a job."),
    ):

        def claim(location: str, error: CheckpointError = error) -> None:
            raise error

        group = group_of(query, claim=claim)
        with pytest.raises(CheckpointError):
            group.start(group.hold(), {})
        assert tended(group) == ([], None)
    for refused in (PermissionError(13, "denied"), NotADirectoryError(20, "it is a file")):
        storage.away = refused
        group = group_of(query)
        with pytest.raises(CheckpointError, match="cannot be read"):
            group.start(group.hold(), {})
    assert query.starts == 0


def test_an_owner_that_cannot_be_read_is_waited_for(query: Query, storage: Storage) -> None:
    away = [True]

    def claim(location: str) -> None:
        if away.pop():
            raise CheckpointAway("The owner file cannot be read: its storage has not answered for 10 s.")

    group = group_of(query, claim=claim)
    away.insert(0, False)
    group.start(group.hold(), {})
    assert (query.starts, tended(group)[0]) == (0, [])
    storage.now += 1.0
    group.restart(tended(group)[0])
    assert query.starts == 1


class Claims:
    """The claims of checkpoints, which do not answer for as long as there is an error."""

    def __init__(self, error: StreamError | None) -> None:
        self.error = error

    def claim(self, location: str) -> None:
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("end", ["stop", "hand-over", "SIGTERM"])
def test_a_holder_whose_claim_does_not_answer_can_be_stopped_and_relieved(
    query: Query, storage: Storage, end: str
) -> None:
    claims = Claims(ControlUnavailable("The claims have not answered for 4 s."))
    group = group_of(query, claim=claims.claim)
    driver = driver_of(NEW, RELEASED, group)
    turns(driver, storage, 30)
    assert (driver.record().kind, query.starts) == ("acquired", 0)
    assert "tried again after 10 s: The claims have not answered for 4 s." in group.trouble
    if end == "SIGTERM":
        driver.agent.terminate()
    elif end == "stop":
        write(driver.log, requested("stop", None, expires=1e6))
    else:
        write(driver.log, requested("back", OLD, expires=1e6), ready("back", OLD))
        turns(driver, storage, 1)
        driver.moves(OLD, 1)
    turns(driver, storage, 2)
    assert (driver.record().kind, driver.record()["boundary"]) == ("released", "completed")
    assert query.starts == 0


def test_a_claim_that_answers_again_lets_the_queries_start(query: Query, storage: Storage) -> None:
    claims = Claims(ControlUnavailable("The claims have not answered for 4 s."))
    group = group_of(query, claim=claims.claim)
    driver = driver_of(NEW, RELEASED, group)
    turns(driver, storage, 30)
    claims.error = None
    turns(driver, storage, 11)
    assert (driver.did, query.starts, group.trouble) == (["acquired"], 1, "")


def test_claims_that_the_user_may_not_use_end_the_start(query: Query, storage: Storage) -> None:
    group = group_of(query, claim=Claims(TopicDenied("Its user lacks WRITE.")).claim)
    with pytest.raises(TopicDenied):
        group.start(group.hold(), {})
    assert tended(group) == ([], None)


def test_spark_that_cannot_start_since_the_storage_is_away_waits_too(query: Query, storage: Storage) -> None:
    group = group_of(query)

    def start() -> None:
        storage.away = SILENT
        raise ValueError("java.net.ConnectException")

    query.start_real = start  # type: ignore[method-assign]
    group.start(group.hold(), {query.checkpoint: Seen(batch=7)})
    storage.now += 1.0
    assert tended(group)[0] == [query]
    storage.away = None
    query.start_real = lambda: (_ for _ in ()).throw(ValueError("No such table"))  # type: ignore[method-assign]
    with pytest.raises(StreamError, match="No such table"):
        group.restart(tended(group)[0])
    end = group._starts.stood(cast(Any, query))
    assert end is not None
    assert end.batch == 7, "the next driver cannot know it otherwise"


def test_failures_while_the_storage_is_away_say_nothing_against_the_release(query: Query, storage: Storage) -> None:
    """Before its first batch, four in a row would end it."""
    group = group_of(query)
    group.start(group.hold(), {})
    storage.away = SILENT
    for _ in range(200):
        if query.real is not None and query.real.isActive:
            query.fails("java.net.ConnectException")
        storage.now += 1.0
        due, lost = tended(group)
        assert lost is None
        group.restart(due)
    assert query.starts == 1, "nobody knows whether it is the checkpoint that it was"
    storage.away, storage.now = None, storage.now + 10.0
    group.restart(tended(group)[0])
    assert query.starts == 2
    query.fails("It is broken")
    for _ in range(60):
        storage.now += 1.0
        due, lost = tended(group)
        if lost is not None:
            break
        group.restart(due)
        if due:
            query.fails("It is broken")
    assert lost is not None


def test_a_query_that_the_script_adds_waits_too(tmp_path: Path, storage: Storage) -> None:
    group = group_of(Query(tmp_path / "a"))
    gate: Any = group._gate
    group.start(group.hold(), {})
    late = Query(tmp_path / "b", "late")
    storage.away = SILENT
    gate._start_late(late)
    gate.queries.append(late)
    storage.away, storage.now = None, storage.now + 1.0
    group.restart(tended(group)[0])
    assert late.starts == 1


def test_the_next_hold_begins_with_its_own_batches(
    query: Query, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = group_of(query)
    storage.away = SILENT
    group.start(group.hold(), {query.checkpoint: Seen(batch=99)})
    monkeypatch.setattr(query_group, "stop_at_boundary", lambda run, seconds, committed: QueryEnd(True, 7))
    # Whoever follows must still see what the holder before has committed.
    assert group.stop(1.0) == ({"orders": QueryEnd(True, 99, checkpoint=query.checkpoint)}, None)
    assert not group.has_committed()
    group.start(group.hold(), {})
    assert group.stop(1.0) == ({}, None)
    storage.away = None
    group.start(group.hold(), {query.checkpoint: Seen(batch=7)})
    assert (query.starts, isinstance(query.real, Run)) == (1, True)
