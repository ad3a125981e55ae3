from __future__ import annotations

import pytest

from chaos.batches import Batch, Batches

FOUND = [Batch(n, {0: 10 * (n + 1), 1: 10 * n}, 100.0 + n, 100.5 + n) for n in range(4)]


@pytest.mark.parametrize(
    ("partition", "offset", "number"), [(0, 0, 0), (0, 9, 0), (0, 10, 1), (0, 39, 3), (1, 0, 1), (1, 29, 3)]
)
def test_a_record_is_in_the_first_batch_that_ends_behind_it(partition: int, offset: int, number: int) -> None:
    found = Batches(reversed(FOUND)).holding(partition, offset)
    assert found is not None
    assert found.number == number


def test_what_no_batch_has_read_is_in_none() -> None:
    assert Batches(FOUND).holding(0, 40) is None
    assert Batches(()).holding(0, 0) is None
    assert Batches(()).missing == ()


def test_behind_a_batch_that_nobody_saw_it_is_not_known_which_one_it_was() -> None:
    batches = Batches([FOUND[0], FOUND[2], FOUND[3]])
    assert batches.missing == (1,)
    assert batches.holding(0, 10) is None
    assert batches.holding(0, 29) is None
    assert batches.holding(0, 30) == FOUND[3]
    assert Batches(FOUND[1:]).holding(0, 0) is None


def test_a_batch_is_open_from_its_plan_to_its_commit() -> None:
    batch = Batch(1, {}, 100.0, 105.0)
    assert [batch.open_within(*times) for times in ((90.0, 99.0), (90.0, 100.0), (105.0, 110.0), (106.0, 110.0))] == [
        False,
        True,
        True,
        False,
    ]
    assert Batch(1, {}, 100.0).open_within(500.0, 501.0)


def test_a_batch_whose_commit_nobody_saw_was_over_when_the_next_one_was_planned() -> None:
    batches = Batches([Batch(0, {0: 10}, 100.0), Batch(1, {0: 20}, 110.0)])
    first, last = batches.holding(0, 0), batches.holding(0, 10)
    assert first is not None
    assert last is not None
    assert (first.committed, last.committed) == (110.0, None)


def test_the_batch_that_was_open_at_a_time_is_the_last_one_planned_until_then() -> None:
    batches = Batches(FOUND)
    assert batches.open_at(99.9) is None
    assert [batches.open_at(at) for at in (100.0, 101.9, 500.0)] == [FOUND[0], FOUND[1], FOUND[3]]
