from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_stream_provider.lag.batched_lookup import search_together
from airflow_stream_provider.lag.burrow import Verdict, evaluate
from airflow_stream_provider.lag.committed_offsets import LastCommits
from airflow_stream_provider.lag.measure import verdicts


class P(NamedTuple):
    topic: str
    partition: int


ONE = P("t", 0)
NOW = 10_000.0


class Log:
    """A partition that got its records at these seconds, offset by offset, and what was asked of it."""

    def __init__(self, *times: float) -> None:
        self.times = sorted(times)
        self.asked: list[float] = []

    def __call__(self, times: Mapping[P, int]) -> dict[P, tuple[int, int]]:
        (at,) = set(times.values())
        self.asked.append(at / 1000)
        return {p: (end, 0) for p in times if (end := self.end_at(at / 1000)) < len(self.times)}

    def end_at(self, at: float) -> int:
        return sum(time < at for time in self.times)


def every(seconds: float, since: float) -> list[float]:
    return [since + seconds * n for n in range(int((NOW - since) / seconds))]


def told(
    log: Log, window: LastCommits, lags: Mapping[P, int], ends: Mapping[P, int], quiet_until: float | None = 0.0
) -> dict[P, Verdict | None]:
    (found,) = search_together(log, [verdicts(window, lags, ends, NOW, quiet_until)])
    return cast("dict[P, Verdict | None]", found)


def judge(log: Log, commits: Sequence[tuple[float, int]], quiet_until: float | None = 0.0) -> Verdict | None:
    """Judge a query; by default one with Spark's default trigger, which waits for nothing."""
    window = [(at, {"t": {0: offset}}) for at, offset in commits]
    end = len(log.times)
    return told(log, window, {ONE: max(0, end - commits[-1][1])}, {ONE: end}, quiet_until)[ONE]


def test_a_stream_that_keeps_up_is_ok_and_costs_one_question() -> None:
    log = Log(*every(1.0, 9000))
    assert judge(log, [(NOW - s, log.end_at(NOW - s)) for s in range(50, 0, -5)]) is Verdict.OK
    assert len(log.asked) == 1


def test_a_stream_that_falls_behind_is_a_warning() -> None:
    log = Log(*every(1.0, 9000))
    assert judge(log, [(NOW - 5 * n, 500 - n) for n in range(10, 0, -1)]) is Verdict.WARN
    assert len(log.asked) == 10


def test_a_stream_far_behind_that_catches_up_is_ok() -> None:
    log = Log(*every(0.5, 1000))
    assert judge(log, [(NOW - 5 * n, 500 - 50 * n) for n in range(10, 0, -1)]) is Verdict.OK


def test_a_stream_that_commits_and_does_not_move_stalls() -> None:
    assert judge(Log(*every(1.0, 1000)), [(NOW - 5 * n, 500) for n in range(10, 0, -1)]) is Verdict.STALL


def test_a_stream_that_is_silent_while_records_wait_has_stopped() -> None:
    log = Log(*every(1.0, 1000))
    assert judge(log, [(NOW - 600 - 5 * n, log.end_at(NOW - 600 - 5 * n)) for n in range(10, 0, -1)]) is Verdict.STOP


def test_a_query_that_waits_by_design_has_stopped_only_when_it_breaks_its_promise() -> None:
    """Found by a review: ten quick batches, then the pause of a long trigger, and a good release was rolled back."""
    log = Log(*every(1.0, 1000))
    last = NOW - 600
    commits = [(last - 5 * n, log.end_at(last - 5 * n)) for n in range(9, -1, -1)]
    assert judge(log, commits, last) is Verdict.STOP, "by the default trigger it would have read them"
    assert judge(log, commits, last + 554.0) is Verdict.STOP, "and for longer than its last commits span"
    assert judge(log, commits, last + 556.0) is not Verdict.STOP
    assert judge(log, commits, math.inf) is not Verdict.STOP
    assert judge(log, commits, None) is None, "nobody knows what it promises"


def test_a_partition_whose_source_waits_for_more_does_not_stall() -> None:
    """Of two sources, one with minOffsetsPerTrigger: the other one's records make the batches."""
    log, commits = Log(*every(1.0, 1000)), [(NOW - 5 * n, 500) for n in range(10, 0, -1)]
    assert judge(log, commits, NOW - 5 + 44.0) is Verdict.STALL
    assert judge(log, commits, NOW - 5 + 900.0) is Verdict.WARN
    assert judge(log, commits, None) is None


def test_a_quiet_topic_whose_first_record_in_hours_has_just_come_is_ok() -> None:
    log = Log(*every(1.0, 1000)[:4000], NOW - 3)
    commits = [(5000 - 5 * n, log.end_at(5000 - 5 * n)) for n in range(9, -1, -1)]
    assert judge(log, commits) is Verdict.OK
    assert judge(Log(*log.times[:-1], NOW - 101), commits) is Verdict.STOP, "nor was it read within 100 s"


def test_a_slow_trigger_has_longer_than_100_seconds() -> None:
    """Ten minutes between batches and nothing to read for hours: a record that waits for 15 minutes is no alarm yet."""
    log = Log(1000, NOW - 900)
    window = [(600.0 * n, 1) for n in range(2, 8)]
    assert judge(log, window) is Verdict.OK
    assert judge(Log(1000, NOW - 1201), window) is Verdict.STOP


def test_a_stream_that_was_set_back_is_a_rewind() -> None:
    log = Log(*every(1.0, 1000))
    assert judge(log, [(NOW - 15, 8000), (NOW - 10, 8005), (NOW - 5, 0), (NOW - 1, 5)]) is Verdict.REWIND


@pytest.mark.parametrize(("commits", "verdict"), [(2, None), (3, Verdict.WARN)])
def test_a_stream_that_has_just_begun_is_not_judged(commits: int, verdict: Verdict | None) -> None:
    log = Log(*every(1.0, 1000))
    assert judge(log, [(NOW - 5 * n, 500 - n) for n in range(commits, 0, -1)]) is verdict


def test_without_lag_all_is_well_however_few_commits() -> None:
    assert told(Log(), [], {ONE: 0}, {ONE: 9}) == {ONE: Verdict.OK}
    assert told(Log(), [], {ONE: 1}, {ONE: 9}) == {ONE: None}


def test_a_partition_that_the_stream_has_just_found_is_ok() -> None:
    new = P("t", 1)
    window = [(NOW - 5 * n, {"t": {0: 9}}) for n in range(10, 0, -1)]
    assert told(Log(), window, {new: 5}, {new: 5}) == {new: Verdict.OK}


@given(st.lists(st.floats(9000, NOW), max_size=60), st.lists(st.integers(0, 60), min_size=3, max_size=10), st.data())
def test_asking_less_changes_no_verdict(times: list[float], offsets: list[int], data: st.DataObject) -> None:
    log = Log(*times)
    at = sorted(data.draw(st.lists(st.floats(9000, NOW), min_size=len(offsets), max_size=len(offsets))))
    end = len(log.times)
    whole = [
        (offset, round(second * 1000), max(0, log.end_at(round(second * 1000) / 1000) - offset))
        for second, offset in zip(at, offsets, strict=True)
    ]
    pauses = sorted(later - earlier for earlier, later in itertools.pairwise(at))
    middle = (pauses[(len(pauses) - 1) // 2] + pauses[len(pauses) // 2]) / 2
    lately = log.end_at(round((NOW - max(100.0, 2 * middle)) * 1000) / 1000)
    lag = max(0, end - offsets[-1])
    assert judge(log, list(zip(at, offsets, strict=True))) is evaluate(whole, [end, lately], lag, NOW)
