from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TypeVar, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_stream_provider.lag.batched_lookup import OffsetSearch, search_together
from airflow_stream_provider.lag.record_age import PIVOTS, RESOLUTION, SHARED_ROUNDS, UnreadRange, oldest

NOW = 10**9
R = TypeVar("R")


class Logs:
    """Answers as a broker does: the first record (offset, time) of a partition that is not older than asked."""

    def __init__(self, logs: Mapping[int, list[tuple[int, int]]]) -> None:
        self.logs = logs
        self.asked: list[int] = []

    def __call__(self, times: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        self.asked.append(len(times))
        found = {p: next((r for r in self.logs[p] if r[1] >= at), None) for p, at in times.items()}
        return {p: record for p, record in found.items() if record is not None}

    def tell(self, search: OffsetSearch[int, R]) -> R:
        (found,) = search_together(self, [search])
        return cast("R", found)


def every(seconds: float, count: int, *, until: int = NOW, first: int = 0) -> list[tuple[int, int]]:
    """So many records, one every so many seconds."""
    return [(first + n, until - round((count - n) * seconds * 1000)) for n in range(count)]


def waits(log: list[tuple[int, int]], position: int, group: str = "a", partition: int = 0) -> UnreadRange[int, str]:
    return UnreadRange(partition, position, log[-1][0] + 1, group)


def test_records_that_come_evenly_are_found_at_once() -> None:
    logs = Logs({0: every(1.0, 10_000)})
    assert logs.tell(oldest({0: waits(logs.logs[0], 123)}, NOW))[1] == {0: logs.logs[0][123][1]}
    assert len(logs.asked) <= 3


@st.composite
def rising(draw: st.DrawFn) -> list[tuple[int, int]]:
    """A log whose times rise, unevenly: bursts, pauses, equal times."""
    pauses = draw(st.lists(st.sampled_from([0, 1, 300, 2000, 10**6, 10**8]), min_size=1, max_size=30))
    at, log = draw(st.integers(1, 10**8)), []
    first = draw(st.integers(0, 1000))
    for offset, pause in enumerate(pauses):
        at = min(at + pause, NOW)
        log.append((first + offset, at))
    return log


@given(rising(), st.data())
def test_the_time_is_right_within_the_resolution(log: list[tuple[int, int]], data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(log) - 1))
    logs = Logs({0: log})
    found = logs.tell(oldest({0: waits(log, log[number][0])}, NOW))[1][0]
    assert 0 <= log[number][1] - found <= RESOLUTION
    assert len(logs.asked) <= 64, "it halves at every second step"


@given(st.lists(rising(), min_size=1, max_size=40), st.data())
def test_the_oldest_of_many_partitions(many: list[list[tuple[int, int]]], data: st.DataObject) -> None:
    unread, exact = {}, {}
    for partition, log in enumerate(many):
        number = data.draw(st.integers(0, len(log) - 1))
        unread[partition] = waits(log, log[number][0], data.draw(st.sampled_from("ab")), partition)
        exact[partition] = log[number][1]
    groups, times = Logs(dict(enumerate(many))).tell(oldest(unread, NOW))
    for group, found in groups.items():
        right = min(at for partition, at in exact.items() if unread[partition].group == group)
        assert -RESOLUTION <= right - found <= RESOLUTION
        assert all(found - RESOLUTION <= times[p] <= NOW for p in unread if unread[p].group == group)
    assert groups.keys() == {u.group for u in unread.values()}
    assert times.keys() == unread.keys()


def test_only_a_few_of_many_partitions_are_searched() -> None:
    log = every(1.0, 1000)
    logs = Logs(dict.fromkeys(range(1000), log))
    groups, times = logs.tell(oldest({p: waits(log, 900 + p % 50, partition=p) for p in range(1000)}, NOW))
    assert groups == {"a": log[900][1]}
    assert sum(logs.asked) < 1000 + 20 * PIVOTS
    assert abs(times[49] - log[949][1]) < 2000, "where records come evenly the estimate is close"


def test_a_record_that_is_gone_is_taken_for_older_not_for_younger() -> None:
    log = [(0, 1000), (5, 500_000), (9, 900_000)]  # compacted
    assert Logs({0: log}).tell(oldest({0: UnreadRange(0, 3, 10, None)}, NOW))[1][0] == 1000


def test_a_log_cut_behind_the_position_starts_with_the_oldest_record() -> None:
    assert Logs({0: [(7, 5000)]}).tell(oldest({0: UnreadRange(0, 3, 10, None)}, NOW))[1] == {0: 5000}


