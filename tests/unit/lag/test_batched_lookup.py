from __future__ import annotations

from collections.abc import Mapping

from airflow_stream_provider.lag.batched_lookup import OffsetSearch, search_together


class Log:
    """Every partition has a record each millisecond; what was asked is kept."""

    def __init__(self) -> None:
        self.asked: list[dict[str, int]] = []

    def __call__(self, times: Mapping[str, int]) -> dict[str, tuple[int, int]]:
        self.asked.append(dict(times))
        return {partition: (at, at) for partition, at in times.items() if partition != "gone"}


def asks(*times: Mapping[str, int]) -> OffsetSearch[str, list[Mapping[str, tuple[int, int]]]]:
    found = []
    for each in times:
        found.append((yield each))
    return found


def test_who_asks_different_partitions_shares_requests() -> None:
    log = Log()
    found = search_together(log, [asks({"a": 1}, {"a": 2}), asks({"b": 7}), asks()])
    assert found == [[{"a": (1, 1)}, {"a": (2, 2)}], [{"b": (7, 7)}], []]
    assert log.asked == [{"a": 1, "b": 7}, {"a": 2}]


def test_the_same_question_is_asked_once_and_another_one_beside_it() -> None:
    log = Log()
    found = search_together(log, [asks({"a": 1, "gone": 2}), asks({"a": 1}), asks({"a": 3})])
    assert found == [[{"a": (1, 1)}], [{"a": (1, 1)}], [{"a": (3, 3)}]]
    assert log.asked == [{"a": 1, "gone": 2}, {"a": 3}]


def test_nobody_asks_nothing() -> None:
    assert search_together(Log(), []) == []
