"""The age of the oldest unread record, from offsets by timestamp alone (needs DESCRIBE, reads no record).

Kafka answers a time with the first record that is not older (ListOffsets). So the time of the record at an offset is
the largest time that is answered with that offset or an earlier one. This is exact where times rise with offsets, which
holds unless producers' clocks differ. Where compaction removed the record at an offset, the time is that of the record
before it: too old rather than too young.

A request holds one time for each partition. Readers at different offsets of one partition therefore share the answers.
Where there are more than FEW_READERS, they send at most SHARED_ROUNDS requests together; if those are not enough, the
time is an estimate.
"""

from __future__ import annotations

import heapq
import math
import operator
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from airflow_stream_provider.lag.batched_lookup import OffsetSearch

# Precision of a time, in milliseconds.
RESOLUTION = 500
# A record dated at most this many milliseconds in the future counts as written now: clocks differ. Records behind one
# that is dated later have no known age.
SKEW = 10_000
# Partitions of a group that are searched at a time; the others are only asked whether they hold an older record.
PIVOTS = 8
# Up to so many readers at different offsets of one partition are searched to the end, however uneven the times are.
# More of them share SHARED_ROUNDS requests; after those, their times are estimates.
FEW_READERS = 3
SHARED_ROUNDS = 50

K = TypeVar("K", bound=Hashable)
P = TypeVar("P", bound=Hashable)
G = TypeVar("G", bound=Hashable)


class UnreadRange(NamedTuple, Generic[P, G]):
    """Unread records of a partition: offsets from `position` up to, but without, `end`.

    The oldest record is found for each `group` of ranges.
    """

    partition: P
    position: int
    end: int
    group: G


@dataclass
class _TimeSearch:
    """Bounds for the time of the record at a position: at least `low` (answered by `low_offset`), less than `high`."""

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
        """The time if records arrived evenly between the bounds."""
        if self.low_offset is None or self.high_offset <= self.low_offset:
            return (self.low + self.high) // 2
        share = (self.position - self.low_offset) / (self.high_offset - self.low_offset)
        return self.low + round(share * (self.high - self.low))

    def next(self) -> int:
        if self.low_offset is None:
            return 0
        # Interpolation hits at once where records arrive evenly; halving every other step bounds the number of steps.
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
            # Retention deleted the position meanwhile: the first record left is the oldest unread one.
            self.low, self.low_offset, self.high = answer[1], self.position, answer[1]
        elif asked < self.high:
            self.high, self.high_offset = max(self.low, asked), answer[0]

    def time(self, now: int) -> int | None:
        """The time that was found; None when the record is gone, or dated too far in the future."""
        if self.gone or self.low > now + SKEW:
            return None
        return min(now, self.low if self.over else self.guess)


def first_at(at: int, partitions: Iterable[P]) -> OffsetSearch[P, dict[P, int]]:
    """Find the first record that is not older than a moment (milliseconds since 1970), in one request.

    A partition without such a record, or that cannot be read, is left out.
    """
    answers = yield dict.fromkeys(partitions, at)
    return {partition: offset for partition, (offset, _) in answers.items()}


def oldest(unread: Mapping[K, UnreadRange[P, G]], now: int) -> OffsetSearch[P, tuple[dict[G, int], dict[K, int]]]:
    """Find the exact time of the oldest unread record of each group, and an estimate for each key; milliseconds.

    A time is at most RESOLUTION too early and never after `now`. Only the partitions with the most records are
    searched. The others are asked once whether they hold an older unread record, and only those that do are searched
    too. For the rest the estimate is interpolated between that answer and the end of the log.

    Left out: partitions that cannot be read, and those where a record that is already read is dated in the future.
    """
    finder: _Finder[K, P, G] = _Finder(now, SHARED_ROUNDS if _most_positions(unread) > FEW_READERS else math.inf)
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
        rest = {key: span for key, span in left.items() if key not in pivots}
        left = yield from finder.older(rest, {group: at - RESOLUTION for group, at in by_group.items()}, times)
    return by_group, times


