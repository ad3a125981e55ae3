"""How far one partition is behind."""

from __future__ import annotations

from airflow_stream_provider.lag.report import PartitionState
from tests.support.lag_reports import read_to


def test_the_lag_is_what_is_there_and_not_committed() -> None:
    found = read_to()
    assert (found.lag, found.raw_lag, found.lost, found.position) == (10, 10, 0, 90)


def test_records_deleted_unread_are_lost_and_no_lag() -> None:
    found = read_to(committed=20, log_start=70)
    assert (found.lag, found.raw_lag, found.lost, found.position) == (30, 80, 50, 70)


def test_a_new_partition_counts_from_its_start() -> None:
    found = read_to(committed=None, log_start=5, state=PartitionState.NEW_PARTITION)
    assert (found.lag, found.raw_lag, found.lost) == (95, None, 0)


def test_the_raw_lag_of_a_topic_made_anew_is_kept() -> None:
    assert read_to(committed=120, state=PartitionState.AHEAD_OF_END).raw_lag == -20
