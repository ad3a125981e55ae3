from __future__ import annotations

from chaos.batches import Batches
from chaos.doubled import Doubled, explain
from chaos.holds import holds
from chaos.interruptions import Interruption, interruptions
from chaos.records import Comparison, compare
from tests.support.chaos_facts import NUMBERS, batches, fault, inputs, outputs, timed
from tests.support.story import RUNNING

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
