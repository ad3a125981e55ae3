"""How old the oldest unread record is, from offsets by timestamp alone (needs DESCRIBE, reads no record).

Kafka answers a time with the first record that is not older. So the time of the record at an offset is the largest one
that is answered with that offset or an earlier one. Exact where times rise with offsets, which they do but for clocks.
Where the record at an offset is gone (compaction) the time is that of the one before it: rather too old than too young.

A request holds one time of a partition. So those who wait at different places of one partition share the answers. Where
more than FEW do, their requests are no more than SHARED_ROUNDS; if that is not enough, the time is an estimate.
"""

from __future__ import annotations

import heapq
import math
import operator
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from airflow_stream_provider.lag.batched_lookup import Asking

# How close a time is found, in milliseconds.
RESOLUTION = 500
# A record from this far in the future is now: clocks differ. What stands behind a later one has no age to be known.
SKEW = 10_000
# So many partitions of a group are searched at a time; the others are only asked whether they hold something older.
PIVOTS = 8
# Where more than FEW wait at different places of one partition, they share so many requests; then their times are
# estimates. Up to FEW are searched to the end, however uneven the times are.
FEW = 3
SHARED_ROUNDS = 50

K = TypeVar("K", bound=Hashable)
P = TypeVar("P", bound=Hashable)
G = TypeVar("G", bound=Hashable)


class Unread(NamedTuple, Generic[P, G]):
    """The records of a partition that wait: from `position` up to `end`, which is not one of them.

    The oldest record is found for every `group` of them.
    """

    partition: P
    position: int
    end: int
    group: G


@dataclass
class _Search:
    """What is known of the time of the record at a position: at least `low` (of `low_offset`), less than `high`."""

    position: int
    high: int
    high_offset: int
    low: int = 0
    low_offset: int | None = None
    steps: int = 0
    gone: bool = False

    @property
    def over(self) -> bool:
        known = self.low_offset == self.position or self.high - self.low <= RESOLUTION
        return self.gone or (self.low_offset is not None and known)

    @property
    def guess(self) -> int:
        """The time if records came evenly."""
        if self.low_offset is None or self.high_offset <= self.low_offset:
            return (self.low + self.high) // 2
        share = (self.position - self.low_offset) / (self.high_offset - self.low_offset)
        return self.low + round(share * (self.high - self.low))

    def next(self) -> int:
        if self.low_offset is None:
            return 0
        # A guess lands at once where records come evenly; halving in between bounds the steps.
        at = self.guess if self.steps % 2 == 0 else (self.low + self.high) // 2
        self.steps += 1
        return min(self.high - 1, max(self.low + 1, at))

    def learn(self, asked: int, answer: tuple[int, int] | None) -> None:
        if answer is None:
            self.gone = self.gone or asked == 0
            self.high = max(self.low, min(self.high, asked))
        elif answer[0] <= self.position:
            at = max(asked, answer[1])
            if self.low_offset is None or at > self.low:
                self.low, self.low_offset = at, answer[0]
            self.high = max(self.high, self.low)
        elif asked == 0:
            # A log whose first record is past the position was cut meanwhile: that record is the oldest unread one.
            self.low, self.low_offset, self.high = answer[1], self.position, answer[1]
        elif asked < self.high:
            self.high, self.high_offset = max(self.low, asked), answer[0]

    def time(self, now: int) -> int | None:
        """The time that was found, None when there is none to be found."""
        if self.gone or self.low > now + SKEW:
            return None
        return min(now, self.low if self.over else self.guess)


def oldest(unread: Mapping[K, Unread[P, G]], now: int) -> Asking[P, tuple[dict[G, int], dict[K, int]]]:
    """Find by group the time of its oldest unread record, exact, and by key an estimate of it; milliseconds.

    At most RESOLUTION too early, never after `now`. Few partitions are searched: those with the most records. The
    others are asked once whether they hold an older unread record, and only those that do are looked at further. The
    estimate of the rest lies on the line from there to the end of the log.

    What cannot be known is left out: a partition that cannot be read, or with a read record of a time to come.
    """
    finder: _Finder[K, P, G] = _Finder(now, SHARED_ROUNDS if _most_places(unread) > FEW else math.inf)
    by_group: dict[G, int] = {}
    times: dict[K, int] = {}
    left = dict(unread)
    while left:
        pivots = _pivots(left)
        found = yield from finder.times_of(pivots)
        times.update(found)
        for key, at in found.items():
            group = unread[key].group
            by_group[group] = min(at, by_group.get(group, now))
        rest = {key: waits for key, waits in left.items() if key not in pivots}
        left = yield from finder.older(rest, {group: at - RESOLUTION for group, at in by_group.items()}, times)
    return by_group, times


