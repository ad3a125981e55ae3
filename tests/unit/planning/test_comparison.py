"""A new release beside the old one: what passes, what fails, and what a person has to look at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_stream_provider.lifecycle.heartbeat import Batch, Heartbeat, QueryProgress
from airflow_stream_provider.planning.comparison import (
    SPARE,
    STATE_MEMORY,
    TWICE,
    Compared,
    Comparison,
    QueryComparison,
    compare,
    rehearsed,
    running,
)


def holder(rows: int = 1000, seconds: float = 1.0, every: float = 10.0, **more: Any) -> QueryProgress:
    """A query that reads so many rows in so many seconds, once in `every` seconds."""
    batches = tuple(Batch(id, 100.0 + id * every, seconds, rows) for id in range(30, 40))
    return QueryProgress("a", batch=39, batches=batches, **{"rows_exact": True, **more})


def standby(rows: int = 1000, seconds: float = 1.0, **again: Any) -> dict[str, Any]:
    """A rehearsal whose first batch was slow, and that ran the holder's last batch again in so many seconds."""
    state = {"state_rows": 0, "state_bytes": 0}
    return {
        "batches": 2,
        "batch_rows": [rows, rows],
        "batch_seconds": [20 * seconds, seconds],
        "rows_exact": True,
        "again": {"batch": 39, "rows": rows, "seconds": seconds, **state, **again},
    }


def one(summary: dict[str, Any], old: QueryProgress | None) -> QueryComparison:
    found = compare(rehearsed({"a": summary}), None if old is None else running(Heartbeat(queries=(old,))))
    assert found.verdict is found.queries["a"].verdict
    return found.queries["a"]


@pytest.mark.parametrize(
    ("seconds", "verdict", "slower", "says"),
    [
        (0.5, Compared.PASS, 0.5, "about as fast as the old one"),
        (2.0, Compared.PASS, 2.0, "about as fast as the old one"),
        # 1000 rows come in every 10 s: 6 s leave half as much again.
        (
            6.0,
            Compared.PASS,
            6.0,
            "6.0 times slower than the old one: it processes 167 rows a second, and 100 come in, which is fast",
        ),
        (8.0, Compared.INCONCLUSIVE, 8.0, "125 rows a second, and 100 come in, which leaves little to spare"),
        (12.0, Compared.INCONCLUSIVE, 12.0, "it processes 83 rows a second, and 100 come in, which is too slow"),
    ],
)
def test_a_slower_release_is_held_against_the_rows_that_come_in(
    seconds: float, verdict: Compared, slower: float, says: str
) -> None:
    found = one(standby(seconds=seconds), holder())
    assert (found.verdict, found.slower) == (verdict, slower)
    assert says in found.sentence


@example(fixed=7.193170663303409, each=0.0, much=2.0, old_rows=[1] * 5, new_rows=[1, 1], every=1.0)
@given(
    fixed=st.floats(0.05, 10.0),
    each=st.floats(0.0, 0.01),
    much=st.floats(0.1, TWICE),
    old_rows=st.lists(st.integers(1, 100_000), min_size=1, max_size=10),
    new_rows=st.lists(st.integers(1, 100_000), min_size=1, max_size=5),
    every=st.floats(0.5, 60.0),
)
def test_a_release_that_is_at_most_twice_as_slow_is_never_doubted_whatever_the_sizes_of_the_batches(
    fixed: float, each: float, much: float, old_rows: list[int], new_rows: list[int], every: float
) -> None:
    batches = tuple(Batch(id, every * id, fixed + each * rows, rows) for id, rows in enumerate(old_rows))
    old = QueryProgress("a", batch=len(batches) - 1, batches=batches, rows_exact=True)
    seconds = [much * (fixed + each * rows) for rows in new_rows]
    summary = {"batches": len(new_rows), "batch_rows": new_rows, "batch_seconds": seconds, "rows_exact": True}
    found = one(summary, old)
    assert found.verdict is Compared.PASS or "too few to compare" in found.sentence


@given(
    seconds=st.floats(0.1, 5.0),
    much=st.floats(TWICE * 1.01, 50.0),
    rows=st.integers(10, 100_000),
    spare=st.floats(0.1, 0.99),
)
def test_a_release_that_is_slower_on_the_same_rows_than_they_come_in_never_passes(
    seconds: float, much: float, rows: int, spare: float
) -> None:
    found = one(standby(rows, much * seconds), holder(rows, seconds, every=much * seconds * spare))
    assert found.verdict is Compared.INCONCLUSIVE


