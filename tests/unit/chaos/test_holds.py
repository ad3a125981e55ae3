from __future__ import annotations

import math

import pytest

from airflow_stream_provider.lifecycle.record import Record
from chaos.batches import Batch
from chaos.holds import at_once, committed_by_nobody, holds
from tests.support.chaos_facts import later, timed
from tests.support.story import (
    HANDED_OVER,
    NEW,
    OLD,
    RUNNING,
    TAKEN_BACK,
    acquired,
    failed,
    fenced,
    finished,
    released,
)


def test_a_hold_begins_and_ends_with_its_records() -> None:
    first, second = holds(timed(HANDED_OVER, end=100.0))
    assert (first.incarnation, first.since, first.until) == (OLD, 93.0, 99.0)
    assert (second.incarnation, second.since, second.until, second.end) == (NEW, 100.0, math.inf, None)
    assert first.end is not None
    assert first.end.kind == "released"


def test_who_takes_back_holds_twice() -> None:
    assert [hold.incarnation for hold in holds(timed(TAKEN_BACK))] == [OLD, OLD]


def test_an_illegal_record_begins_no_hold() -> None:
    assert len(holds(later(timed(RUNNING), (acquired(NEW, "start", 2), 100.0)))) == 1


@pytest.mark.parametrize(
    ("end", "cut_off"),
    [
        (fenced(OLD), True),
        (failed(OLD), True),
        (finished(OLD), False),
        (released(OLD, None, None), False),
        (released(OLD, None, None, "interrupted"), True),
    ],
)
def test_how_a_hold_ended_says_whether_a_batch_was_cut_off(end: Record, cut_off: bool) -> None:
    [hold] = holds(later(timed(RUNNING), (end, 100.0)))
    assert hold.cut_off is cut_off


def test_a_hold_that_goes_on_is_not_cut_off() -> None:
    [hold] = holds(timed(RUNNING))
    assert not hold.cut_off


def test_two_that_follow_each_other_do_not_run_at_once() -> None:
    assert at_once({}) == (0, ())
    assert at_once({OLD: [(1.0, 5.0)], NEW: [(5.0, 9.0)]}) == (1, (OLD,))
    assert at_once({OLD: [(1.0, 5.0)], NEW: [(4.9, 9.0)]}) == (2, (OLD, NEW))


def test_who_said_once_that_it_runs_may_have_been_frozen_while_it_did() -> None:
    assert at_once({OLD: [(1.0, 5.0), (7.0, 7.0)], NEW: [(5.0, 9.0)]}) == (1, (OLD,))


def test_commits_between_two_holds() -> None:
    found = holds(timed(HANDED_OVER, end=100.0))
    batches = [Batch(n, {}, at - 0.1, at) for n, at in enumerate((92.0, 93.0, 99.0, 99.5, 100.0, 500.0))]
    assert [batch.number for batch in committed_by_nobody([*batches, Batch(9, {}, 1.0)], found)] == [0, 3]
