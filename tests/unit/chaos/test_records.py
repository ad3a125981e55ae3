from __future__ import annotations

from chaos.records import compare, some
from devstack.workload import totals
from tests.support.chaos_facts import NUMBERS, inputs, outputs


def test_the_totals_are_those_of_the_input() -> None:
    assert compare(inputs(range(2500)), []).totals == totals(2500)


def test_copies_too_many_and_too_few_are_counted_by_order() -> None:
    found = compare(inputs(), outputs([0, 0, 0, *NUMBERS[2:]]))
    assert (found.lost, found.doubled) == ([1], {0: 2})


def test_an_order_that_was_never_produced_is_no_delivery() -> None:
    found = compare(inputs(), outputs([*NUMBERS, 500]))
    assert (len(found.wrong), found.doubled, found.delivered[500]) == (1, {}, 0)


def test_five_numbers_are_shown() -> None:
    assert some([3, 1, 2]) == "1, 2, 3"
    assert some(range(7)) == "0, 1, 2, 3, 4 and 2 more"
