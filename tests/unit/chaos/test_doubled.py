from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.batches import Batches
from chaos.doubled import Doubled, explain
from chaos.holds import holds
from chaos.interruptions import Interruption, interruptions
from chaos.records import Comparison, compare
from tests.support.chaos_facts import (
    NUMBERS,
    RECOVERED,
    batches,
    fault,
    good,
    in_two_holds,
    inputs,
    judged,
    outputs,
    timed,
)
from tests.support.story import NEW, OLD, RUNNING, fenced, released

HELD = holds(timed(RUNNING))
KILL = interruptions([fault(112.0)], HELD)


def compared(*again: int) -> Comparison:
    return compare(inputs(), outputs([*NUMBERS, *again]))


def explained(found: Comparison, among: list[Interruption], known: Batches | None = None) -> list[Doubled]:
    return explain(found, known or Batches(batches()), among, HELD)


def test_the_doubled_orders_are_told_by_batch() -> None:
    one, two = explained(compared(1, 2, 2, 20), KILL)
    assert (one.copies, one.batch, one.cause) == ({1: 1, 2: 2}, batches()[0], None)
    assert (two.copies, two.batch, two.cause) == ({20: 1}, batches()[1], KILL[0])


def test_nothing_doubled_is_nothing_to_explain() -> None:
    assert explained(compared(), KILL) == []


def test_what_is_said_of_each() -> None:
    one, two = explained(compared(1, 20), KILL)
    assert one.says == (
        "1 orders were doubled (1) without a reason: nothing cut off batch 0 of enrich, planned at 100.0, committed at "
        "105.0. Look at who ran it."
    )
    assert two.says == (
        "1 orders were doubled (20): fault f1 (kill of holder) cut off batch 1 of enrich, planned at 110.0, "
        "committed at 115.0."
    )
    [unseen] = explained(compared(20), KILL, Batches(()))
    assert unseen.cause is None
    assert unseen.says.startswith("1 orders were doubled (20), and nobody has seen the plan of their batch.")


@pytest.mark.parametrize("copies", [(114.0, 114.9), (111.0, 114.0, 114.9), (111.0, 114.0, 111.5)])
def test_a_driver_that_writes_after_the_next_one_has_acquired_is_a_second_writer(copies: tuple[float, ...]) -> None:
    kill = fault(111.9)
    for journal in ([], [kill, RECOVERED]):
        report = judged(in_two_holds(fenced(OLD), *copies), *journal)
        assert report.doubled_unexplained == len(copies) - 1
        assert any(says.startswith("1 orders were doubled (20), and ") for says in report.problems)
    [says] = judged(in_two_holds(fenced(OLD), 114.0, 114.9)).problems[:1]
    assert f"not only {NEW} wrote them while it held" in says


def test_what_another_driver_wrote_in_the_time_of_one_that_never_ran_the_batch() -> None:
    late = in_two_holds(fenced(OLD), 111.0, 114.0)
    first, second, third = batches()
    known = [first, replace(second, committed=112.0), replace(third, planned=113.5)]
    assert judged(replace(late, batches={"enrich": known})).doubled_unexplained == 1


def test_more_copies_than_cuts() -> None:
    report = judged(good(outputs=outputs([*NUMBERS[:20], 20, 20, *NUMBERS[20:]])), fault(112.0), RECOVERED)
    assert (report.doubled, report.doubled_unexplained) == (2, 2)
    assert "and more often than their batch was cut off: fault f1" in report.problems[0]
    both = (fault(112.0), fault(113.0, id="f2"), {**RECOVERED, "fault": "f2"})
    assert judged(good(outputs=outputs([*NUMBERS[:20], 20, 20, *NUMBERS[20:]])), *both).problems == ()


def test_an_executor_that_was_killed_does_not_explain_what_a_hand_over_doubled() -> None:
    killed = fault(111.0, target="executor", incarnation=OLD)
    report = judged(in_two_holds(released(OLD, None, None), 111.0, 114.0), killed, RECOVERED)
    assert report.doubled_unexplained == 1
    assert f"{NEW} ran again what {OLD} had written before it let go by itself" in report.problems[0]