class _Finder(Generic[K, P, G]):
    """Runs the searches, and keeps the answers for partitions that several ranges share."""

    def __init__(self, now: int, rounds: float) -> None:
        self._now = now
        self._left = rounds
        self._known: dict[P, list[tuple[int, tuple[int, int] | None]]] = {}

    def times_of(self, unread: Mapping[K, UnreadRange[P, G]]) -> OffsetSearch[P, dict[K, int]]:
        """Find the time of each first unread record."""
        searches = {key: _TimeSearch(span.position, self._now, span.end) for key, span in unread.items()}
        for key, span in unread.items():
            for known in self._known.get(span.partition, ()):
                searches[key].learn(*known)
        while True:
            going = self._by_partition(
                (key, span)
                for key, span in unread.items()
                if not searches[key].over and (self._left > 0 or searches[key].low_offset is None)
            )
            if not going:
                break
            # The search with the widest bounds.
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
        self, unread: Mapping[K, UnreadRange[P, G]], than: Mapping[G, int], times: dict[K, int]
    ) -> OffsetSearch[P, dict[K, UnreadRange[P, G]]]:
        """Return the ranges that may hold a record older than their group's time; estimate the times of the others."""
        limits = {key: than.get(span.group, self._now) for key, span in unread.items()}
        unsure, older = dict(unread), {}
        while unsure:
            going = self._by_partition(unsure.items())
            if self._left <= 0:
                going = {partition: keys for partition, keys in going.items() if len(keys) == 1}
                if not going:
                    break
            # Where ranges ask for different times, the answer for the median decides most of them.
            asked = {
                partition: sorted(limits[key] for key in keys)[len(keys) // 2] if len(keys) > 1 else limits[keys[0]]
                for partition, keys in going.items()
            }
            answers = yield from self._ask(asked, going)
            for partition, keys in going.items():
                at = asked[partition]
                for key in keys:
                    span = unsure[key]
                    offset = answers[partition][0] if partition in answers else span.end
                    if offset > span.position and at <= limits[key]:
                        older[key] = unsure.pop(key)
                    elif offset <= span.position and at >= limits[key]:
                        share = (span.position - offset) / (span.end - offset)
                        if answers[partition][1] <= self._now + SKEW:
                            times[key] = at + round(share * (self._now - at))
                        del unsure[key]
        return older | unsure

    def _ask(self, asked: Mapping[P, int], going: Mapping[P, list[K]]) -> OffsetSearch[P, Mapping[P, tuple[int, int]]]:
        answers = yield asked
        shared = [partition for partition, keys in going.items() if len(keys) > 1]
        for partition in shared:
            self._known.setdefault(partition, []).append((asked[partition], answers.get(partition)))
        self._left -= bool(shared)
        return answers

    @staticmethod
    def _by_partition(unread: Iterable[tuple[K, UnreadRange[P, G]]]) -> dict[P, list[K]]:
        found: dict[P, list[K]] = {}
        for key, span in unread:
            found.setdefault(span.partition, []).append(key)
        return found


def _most_positions(unread: Mapping[K, UnreadRange[P, G]]) -> int:
    """Return the largest number of different positions in one partition."""
    positions: dict[P, set[int]] = defaultdict(set)
    for span in unread.values():
        positions[span.partition].add(span.position)
    return max((len(found) for found in positions.values()), default=0)


def _pivots(unread: Mapping[K, UnreadRange[P, G]]) -> dict[K, UnreadRange[P, G]]:
    groups: dict[G, list[tuple[int, K]]] = {}
    for key, span in unread.items():
        groups.setdefault(span.group, []).append((span.position - span.end, key))
    chosen = (heapq.nsmallest(PIVOTS, group, key=operator.itemgetter(0)) for group in groups.values())
    return {key: unread[key] for group in chosen for _, key in group}
