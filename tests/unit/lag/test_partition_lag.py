"""How far one partition is behind."""

from __future__ import annotations

from typing import Any

from airflow_stream_provider.lag.partition_lag import PartitionLag, PartitionState


def partition(number: int = 0, committed: int | None = 90, end: int | None = 100, **more: Any) -> PartitionLag:
    return PartitionLag(
        "t", number, **{"state": PartitionState.OK, "log_start": 0, **more}, committed=committed, end=end
    )


def test_the_lag_is_what_is_there_and_not_committed() -> None:
    found = partition()
    assert (found.lag, found.raw_lag, found.lost, found.position) == (10, 10, 0, 90)


def test_records_deleted_unread_are_lost_and_no_lag() -> None:
    found = partition(committed=20, log_start=70)
    assert (found.lag, found.raw_lag, found.lost, found.position) == (30, 80, 50, 70)


def test_a_new_partition_counts_from_its_start() -> None:
    found = partition(committed=None, log_start=5, state=PartitionState.NEW_PARTITION)
    assert (found.lag, found.raw_lag, found.lost) == (95, None, 0)


def test_the_raw_lag_of_a_topic_made_anew_is_kept() -> None:
    assert partition(committed=120, state=PartitionState.AHEAD_OF_END).raw_lag == -20
