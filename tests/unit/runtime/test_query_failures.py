"""Queries that fail: when they are tried again, and when they are given up.

With `clock` nothing waits for a thread: what a driver does beside its agent is done at once.
"""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from airflow_stream_provider import checkpoint
from airflow_stream_provider.checkpoint import Seen
from airflow_stream_provider.checkpoint.local_files import LocalFiles
from airflow_stream_provider.control import bounded
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.heartbeat import QueryHealth, QueryState
from airflow_stream_provider.runtime import query_group, query_starts
from airflow_stream_provider.runtime.ports import QueryEnd
from airflow_stream_provider.runtime.query_failures import BACK_OFF_SECONDS, CONCURRENT_ATTEMPTS, QueryFailures
from airflow_stream_provider.runtime.query_group import QueryGroup
from tests.support.fake_queries import Query, Time, group_of, started, tended


def attempts(group: QueryGroup, query: Query, clock: Time, error: str, seconds: float) -> list[float]:
    """Let every try fail at once; return the times of the tries, and fail when the query is given up."""
    began = clock.now
    tries: list[float] = []
    while clock.now < began + seconds:
        if query.real is not None and query.real.isActive:
            query.fails(error)
        due, lost = tended(group)
        if lost is not None:
            raise AssertionError(f"given up after {len(tries)}")
        if due:
            tries.append(clock.now - began)
            group.restart(due)
        # Nothing happens before its next try.
        clock.now = min(began + seconds, max(clock.now + 1.0, group._starts.failures_of(cast(Any, query)).retry_at))
    return tries


def test_an_error_is_redacted_before_it_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    """Half an address would not show that there is a password in it."""
    failures = QueryFailures()
    failures.fails("orders", Exception(f"{'x' * 150} https://loader:{'hunter2-' * 60}@warehouse/load"), 1, 0.0)
    assert "hunter2" not in failures.trouble + caplog.text
    assert failures.trouble.endswith(" https://***@warehouse/load")


def test_an_outage_of_any_length_is_survived_by_a_release_that_has_committed(query: Query, clock: Time) -> None:
    group = started(query)
    query.commits(0)
    tries = attempts(group, query, clock, "The sink does not answer", 86_400)
    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert max(pauses) <= BACK_OFF_SECONDS + 2
    assert len(tries) > 86_400 / 400
    assert "The query orders failed" in group.trouble


def test_a_commit_just_before_the_end_counts(query: Query, clock: Time) -> None:
    """Found by a review: a script with AvailableNow that commits and raises counted as one that never commits."""
    query.commits(7)  # by the release before
    group = started(query)
    assert not group.has_committed()
    query.commits(8)
    query.over = True
    assert group.has_committed()


def test_the_commits_of_others_do_not_count(query: Query, clock: Time) -> None:
    group = group_of(query)
    query.commits(7)
    assert not group.has_committed(), "it has started nothing"
    group.start(group.hold(), {})
    query.commits(8)
    assert group.has_committed()
    with query.unlisted():
        assert group.has_committed(), "it is known already"


def test_what_could_not_be_started_has_committed_nothing(query: Query, clock: Time) -> None:
    query.commits(7)
    group = group_of(query)
    with query.unlisted(), pytest.raises(StreamError):
        group.start(group.hold(), {})
    assert not group.has_committed()


def test_an_outage_of_the_checkpoints_storage_is_survived_too(query: Query, clock: Time) -> None:
    """Found by a review: the restart could not say how far the query was, and that ended the driver as failed."""
    group = started(query)
    query.commits(0)
    assert attempts(group, query, clock, "The sink does not answer", 10)
    with query.unlisted():
        query.refuses = OSError("Stale file handle")
        assert len(attempts(group, query, clock, "Stale file handle", 3600)) > 10
    query.refuses = None
    clock.now += BACK_OFF_SECONDS
    group.restart(tended(group)[0])
    assert query.real is not None
    assert query.real.isActive


