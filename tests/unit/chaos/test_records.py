from __future__ import annotations

from chaos.batches import Batches
from chaos.records import compare
from devstack.audit import TopicRecord
from devstack.workload import totals
from tests.support.chaos_facts import NUMBERS, batches, inputs, outputs


def test_the_totals_are_those_of_the_input() -> None:
    assert compare(inputs(range(2500)), []).totals == totals(2500)


def test_copies_too_many_and_too_few_are_counted_by_order() -> None:
    found = compare(inputs(), outputs([0, 0, 0, *NUMBERS[2:]]))
    assert (found.lost, found.doubled) == ([1], {0: 2})


def test_an_order_that_was_never_produced_is_no_delivery() -> None:
    found = compare(inputs(), outputs([*NUMBERS, 500]))
    assert (len(found.wrong), found.doubled, 500 in found.written) == (1, {}, False)


def test_of_an_order_that_kafka_took_twice_one_copy_is_lost_and_the_other_doubled() -> None:
    twice = [*inputs(), TopicRecord(1, 30, *inputs([7])[0][2:])]
    times = [outputs()[0].at] * len(NUMBERS)
    found = compare(twice, outputs([*NUMBERS, 7], [*times, 101.0]), Batches(batches(4)))
    assert (found.lost, found.doubled) == ([7], {7: 1})
    whole = compare(twice, outputs([*NUMBERS, 7], [*times, 131.0]), Batches(batches(4)))
    assert (whole.lost, whole.doubled) == ([], {})


def test_a_copy_was_written_after_what_stands_before_it() -> None:
    assert compare(inputs(), outputs([0, 1, 0], [111.0, 114.0, 111.5])).written == {0: (111.0, 114.0), 1: (114.0,)}
