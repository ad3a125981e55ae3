"""The orders that the demo produces: a pure function of their number, so that what must come out is known."""

from __future__ import annotations

import json
from typing import NamedTuple

CUSTOMERS = 997
COUNTRIES = ("AT", "CH", "DE", "FR")


class Total(NamedTuple):
    """What one customer ordered: how many orders, and their sum in cents."""

    orders: int
    cents: int


def order(number: int) -> dict[str, object]:
    """Return order `number`, counted from 0."""
    return {
        "id": number,
        "customer": _customer(number),
        "country": COUNTRIES[number % len(COUNTRIES)],
        "cents": _cents(number),
    }


def encode(number: int) -> tuple[bytes, bytes]:
    """Return order `number` as Kafka carries it: key and value."""
    return str(number).encode(), json.dumps(order(number)).encode()


def totals(produced: int) -> dict[str, Total]:
    """Return the totals per customer of the first `produced` orders."""
    found: dict[str, Total] = {}
    for number in range(produced):
        before = found.get(_customer(number), Total(0, 0))
        found[_customer(number)] = Total(before.orders + 1, before.cents + _cents(number))
    return found


def _customer(number: int) -> str:
    return f"customer-{number % CUSTOMERS}"


def _cents(number: int) -> int:
    return 100 + number * 7919 % 9900
