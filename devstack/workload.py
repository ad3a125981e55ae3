"""Orders to produce. Each is a pure function of its number, so the expected output is known."""

from __future__ import annotations

import json
from typing import NamedTuple

CUSTOMERS = 997
COUNTRIES = ("AT", "CH", "DE", "FR")


class Total(NamedTuple):
    """The orders of one customer.

    :param orders: number of orders.
    :param cents: their sum, in cents.
    """

    orders: int
    cents: int


def order(number: int) -> dict[str, object]:
    """Return the order with a number, from 0."""
    return {
        "id": number,
        "customer": _customer(number),
        "country": COUNTRIES[number % len(COUNTRIES)],
        "cents": _cents(number),
    }


def encode(number: int) -> tuple[bytes, bytes]:
    """Return an order as a Kafka record: its customer as the key, and the value.

    All orders of a customer are in one partition, so that their order is one that must be kept.
    """
    return _customer(number).encode(), json.dumps(order(number)).encode()


def totals(produced: int) -> dict[str, Total]:
    """Return the totals of each customer over the first `produced` orders."""
    found: dict[str, Total] = {}
    for number in range(produced):
        before = found.get(_customer(number), Total(0, 0))
        found[_customer(number)] = Total(before.orders + 1, before.cents + _cents(number))
    return found


def _customer(number: int) -> str:
    return f"customer-{number % CUSTOMERS}"


def _cents(number: int) -> int:
    return 100 + number * 7919 % 9900
