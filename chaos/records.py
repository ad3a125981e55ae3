"""Hold the output against the input, record by record: what is lost, doubled, out of order, or not as produced."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chaos.batches import Batch, Batches
from devstack.audit import TopicRecord
from devstack.workload import Total, order


class Place(NamedTuple):
    """Where a record is in the input topic."""

    partition: int
    offset: int


@dataclass
class Comparison:
    """What became of the orders.

    :param produced: by number of the order, where it is in the input: once, or more often if Kafka took it twice.
    :param written: by number of the order, from when on each copy can have been in the output: in seconds since
        1970, and not before what stands before it in its partition. A record says when its producer took it, and may
        have waited there.
    :param lost: orders of the input that are not in the output, or not as often; one that Kafka took twice must be
        there from each of its batches.
    :param doubled: orders that are in the output too often, each with the number of copies too many.
    :param reordered: orders whose first copy comes after one of the same customer that is behind it in the input, in
        one partition of the output. A later copy is doubled, and so explained or not with its batch.
    :param wrong: records of the output that are no produced order, or have another customer or amount.
    """

    produced: dict[int, list[Place]] = field(default_factory=dict)
    written: dict[int, tuple[float, ...]] = field(default_factory=dict)
    lost: list[int] = field(default_factory=list)
    doubled: dict[int, int] = field(default_factory=dict)
    reordered: list[int] = field(default_factory=list)
    wrong: list[TopicRecord] = field(default_factory=list)

    @property
    def totals(self) -> dict[str, Total]:
        """The totals of each customer that the input has."""
        found: dict[str, Total] = {}
        for number, places in self.produced.items():
            row = order(number)
            before = found.get(str(row["customer"]), Total(0, 0))
            cents = int(str(row["cents"]))
            found[str(row["customer"])] = Total(before.orders + len(places), before.cents + len(places) * cents)
        return found


def compare(
    inputs: Iterable[TopicRecord], outputs: Iterable[TopicRecord], batches: Batches | None = None
) -> Comparison:
    """Compare the input with the output, both ordered within each partition.

    :param batches: those of the query that writes the output; they tell apart the copies of what Kafka took twice.
    """
    found = Comparison()
    for record in inputs:
        number = json.loads(record.value)["id"]
        found.produced.setdefault(number, []).append(Place(record.partition, record.offset))
    # By partition of the output and customer: the largest place in the input so far.
    last: dict[tuple[int, object], Place] = {}
    latest: dict[int, float] = {}
    for record in outputs:
        row = _row(record)
        number = row.get("id")
        if number not in found.produced or any(row.get(name) != value for name, value in order(number).items()):
            found.wrong.append(record)
            continue
        at = latest[record.partition] = max(record.at, latest.get(record.partition, 0.0))
        found.written[number] = (*found.written.get(number, ()), at)
        if len(found.written[number]) == 1:
            key, place = (record.partition, row["customer"]), found.produced[number][0]
            if place < last.get(key, place):
                found.reordered.append(number)
            else:
                last[key] = place
    for number, places in found.produced.items():
        missing, extra = _off(places, found.written.get(number, ()), batches or Batches(()))
        if missing:
            found.lost.append(number)
        if extra:
            found.doubled[number] = extra
    return found


def _off(places: Sequence[Place], written: Sequence[float], batches: Batches) -> tuple[int, int]:
    """Return how many copies of an order are missing, and how many are too many."""
    off = [len(places) - len(written)]
    if len(places) > 1:
        read = Counter(_number(batches.holding(*place)) for place in places)
        if None not in read and len(read) > 1:
            wrote = Counter(_number(batches.open_at(at)) for at in written)
            off = [read[batch] - wrote[batch] for batch in {*read, *wrote}]
    return sum(max(each, 0) for each in off), sum(max(-each, 0) for each in off)


def _number(batch: Batch | None) -> int | None:
    return batch.number if batch else None


def _row(record: TopicRecord) -> dict[str, Any]:
    try:
        row = json.loads(record.value)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def some(numbers: Sequence[int]) -> str:
    """Return up to five numbers for a sentence."""
    shown = ", ".join(str(number) for number in sorted(numbers)[:5])
    return f"{shown} and {len(numbers) - 5} more" if len(numbers) > 5 else shown