@given(much=st.floats(0.01, 100.0), rows=st.integers(1, 10**6), seconds=st.floats(0.01, 100.0))
def test_a_release_with_half_as_much_again_to_spare_never_asks(much: float, rows: int, seconds: float) -> None:
    found = one(standby(rows, much * seconds), holder(rows, seconds, every=much * seconds * SPARE * 1.01))
    assert found.verdict is Compared.PASS


def test_nobody_to_compare_with_is_a_pass() -> None:
    assert one(standby(), None).sentence == "a: no release runs that it could be compared with."
    assert "no such query" in one(standby(), QueryProgress("b")).sentence
    assert compare({}, None) == Comparison()
    assert Comparison().verdict is Compared.PASS


@pytest.mark.parametrize(
    "summary",
    [
        {},  # the checkpoint has no batch yet
        {"plan_seconds": 0.5},  # `rehearse_batches: 0`
        {"batches": 1, "batch_rows": [0], "batch_seconds": [3.0]},  # nothing came in, and the last batch had no rows
    ],
)
def test_an_idle_stream_or_one_of_which_only_the_plan_was_rehearsed_passes(summary: dict[str, Any]) -> None:
    found = one(summary, holder())
    assert (found.verdict, found.slower) == (Compared.PASS, None)
    assert "the new release has read no rows lately: there is nothing to compare" in found.sentence
    found = one(standby(), QueryProgress("a"))
    assert found.verdict is Compared.PASS
    assert "the old release has read no rows lately" in found.sentence


@pytest.mark.parametrize("again", [{}, {"again": {"batch": 39, "rows": 1000, "seconds": 30.0}}])
def test_the_first_batch_of_a_query_alone_holds_no_release_up(again: dict[str, Any]) -> None:
    """It loads the state: from an object store, on a busy machine, that took three times as long as any later one."""
    found = one({"batches": 1, "batch_rows": [1000], "batch_seconds": [90.0], "rows_exact": True, **again}, holder())
    assert found.verdict is Compared.PASS
    assert "only the first batch of a query was seen, which is always slow" in found.sentence


def test_a_stream_whose_batches_have_no_pause_between_them_tells_of_no_release() -> None:
    """A second for a batch, and nearly nothing for a row: three seconds for three times the rows is as much in time."""
    found = one(standby(300, 3.0), holder(300, 1.0, every=1.0))
    assert found.verdict is Compared.INCONCLUSIVE
    assert "whether larger batches make up for it is not known" in found.sentence


def test_rows_that_spark_counts_once_for_each_action_are_not_compared() -> None:
    """Found by an audit: three actions of a foreachBatch function, and a release that handled twice the load failed.

    The holder's function reads a batch of 1,000 rows three times; the rehearsal's sink reads it once.
    """
    files = holder(rows=3000, seconds=1.0, every=4.0, rows_exact=False)
    assert one(standby(rows=1000, seconds=1.9), files).verdict is Compared.PASS
    found = one(standby(rows=1000, seconds=9.0), files)
    assert (found.verdict, found.slower) == (Compared.INCONCLUSIVE, 9.0)
    assert "by the time of its batches alone: of a source other than Kafka, Spark counts a row once" in found.sentence
    assert one(standby(rows=1000), holder(rows=30_000, rows_exact=False)).verdict is Compared.PASS, "too few rows?"


@pytest.mark.parametrize("exact", [(True, False), (False, True), (False, False)])
def test_rows_that_are_not_known_and_no_batch_in_common_are_compared_by_time(exact: tuple[bool, bool]) -> None:
    new, old = (Heartbeat(queries=(holder(rows_exact=known),)) for known in exact)
    found = compare(running(new), running(old)).queries["a"]
    assert (found.verdict, found.slower) == (Compared.PASS, 1.0)
    summary = {**standby(), "rows_exact": exact[0]}
    del summary["again"]
    assert one(summary, holder(rows_exact=exact[1])).verdict is Compared.PASS


def test_a_rehearsal_whose_time_was_over_asks_a_person() -> None:
    found = one({**standby(), "doubt": "Only 1 of 3 batches of a ran within 180 s."}, holder())
    assert (found.verdict, found.sentence) == (Compared.INCONCLUSIVE, "a: Only 1 of 3 batches of a ran within 180 s.")


def test_too_few_rows_tell_nothing() -> None:
    found = one(standby(9, 0.5), holder())
    assert found.verdict is Compared.INCONCLUSIVE
    assert "had 9.0 rows, and one of the old release has 1,000" in found.sentence


