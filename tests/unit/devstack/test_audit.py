from __future__ import annotations

import pytest

from airflow_stream_provider.lifecycle.errors import StreamError
from devstack.audit import Records, count, wrong_totals
from devstack.workload import Total


def test_every_order_once() -> None:
    assert count(3, [(2, 0.0), (0, 0.0), (1, 0.0)]) == Records(3, 3, 0, 0, 0)


def test_lost_and_duplicated_orders_are_counted() -> None:
    assert count(4, [(0, 1.0), (0, 2.0), (3, 3.0)]) == Records(4, 3, 2, 1, 0)


def test_duplicates_after_a_failure_are_counted_separately() -> None:
    delivered = [(0, 1.0), (1, 1.0), (0, 5.5), (1, 9.0)]
    assert count(2, delivered, failures=[(5.0, 6.0)]) == Records(2, 4, 0, 1, 1)


@pytest.mark.parametrize("number", [-1, 2])
def test_an_order_that_was_not_produced_is_an_error(number: int) -> None:
    with pytest.raises(StreamError, match=f"Order {number} was delivered"):
        count(2, [(number, 0.0)])


def test_wrong_and_missing_totals_are_named() -> None:
    expected = {"a": Total(1, 10), "b": Total(2, 20), "c": Total(3, 30)}
    found = {"a": Total(1, 10), "b": Total(2, 21)}
    assert wrong_totals(expected, found) == {"b": (Total(2, 20), Total(2, 21)), "c": (Total(3, 30), None)}