class _Finder(Generic[K, P, G]):
    """Needs, and keeps what was answered where several wait."""

    def __init__(self, now: int, rounds: float) -> None:
        self._now = now
        self._left = rounds
        self._known: dict[P, list[tuple[int, tuple[int, int] | None]]] = {}

    def times_of(self, unread: Mapping[K, Unread[P, G]]) -> Asking[P, dict[K, int]]:
        """Find the time of each first unread record."""
        searches = {key: _Search(waits.position, self._now, waits.end) for key, waits in unread.items()}
        for key, waits in unread.items():
            for known in self._known.get(waits.partition, ()):
                searches[key].learn(*known)
        while True:
            going = self._by_partition(
                (key, waits)
                for key, waits in unread.items()
                if not searches[key].over and (self._left > 0 or searches[key].low_offset is None)
            )
            if not going:
                break
            # The one of which the least is known.
            asked = {
                partition: max((searches[key] for key in keys), key=lambda search: search.high - search.low).next()
                for partition, keys in going.items()
            }
            answers = yield from self._ask(asked, going)
            for partition, keys in going.items():
                for key in keys:
                    searches[key].learn(asked[partition], answers.get(partition))
        found = {key: search.time(self._now) for key, search in searches.items()}
        return {key: at for key, at in found.items() if at is not None}

    def older(
        self, unread: Mapping[K, Unread[P, G]], than: Mapping[G, int], times: dict[K, int]
    ) -> Asking[P, dict[K, Unread[P, G]]]:
        """Return those with an unread record older than their group's time, or perhaps; estimate the others' times."""
        limits = {key: than.get(waits.group, self._now) for key, waits in unread.items()}
        unsure, older = dict(unread), {}
        while unsure:
            going = self._by_partition(unsure.items())
            if self._left <= 0:
                going = {partition: keys for partition, keys in going.items() if len(keys) == 1}
                if not going:
                    break
            # Where different times are asked for, the one in the middle tells most of the others, too.
            asked = {
                partition: sorted(limits[key] for key in keys)[len(keys) // 2] if len(keys) > 1 else limits[keys[0]]
                for partition, keys in going.items()
            }
            answers = yield from self._ask(asked, going)
            for partition, keys in going.items():
                at = asked[partition]
                for key in keys:
                    waits = unsure[key]
                    offset = answers[partition][0] if partition in answers else waits.end
                    if offset > waits.position and at <= limits[key]:
                        older[key] = unsure.pop(key)
                    elif offset <= waits.position and at >= limits[key]:
                        share = (waits.position - offset) / (waits.end - offset)
                        if answers[partition][1] <= self._now + SKEW:
                            times[key] = at + round(share * (self._now - at))
                        del unsure[key]
        return older | unsure

    def _ask(self, asked: Mapping[P, int], going: Mapping[P, list[K]]) -> Asking[P, Mapping[P, tuple[int, int]]]:
        answers = yield asked
        shared = [partition for partition, keys in going.items() if len(keys) > 1]
        for partition in shared:
            self._known.setdefault(partition, []).append((asked[partition], answers.get(partition)))
        self._left -= bool(shared)
        return answers

    @staticmethod
    def _by_partition(unread: Iterable[tuple[K, Unread[P, G]]]) -> dict[P, list[K]]:
        found: dict[P, list[K]] = {}
        for key, waits in unread:
            found.setdefault(waits.partition, []).append(key)
        return found


def _most_places(unread: Mapping[K, Unread[P, G]]) -> int:
    """The largest number of different positions at which a partition is waited for."""
    places: dict[P, set[int]] = defaultdict(set)
    for waits in unread.values():
        places[waits.partition].add(waits.position)
    return max((len(positions) for positions in places.values()), default=0)


def _pivots(unread: Mapping[K, Unread[P, G]]) -> dict[K, Unread[P, G]]:
    groups: dict[G, list[tuple[int, K]]] = {}
    for key, waits in unread.items():
        groups.setdefault(waits.group, []).append((waits.position - waits.end, key))
    chosen = (heapq.nsmallest(PIVOTS, group, key=operator.itemgetter(0)) for group in groups.values())
    return {key: unread[key] for group in chosen for _, key in group}
