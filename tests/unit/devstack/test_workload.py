from __future__ import annotations

import json

from devstack.workload import Total, encode, order, totals


def test_the_same_number_gives_the_same_order() -> None:
    key, value = encode(4711)
    assert key.decode() == order(4711)["customer"]
    assert json.loads(value) == order(4711) == order(4711)


def test_totals_are_those_of_the_orders_one_by_one() -> None:
    expected: dict[object, Total] = {}
    for number in range(3000):
        row = order(number)
        before = expected.get(row["customer"], Total(0, 0))
        expected[row["customer"]] = Total(before.orders + 1, before.cents + int(str(row["cents"])))
    assert totals(3000) == expected


def test_no_orders_have_no_totals() -> None:
    assert totals(0) == {}
