"""How soon Kafka deletes unread records by size; that the brokers tell the sizes is in the integration tests."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.lag.byte_retention import SizeLimit, left_by_size, near, size_limit
from airflow_stream_provider.lag.committed_offsets import Committed
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lag.measure import measure_each
from airflow_stream_provider.lag.report import Alarm, Ceilings, PartitionLag, PartitionState, QueryLag
from tests.support.kafka_logs import KafkaLogs

LIMITED = {"retention.bytes": "1000", "segment.bytes": "100"}


def partition(committed: int, start: int = 0, end: int = 100) -> PartitionLag:
    return PartitionLag("t", 0, PartitionState.OK, committed, start, end)


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({"cleanup.policy": "delete", **LIMITED}, SizeLimit(1000, 100)),
        ({"cleanup.policy": "compact,delete", **LIMITED}, SizeLimit(1000, 100)),
        ({"cleanup.policy": "delete", **LIMITED, "remote.storage.enable": "true"}, SizeLimit(1000, 100, True)),
        ({"cleanup.policy": "compact", **LIMITED}, None),
        ({"cleanup.policy": "delete", "retention.bytes": "-1"}, None),
        ({}, None),
    ],
)
def test_only_topics_that_delete_by_size_have_a_limit(settings: dict[str, str], limit: SizeLimit | None) -> None:
    assert size_limit(settings) == limit


@pytest.mark.parametrize(("committed", "is_near"), [(0, True), (54, True), (55, False), (100, False)])
def test_the_size_matters_once_half_of_the_bytes_may_be_unread(committed: int, is_near: bool) -> None:
    """A log may be larger than its limit by a segment: 46 % of 1,100 bytes are more than 500."""
    assert bool(near({"t": SizeLimit(1000, 100)}, {("t", 0): partition(committed)})) is is_near
    assert near({"u": SizeLimit(1000, 100)}, {("t", 0): partition(0)}) == []


@pytest.mark.parametrize(
    ("size", "committed", "left", "kept"),
    [
        (1000, 0, 0.0, 200.0),
        (1000, 50, 100.0, 200.0),
        (500, 0, 200.0, 400.0),
        (1250, 0, 0.0, 160.0),
        (1250, 50, 60.0, 160.0),
    ],
    ids=["full", "full, half read", "half full", "a segment too large", "and half read"],
)
def test_a_record_lives_until_the_limit_lies_behind_it(size: int, committed: int, left: float, kept: float) -> None:
    assert SizeLimit(1000, 0).left(partition(committed), size, 200.0) == pytest.approx((left, kept))


def test_a_log_that_was_written_at_once_is_not_full_at_once() -> None:
    assert SizeLimit(1_000_000, 0).left(partition(0), 100, 0.0)[0] == pytest.approx(9999)
    assert SizeLimit(1000, 0).left(partition(0), 0, 5.0) == (5000.0, 5000.0)


def test_what_is_unknown_of_one_partition_is_unknown() -> None:
    limits, sizes, partitions = {"t": SizeLimit(1000, 0)}, {("t", 0): 1000}, {("t", 0): partition(50)}
    assert left_by_size([("t", 0)], limits, sizes, partitions, {("t", 0): 0}, 200_000) == [(100.0, 200.0)]
    assert left_by_size([("t", 0)], limits, {}, partitions, {("t", 0): 0}, 200_000) is None
    assert left_by_size([("t", 0)], limits, sizes, partitions, {}, 200_000) is None
    assert left_by_size([], {}, {}, {}, {}, 0) == []


def one(committed: int, size: int | None, *, settings: dict[str, str] = LIMITED, retention: str = "-1") -> QueryLag:
    """A log of ten records, one each 1,000 seconds."""
    kafka: Any = KafkaLogs(
        {0: (0, [1000.0 * age for age in range(10, 0, -1)])},
        retention=retention,
        settings=settings,
        sizes={} if size is None else {0: size},
    )
    (found,) = measure_each(kafka, {None: [Committed("q", {"t": {0: committed}})]}, {None: Moments()})[None].queries
    return found


def test_the_alarm_is_the_same_as_for_a_deletion_by_age() -> None:
    full = one(1, 1000)
    assert full.retention_seconds == pytest.approx(1000, abs=3)
    assert full.retained == pytest.approx(10_000, abs=3)
    assert full.alarms(Ceilings()) == (Alarm.RETENTION,)
    assert full.alarms(Ceilings(retention=900)) == ()
    roomy = one(1, 500)
    assert roomy.retention_seconds == pytest.approx(11_000, abs=3)
    assert roomy.alarms(Ceilings()) == ()


def test_the_sooner_of_both_deletions_counts() -> None:
    assert one(1, 1000, retention="9500000").retention_seconds == pytest.approx(500, abs=3)
    assert one(1, 1000, retention="20000000").retention_seconds == pytest.approx(1000, abs=3)


def test_a_stream_that_is_not_far_behind_needs_no_size() -> None:
    found = one(8, None)
    assert (found.retention_seconds, found.retention_known, found.problem) == (None, True, "")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (LIMITED, "DESCRIBE on the cluster is needed"),
        ({**LIMITED, "remote.storage.enable": "true"}, "part of it is in remote storage"),
    ],
)
def test_a_size_that_nobody_tells_makes_the_alarm_unknown(settings: dict[str, str], why: str) -> None:
    found = one(1, None, settings=settings)
    assert found.alarm(Alarm.RETENTION, Ceilings()) is None
    assert found.problem == (
        "When Kafka deletes unread records of the topic t is unknown: the size that its `retention.bytes` limits is "
        f"not told ({why})."
    )
