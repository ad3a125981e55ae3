"""How old the oldest unread record is, from offsets by timestamp alone (needs DESCRIBE, reads no record).

Kafka answers a time with the first record that is not older. So the time of the record at an offset is the largest one
that is answered with that offset or an earlier one. Exact where times rise with offsets, which they do but for clocks.
Where the record at an offset is gone (compaction) the time is that of the one before it: rather too old than too young.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from airflow_stream_provider.kafka.together import Asking

# How close a time is found, in milliseconds.
RESOLUTION = 500
# So many partitions of a group are searched at a time; the others are only asked whether they hold something older.
PIVOTS = 8

P = TypeVar("P", bound=Hashable)
G = TypeVar("G", bound=Hashable)


class Unread(NamedTuple, Generic[G]):
    """The records of a partition that wait: from `position` up to `end`, which is not one of them.

    The oldest record is found for every `group` of partitions.
    """

    position: int
    end: int
    group: G


@dataclass
class _Search:
    """What is known of the time of the record at a position: at least `low`, less than `high`."""

    position: int
    low: int
    low_offset: int
    high: int
    high_offset: int
    steps: int = 0

    @property
    def over(self) -> bool:
        return self.low_offset == self.position or self.high - self.low <= RESOLUTION

    def next(self) -> int:
        # A guess from the offsets lands at once where records come evenly; halving in between bounds the steps.
        share = 0.5
        if self.steps % 2 == 0 and self.high_offset > self.low_offset:
            share = (self.position - self.low_offset) / (self.high_offset - self.low_offset)
        self.steps += 1
        return min(self.high - 1, max(self.low + 1, self.low + round(share * (self.high - self.low))))

    def learn(self, asked: int, answer: tuple[int, int] | None) -> None:
        if answer is not None and answer[0] <= self.position:
            self.low_offset, self.low = answer[0], max(asked, answer[1])
            self.high = max(self.high, self.low)
        else:
            self.high = asked
            self.high_offset = answer[0] if answer is not None else self.high_offset


def times_of(unread: Mapping[P, Unread[G]], now: int) -> Asking[P, dict[P, int]]:
    """Find the time of each first unread record in milliseconds, at most RESOLUTION too early, never after `now`.

    A partition that cannot be read is left out.
    """
    starts = yield dict.fromkeys(unread, 0)
    searches = {
        partition: _Search(unread[partition].position, min(at, now), offset, now, unread[partition].end)
        for partition, (offset, at) in starts.items()
        if offset <= unread[partition].position
    }
    # A log whose first record is past the position was cut meanwhile: that record is the oldest unread one.
    found = {p: min(at, now) for p, (offset, at) in starts.items() if p not in searches}
    while True:
        asked = {partition: search.next() for partition, search in searches.items() if not search.over}
        if not asked:
            return {**found, **{partition: min(search.low, now) for partition, search in searches.items()}}
        answers = yield asked
        for partition, at in asked.items():
            searches[partition].learn(at, answers.get(partition))


def oldest(unread: Mapping[P, Unread[G]], now: int) -> Asking[P, tuple[dict[G, int], dict[P, int]]]:
    """Find by group the time of its oldest unread record, exact, and by partition an estimate of it; milliseconds.

    Few partitions are searched: those with the most records. The others are asked once whether they hold an older
    unread record, and only those that do are looked at further. The estimate of the rest lies on the line from there
    to the end of the log.
    """
    by_group: dict[G, int] = {}
    times: dict[P, int] = {}
    left = dict(unread)
    while left:
        pivots = _pivots(left)
        found = yield from times_of(pivots, now)
        times.update(found)
        for partition, at in found.items():
            group = unread[partition].group
            by_group[group] = min(at, by_group.get(group, now))
        asked = {p: by_group.get(u.group, now) - RESOLUTION for p, u in left.items() if p not in pivots}
        answers = (yield asked) if asked else {}
        left = {}
        for partition, at in asked.items():
            waits = unread[partition]
            offset = answers[partition][0] if partition in answers else waits.end
            if offset > waits.position:
                left[partition] = waits
            else:
                share = (waits.position - offset) / (waits.end - offset)
                times[partition] = at + round(share * (now - at))
    return by_group, times


def _pivots(unread: Mapping[P, Unread[G]]) -> dict[P, Unread[G]]:
    groups: dict[G, list[tuple[int, P]]] = {}
    for partition, waits in unread.items():
        groups.setdefault(waits.group, []).append((waits.position - waits.end, partition))
    chosen = (heapq.nsmallest(PIVOTS, group, key=operator.itemgetter(0)) for group in groups.values())
    return {partition: unread[partition] for group in chosen for _, partition in group}