def test_a_batch_that_both_ran_speaks_for_the_new_release_where_the_others_do_not() -> None:
    last = Batch(39, 500.0, 5.0, 1000)
    old = holder(every=4.0)
    old = replace(old, batches=(*old.batches[:-1], last))
    assert one(standby(seconds=6.0), old).slower == 1.2
    # Another batch of this number, of another length, is another one.
    assert one(standby(rows=900, seconds=6.0), old).slower != 1.2


def test_what_comes_in_is_counted_though_only_some_batches_are_seen() -> None:
    """Spark is asked once a second: of four batches a second each of which reads ten rows, one is seen."""
    batches = tuple(Batch(4 * n, float(n), 0.2, 10) for n in range(10))
    pace = running(Heartbeat(queries=(QueryProgress("a", batch=36, batches=batches),)))["a"]
    assert pace.arriving == pytest.approx(40.0)
    alone = running(Heartbeat(queries=(QueryProgress("a", batch=36, batches=batches[:1]),)))["a"]
    assert alone.arriving is None


MIB = 2**20


@pytest.mark.parametrize(
    ("new", "old", "says"),
    [
        ((5000, 900 * MIB), (5000, 300 * MIB), "its state takes 900 MiB of memory; under the old release it takes 300"),
        ((5000, 300 * MIB), (5000, 300 * MIB), ""),
        ((5000, 3 * MIB), (5000, 1 * MIB), ""),  # three times as much of nearly nothing
        ((5000, STATE_MEMORY + 2), (5000, 1), "MiB of memory"),
        ((10, 1), (5000, 1), "after the same batch its state has 10 rows; under the old release it has 5,000"),
        ((5000, 1), (10, 1), "its state has 5,000 rows"),
        ((500, 1), (10, 1), ""),
        ((5000, 1), (None, None), ""),
    ],
)
def test_much_more_state_or_much_less_asks_a_person(new: Any, old: Any, says: str) -> None:
    summary = standby(state_rows=new[0], state_bytes=new[1])
    found = one(summary, holder(state_rows=old[0], state_bytes=old[1]))
    assert (found.verdict is Compared.INCONCLUSIVE) == bool(says)
    assert says in found.sentence


def soaked(new: QueryProgress, old: QueryProgress) -> QueryComparison:
    return compare(running(Heartbeat(queries=(new,))), running(Heartbeat(queries=(old,)))).queries["a"]


def test_rows_of_state_are_compared_after_the_same_batch_only() -> None:
    assert soaked(holder(state_rows=10), holder(state_rows=9000)).verdict is Compared.PASS


@pytest.mark.parametrize(
    ("new", "old", "asks"), [(3, 0, True), (2, 0, False), (3, None, True), (9, 2, False), (None, 0, False)]
)
def test_a_release_that_fails_again_and_again_asks_a_person(new: int | None, old: int | None, asks: bool) -> None:
    found = soaked(holder(failures=new), holder(failures=old))
    assert (found.verdict is Compared.INCONCLUSIVE) == asks
    assert ("it has failed 3 times and was started again" in found.sentence) == asks


def test_half_the_rows_by_night_make_no_release_slower() -> None:
    """Without an interval a batch reads what came in during the one before: fewer rows, in the same time."""
    assert soaked(holder(20, 0.2, every=0.4), holder(40, 0.2, every=0.2)).verdict is Compared.PASS


def test_the_worst_query_decides_and_the_table_shows_both_sides() -> None:
    old = running(Heartbeat(queries=(holder(state_rows=7, state_bytes=70, failures=0), replace(holder(), name="b"))))
    found = compare(rehearsed({"a": standby(), "b": standby(seconds=12.0)}), old)
    assert found.verdict is Compared.INCONCLUSIVE
    assert found.reasons == (found.queries["b"].sentence,)
    said = found.to_json()
    assert (said["verdict"], said["reasons"]) == ("inconclusive", list(found.reasons))
    assert said["queries"]["a"]["old"] == {
        "batch_seconds": 1.0,
        "rows": 10_000,
        "rows_per_second": 1000.0,
        "arriving_per_second": 100.0,
        "state_rows": 7,
        "state_bytes": 70,
        "failures": 0,
    }
    lines = found.table()
    assert lines[0].split("  ")[0] == "query"
    assert [line.split()[:3] for line in lines[1:5]] == [
        ["a", "new", "1.0"],
        ["a", "old", "1.0"],
        ["b", "new", "12.0"],
        ["b", "old", "1.0"],
    ]
    assert lines[5:] == [each.sentence for each in found.queries.values()]