SCHEMA = "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema."
LOST = "[KAFKA_DATA_LOSS.PARTITIONS_DELETED] Partitions Set(1) are gone"


@pytest.mark.parametrize("error", ["It is broken", LOST])
def test_a_new_release_that_commits_nothing_is_given_up_so_that_it_is_rolled_back(
    query: Query, clock: Time, error: str
) -> None:
    query.commits(7)  # by the release before
    group = started(query)
    with pytest.raises(AssertionError, match="given up after 3"):
        attempts(group, query, clock, error, 86_400)


def test_an_error_that_no_restart_cures_is_not_tried_again(query: Query, clock: Time) -> None:
    group = started(query)
    query.commits(0)
    query.fails(SCHEMA)
    due, lost = tended(group)
    assert query.real is not None
    assert (due, lost) == ([], ("The query orders failed and no restart cures it", query.real.error))


def two_of_them(tmp_path: Path, seconds: float) -> tuple[QueryGroup, Query, Query]:
    queries = Query(tmp_path / "one", "one"), Query(tmp_path / "two", "two")
    group = group_of(*queries, loss_seconds=seconds)
    group.start(group.hold(), {})
    for query in queries:
        query.commits(0)
    return group, *queries


def tries_in(group: QueryGroup, query: Query, clock: Time, seconds: float, error: str = LOST) -> int:
    """Let a query fail at once, again and again; return how often it was tried."""
    until, tries = clock.now + seconds, 0
    while clock.now < until:
        if query.real is not None and query.real.isActive:
            query.fails(error)
        due, lost = tended(group)
        assert lost is None, lost
        tries += len(due)
        group.restart(due)
        clock.now += 1.0
    return tries


def test_records_that_kafka_shows_no_more_are_waited_for_and_take_no_other_query_down(
    tmp_path: Path, clock: Time
) -> None:
    """Found by a review: a broker that is behind for a moment ended the driver with all its queries."""
    group, one, two = two_of_them(tmp_path, 120.0)
    assert tries_in(group, one, clock, 120.0) >= 6
    assert tries_in(group, one, clock, 300.0) <= 1, "the limit is over"
    health = {query.name: query.health for query in group.progress()}
    assert (health["one"] and health["one"].state, health["two"] and health["two"].state) == ("lost", "running")
    assert two.real is not None
    assert two.real.isActive
    assert two.starts == 1
    two.fails("The sink does not answer")
    assert tended(group)[1] is None, "it may be cured"
    clock.now += 5
    group.restart(tended(group)[0])
    with pytest.raises(AssertionError, match="no restart cures it"):
        tries_in(group, two, clock, 500.0)  # nothing is left that runs


def test_a_query_waits_for_its_log_too_that_has_not_committed_in_a_driver_that_has(tmp_path: Path, clock: Time) -> None:
    """As after a hand-over: the batch that the driver before had planned is the first of this one."""
    one, two = Query(tmp_path / "one", "one"), Query(tmp_path / "two", "two")
    for query in (one, two):
        query.commits(7)
    group = group_of(one, two, loss_seconds=120.0)
    group.start(group.hold(), {})
    two.commits(8)
    assert group.has_committed()
    assert tries_in(group, one, clock, 100.0) > 5


def test_a_batch_that_runs_again_ends_the_wait_for_the_log(tmp_path: Path, clock: Time) -> None:
    group, one, _ = two_of_them(tmp_path, 60.0)
    for batch in range(1, 20):
        tries_in(group, one, clock, 30.0)
        clock.now += BACK_OFF_SECONDS
        group.restart(tended(group)[0])
        one.commits(batch)
    assert tries_in(group, one, clock, 30.0)