def test_clocks_that_differ_a_little_are_no_trouble() -> None:
    assert Logs({0: [(0, NOW + 5000)]}).tell(oldest({0: UnreadRange(0, 0, 1, None)}, NOW))[1] == {0: NOW}
    ahead = Logs({0: [(0, NOW - 5000), (1, NOW + 5000)]})
    assert ahead.tell(oldest({0: UnreadRange(0, 1, 2, None)}, NOW))[1][0] > NOW - RESOLUTION


def test_behind_a_record_of_a_time_to_come_no_age_is_known_and_none_is_zero() -> None:
    log = Logs({0: [(0, NOW - 7_200_000), (1, NOW + 1_800_000), (2, NOW - 3_600_000), (3, NOW - 1000)]})
    assert log.tell(oldest({0: UnreadRange(0, 2, 4, "a")}, NOW)) == ({}, {})


def test_nor_is_it_in_one_of_many_partitions() -> None:
    even = every(1.0, 100)
    logs = Logs(dict.fromkeys(range(20), even) | {20: [(0, NOW + 1_800_000), (1, NOW - 3_600_000)]})
    unread = {p: waits(even, 50, partition=p) for p in range(20)} | {20: UnreadRange(20, 1, 2, "a")}
    groups, times = logs.tell(oldest(unread, NOW))
    assert groups == {"a": even[50][1]}
    assert times.keys() == set(range(20)), "how old the record in the last one is cannot be known"


def test_a_partition_that_does_not_answer_is_left_out() -> None:
    logs = Logs({**{n: every(1.0, 9) for n in range(20)}, 20: []})
    unread = {n: waits(logs.logs[0], 5, partition=n) for n in range(20)}
    unread |= {20: UnreadRange(20, 0, 100, "a"), 21: UnreadRange(21, 0, 1, "b")}
    logs.logs = {**logs.logs, 21: []}
    groups, times = logs.tell(oldest(unread, NOW))
    assert groups == {"a": logs.logs[0][5][1]}
    assert times.keys() == set(range(20))


@given(rising(), st.data())
def test_a_few_at_different_places_of_one_partition_are_all_right(
    log: list[tuple[int, int]], data: st.DataObject
) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(log) - 1), min_size=1, max_size=3))
    unread = {name: waits(log, log[number][0], str(name)) for name, number in enumerate(numbers)}
    groups, _ = Logs({0: log}).tell(oldest(unread, NOW))
    assert all(0 <= log[number][1] - groups[str(name)] <= RESOLUTION for name, number in enumerate(numbers))


def test_a_few_are_searched_to_the_end_however_uneven_the_times_are() -> None:
    pauses = [10**6, 2000, 10**8, 1, 1, 10**6, 1, 0, 1, 10**6, 10**6, 1, 2000, 10**6, 300, 10**6, 300, 2000, 300]
    pauses += [10**8, 10**6, 10**6, 10**8, 0, 2000, 10**8, 10**6, 1]
    log = [(offset, 70_000_000 + sum(pauses[: offset + 1])) for offset in range(len(pauses))]
    unread = {name: waits(log, number, str(name)) for name, number in enumerate([24, 17, 6])}
    logs = Logs({0: log})
    groups, _ = logs.tell(oldest(unread, NOW))
    assert len(logs.asked) > SHARED_ROUNDS
    assert all(0 <= log[number][1] - groups[str(name)] <= RESOLUTION for name, number in enumerate([24, 17, 6]))


@pytest.mark.parametrize("partitions", [3, 20])
def test_hundreds_at_different_places_of_the_same_partitions_take_no_more_requests(partitions: int) -> None:
    random = Random(7)
    logs = {p: sorted((random.uniform(0, 7_200_000) for _ in range(5000)), reverse=True) for p in range(partitions)}
    log = Logs({p: [(n, NOW - round(ago)) for n, ago in enumerate(agos)] for p, agos in logs.items()})
    rounds = {}
    for count in (10, 500):
        log.asked.clear()
        unread = {
            (name, p): waits(log.logs[p], 1000 + (name * 37 + p) % 4000, str(name), p)
            for name in range(count)
            for p in range(partitions)
        }
        groups, _ = log.tell(oldest(unread, NOW))
        rounds[count] = len(log.asked)
        for name in range(count):
            right = min(log.logs[p][unread[name, p].position][1] for p in range(partitions))
            assert abs(groups[str(name)] - right) < 60_000, "an estimate, between two times that are close to it"
    assert max(rounds.values()) <= SHARED_ROUNDS + 40, rounds
