"""Queries do not start, and do not run on, on a checkpoint that is not the one that it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.checkpoint import Seen
from airflow_stream_provider.checkpoint.local_files import LocalFiles
from airflow_stream_provider.lifecycle.errors import CheckpointBroken
from airflow_stream_provider.lifecycle.heartbeat import QueryProgress
from airflow_stream_provider.runtime import query_group, query_starts
from airflow_stream_provider.runtime.ports import QueryEnd
from tests.support.fake_queries import Query, Run, Time, group_of, started, tended


def removed(checkpoint: str) -> None:
    shutil.rmtree(checkpoint)


def emptied(checkpoint: str) -> None:
    removed(checkpoint)
    Path(checkpoint).mkdir()


def older(checkpoint: str) -> None:
    for log in ("offsets", "commits"):
        (Path(checkpoint) / log / "7").unlink()
        (Path(checkpoint) / log / "6").touch()


def begun_anew(checkpoint: str) -> None:
    (Path(checkpoint) / "metadata").write_text('{"id":"another"}')


def without_id(checkpoint: str) -> None:
    (Path(checkpoint) / "metadata").unlink()


@pytest.mark.parametrize("change", [removed, emptied, older, begun_anew, without_id])
def test_a_query_does_not_start_again_on_another_checkpoint(
    change: Callable[[str], None], query: Query, clock: Time
) -> None:
    """Found by a review: it began anew, without a word, and the sink dropped or doubled what it read."""
    query.commits(7)
    (Path(query.checkpoint) / "metadata").write_text('{"id":"the first"}')
    group = group_of(query)
    group.start(group.hold(), {query.checkpoint: Seen("the first", 7)})
    change(query.checkpoint)
    query.fails("java.io.FileNotFoundException: offsets/8")
    due, lost = tended(group)
    assert (due, lost) == ([], None)
    clock.now += 2.0
    with pytest.raises(CheckpointBroken, match=r"is not the one that the stream has run on.*batch 7 committed, of the"):
        group.restart(tended(group)[0])
    assert query.starts == 1
    # What people, and the next driver, are told is what was committed.
    assert not group.has_committed()
    whole = change in (begun_anew, without_id)  # logs that show less do not tell whether a batch was cut off
    assert group.ended()["orders"] == QueryEnd(whole, 7, checkpoint=query.checkpoint, id="the first")


def test_what_spark_has_said_counts_too(query: Query, clock: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last commit of a query that has never failed is nowhere else."""
    group = started(query)
    monkeypatch.setattr(query_starts, "progress", lambda run: QueryProgress("orders", id="the first", batch=3))
    query.commits(2)
    query.fails("java.io.FileNotFoundException: offsets/4")
    tended(group)
    clock.now += 2.0
    with pytest.raises(CheckpointBroken, match="batch 3 committed, of the query id the first was seen before"):
        group.restart(tended(group)[0])


def run_of(query: Query, *said: int) -> Run:
    """The query's run, which has said something of these batches."""
    assert query.real is not None
    query.real.said.extend(said)
    return query.real


@pytest.mark.parametrize("said", [(5,), (7,), (5, 6, 7, 8), (0,)])
@pytest.mark.parametrize("is_over", [False, True])
def test_a_query_that_runs_again_what_was_committed_ends_its_driver(
    said: tuple[int, ...], is_over: bool, query: Query
) -> None:
    """Found by chaos: its driver froze between the look at the checkpoint and the start, and an older copy came.

    By the time that anybody looks it may have caught up, or have ended by itself.
    """
    query.commits(7)
    group = started(query)
    assert tended(group) == ([], None), "it has said nothing yet"
    run = run_of(query, *said)
    run.isActive = not is_over
    due, lost = group.tend()
    assert due == []
    assert lost is not None
    assert f"ran batch {said[0]} again, or was about to: its checkpoint showed batch 7 committed" in str(lost[1])


def test_so_does_one_that_is_started_again_in_place(query: Query, clock: Time) -> None:
    """Found by a review: by the batch after which the hold began, 51 after 100 is no going back."""
    query.commits(7)
    group = started(query)
    run_of(query, 8)
    assert tended(group) == ([], None)
    query.commits(100)
    query.fails("The sink is away")
    tended(group)
    clock.now += 2.0
    group.restart(tended(group)[0])
    run_of(query, 51, 52, 101)
    _, lost = tended(group)
    assert lost is not None
    assert "ran batch 51 again, or was about to: its checkpoint showed batch 100 committed" in str(lost[1])


@pytest.mark.parametrize("said", [(8,), (8, 9)])
def test_a_query_that_goes_on_is_asked_once(said: tuple[int, ...], query: Query) -> None:
    query.commits(7)
    group = started(query)
    run = run_of(query, *said)
    assert tended(group) == ([], None)
    run.said[:] = [1]
    assert tended(group) == ([], None)


def test_what_the_run_before_has_said_is_no_word_of_a_query_that_the_script_runs_once_more(query: Query) -> None:
    """Found by a review: a healthy stream ended, of which the release before had gone on in between."""
    query.commits(7)
    group = started(query)
    run_of(query, 8, 9)
    assert tended(group) == ([], None)
    query.over = True
    query.commits(20)
    gate: Any = group._gate
    group.let_go()
    group.hold()
    group.start([], {})
    again = Query(Path(query.checkpoint))
    gate._start_late(again)  # and the one before is in the list still
    group.progress()
    assert tended(group) == ([], None)
    gate.queries[0] = again
    assert tended(group) == ([], None)
    run_of(again, 21)
    assert tended(group) == ([], None)


def test_a_query_that_the_script_runs_once_more_needs_the_same_checkpoint(query: Query) -> None:
    """As a script does that removes the checkpoint between two runs."""
    query.commits(7)
    group = started(query)
    shutil.rmtree(query.checkpoint)
    again = Query(Path(query.checkpoint))
    gate: Any = group._gate
    with pytest.raises(CheckpointBroken, match="batch 7 committed was seen before"):
        gate._start_late(again)
    assert again.starts == 0


def test_a_query_that_has_never_committed_begins(query: Query, clock: Time) -> None:
    group = started(query)
    query.fails("It is broken")
    tended(group)
    clock.now += 2.0
    group.restart(tended(group)[0])
    assert query.starts == 2


def test_a_standby_checks_what_was_seen_and_says_what_it_has_found(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.commits(7)
    (Path(query.checkpoint) / "metadata").write_text('{"id":"the first"}')
    group = group_of(query)
    monkeypatch.setattr(query_group, "describe", lambda query: {"name": query.label})
    assert group.describe() == [{"name": "orders", "id": "", "batch": None}]
    group.check_seen({query.checkpoint: Seen("the first", 7)})
    assert group.describe() == [{"name": "orders", "id": "the first", "batch": 7}]
    with pytest.raises(
        CheckpointBroken, match="of the query id the first here, and batch 7 committed, of the query id b"
    ):
        group.check_seen({f"file:{query.checkpoint}/": Seen("b", 7)})

    def silent(*args: Any, **how: Any) -> None:
        raise TimeoutError(110, "its storage has not answered for 10 s")

    monkeypatch.setattr(LocalFiles, "names", silent)
    group.check_seen({query.checkpoint: Seen("b", 7)})  # what does not answer is waited for by its query