def test_how_a_query_is_counts_from_its_first_failure_by_this_clock(query: Query, clock: Time) -> None:
    group = started(query)
    query.commits(0)
    (found,) = group.progress()
    assert found.health == QueryHealth()
    (Path(query.checkpoint) / "offsets" / "1").touch()
    attempts(group, query, clock, "The sink does not answer", 50)
    (found,) = group.progress()
    assert found.health is not None
    assert (found.health.state, found.health.error, found.health.batch) == ("retrying", "The sink does not answer", 1)
    assert 48 <= found.health.seconds <= 50
    assert found.health.failures == 6


def test_a_query_gets_on_when_its_new_run_says_something_and_not_by_what_the_old_one_said(
    query: Query, clock: Time
) -> None:
    """At night there may be nothing to commit for hours."""
    group = started(query)
    query.commits(0)
    query.fails("x")
    tended(group)
    query.has_got_on = True
    (found,) = group.progress()
    assert found.health is not None
    assert found.health.state == "retrying", "it waits for its next try"
    clock.now += 1.0
    looks: list[Any] = []
    start_real = query.start_real

    def while_it_starts() -> None:
        looks.extend(group.progress())
        start_real()

    query.start_real = while_it_starts  # type: ignore[method-assign]
    group.restart(tended(group)[0])
    assert [look.health.state for look in looks if look.health] == ["retrying"], "its last run is the one that failed"
    (found,) = group.progress()
    assert found.health == QueryHealth()


def test_a_query_that_waits_for_its_checkpoint_says_so(query: Query, clock: Time) -> None:
    failures = QueryFailures()
    failures.waits("orders", OSError("s3a is away"), 5.0)
    assert failures.health(25.0) == QueryHealth("waiting", 20.0, error="s3a is away")


def test_a_stale_view_of_the_checkpoint_is_waited_out(query: Query, clock: Time) -> None:
    """Found by a review: without a pause, all attempts were used up within what an NFS client keeps of a folder."""
    query.commits(7)
    group = started(query)
    tries = attempts(group, query, clock, "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update", 60)
    assert tries[0] == 0.0
    assert len(tries) == CONCURRENT_ATTEMPTS - 2


def test_a_commit_ends_the_trouble_and_the_count_begins_again(query: Query, clock: Time) -> None:
    group = started(query)
    query.commits(0)
    assert len(attempts(group, query, clock, "x", 100)) == 6
    clock.now += BACK_OFF_SECONDS
    group.restart(tended(group)[0])
    query.commits(1)
    query.fails("x")
    tended(group)
    assert "failed, 1 times since its last commit, and is tried again after 1 s" in group.trouble
    clock.now += 1.0
    group.restart(tended(group)[0])
    assert group.trouble == ""


def test_a_restart_that_cannot_even_begin_is_tried_again(query: Query, clock: Time) -> None:
    group = started(query)
    query.commits(0)
    query.fails("The broker is away")
    query.refuses = ValueError("The broker is still away")
    assert len(attempts(group, query, clock, "", 100)) == 6
    query.refuses = None
    assert attempts(group, query, clock, "", 100)
    assert query.starts >= 2


def test_a_driver_that_takes_the_stream_back_has_proven_itself_before(
    query: Query, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = started(query)
    query.commits(0)
    monkeypatch.setattr(
        query_group, "stop_at_boundary", lambda real, seconds, committed: QueryEnd(completed=True, batch=0)
    )
    assert group.stop(1.0) == ({"orders": QueryEnd(completed=True, batch=0, checkpoint=query.checkpoint)}, None)
    group.start(group.hold(), {})
    assert len(attempts(group, query, clock, "The sink does not answer", 3600)) > 10


def test_a_storage_that_hangs_does_not_hold_up_who_renews_the_lease(
    query: Query, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a review: the agent's own thread listed the checkpoints of failed queries one after the other."""
    group = started(query)
    query.commits(0)
    monkeypatch.setattr(query_starts, "start", bounded.start)
    go_on, names = threading.Event(), LocalFiles.names

    def hangs(*args: Any, **how: Any) -> list[str]:
        assert go_on.wait(60)
        return names(*args, **how)

    monkeypatch.setattr(LocalFiles, "names", hangs)
    query.fails("The sink does not answer")
    for _ in range(3):
        assert group.tend() == ([], None)
    assert len(group._starts._noting) == 1
    go_on.set()
    tended(group)
    assert "failed, 1 times since its last commit" in group.trouble
    clock.now += 1.0
    due: Any = group.tend()[0]
    assert due == [query]


def test_a_failure_of_an_earlier_run_is_not_noted_for_the_next_one(
    query: Query, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = started(query)
    monkeypatch.setattr(query_starts, "start", bounded.start)
    go_on, boundary = threading.Event(), checkpoint.boundary
    monkeypatch.setattr(checkpoint, "boundary", lambda location: go_on.wait(60) and boundary(location))
    query.fails("The sink does not answer")
    group.tend()
    group.restart_in_place()
    go_on.set()
    tended(group)
    assert (query.starts, group.trouble) == (2, "")


def test_a_failure_counts_whatever_keeps_its_batch_from_being_known(
    query: Query, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(location: str) -> None:
        raise RuntimeError("can't start new thread")

    group = started(query)
    monkeypatch.setattr(checkpoint, "boundary", fails)
    query.fails("The sink does not answer")
    tended(group)
    assert "The sink does not answer" in group.trouble


def test_all_failures_of_a_hold_are_counted_also_those_before_the_last_commit() -> None:
    failures = QueryFailures()
    failures.begins(3)
    failures.fails("out", ValueError("x"), 3, 1.0)
    failures.fails("out", ValueError("x"), 9, 2.0)
    failures.waits("out", OSError("away"), 3.0)
    assert (failures.count, failures.total) == (1, 2)
    failures.begins(20)
    assert failures.total == 0


def test_logs_that_have_vanished_are_no_progress() -> None:
    """Found by a review: a query that fails on an empty checkpoint had "committed", and was tried for ever."""
    failures = QueryFailures()
    failures.begins(7)
    failures.fails("out", ValueError("x"), None, 1.0)
    assert (failures.proven, failures.at_batch, failures.count) == (False, 7, 1)
    failures.fails("out", ValueError("x"), 3, 2.0)
    assert (failures.proven, failures.at_batch, failures.count) == (False, 7, 2)
    failures.fails("out", ValueError("x"), 8, 3.0)
    assert (failures.proven, failures.at_batch, failures.count) == (True, 8, 1)


def test_another_error_in_between_does_not_begin_the_time_of_a_lost_record_anew() -> None:
    """Found by a review: with a broker that comes and goes, a query was never lost."""
    failures = QueryFailures(loss_seconds=300.0)
    failures.begins(7)
    for now, error in ((0.0, "KAFKA_DATA_LOSS"), (100.0, "no broker answers"), (299.0, "KAFKA_DATA_LOSS")):
        failures.fails("out", Exception(error), 7, now)
        assert not failures.gone
    failures.fails("out", Exception("KAFKA_DATA_LOSS"), 7, 300.0)
    assert failures.gone
    failures.begins(8)
    assert (failures.gone, failures.loss, failures.lost, failures.loses_since) == (False, None, None, None)


def test_why_no_restart_cured_it_in_the_hold_before_says_nothing_of_this_one(
    query: Query, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a review: a warm driver whose storage is away ended, of what it had found just before it released."""
    group = started(query)
    query.fails("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE")
    assert tended(group)[1] is not None

    def silent(*args: Any, **how: Any) -> None:
        raise TimeoutError(110, "its storage has not answered for 10 s")

    monkeypatch.setattr(LocalFiles, "names", silent)
    clock.now += 600.0
    group.start(group.hold(), {query.checkpoint: Seen()})
    assert tended(group) == ([], None)
    [said] = group.progress()
    assert said.health is not None
    assert said.health.state == QueryState.WAITING.value
    assert said.health.seconds == 0.0, "in this hold"
