"""Markers of transactions are no records that wait, and none that were lost."""

from __future__ import annotations

import pytest
from kafka import TopicPartition

from airflow_stream_provider.kafka.records import RecordBatch
from airflow_stream_provider.lag.committed_offsets import Committed, Missing
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lag.measure import measure_each
from airflow_stream_provider.lag.report import Alarm, Ceilings, PartitionLag, PartitionState, QueryLag
from airflow_stream_provider.lag.transactions import MOST_MARKERS, may_wait_before_markers, pass_markers
from tests.support.kafka_logs import KafkaLogs


def data(first: int, last: int) -> RecordBatch:
    return RecordBatch(first, last, transactional=True)


def plain(first: int, last: int) -> RecordBatch:
    return RecordBatch(first, last)


def marker(at: int) -> RecordBatch:
    return RecordBatch(at, at, control=True, transactional=True)


def passed(
    committed: int, start: int, end: int, batches: tuple[RecordBatch, ...] | None
) -> tuple[int | None, int, bool]:
    found = PartitionLag("t", 0, PartitionState.OK, committed, start, end)
    pass_markers(found, batches)
    return found.lag, found.lost, found.loss_known


@pytest.mark.parametrize(
    ("committed", "batches", "lag"),
    [
        (4, (data(0, 3), marker(4)), 0),
        (4, (marker(4), marker(5), marker(6)), 0),
        (4, (marker(4), data(5, 5), marker(6)), 2),
        (4, (data(4, 4), marker(5)), 3),
        (4, (data(0, 9),), 3),
        (4, (marker(6),), 0),
        (4, (), 3),
        (4, None, 3),
    ],
    ids=["one", "several", "before a record", "after a record", "within a batch", "a gap", "cut", "unreadable"],
)
def test_markers_behind_the_commit_are_committed(
    committed: int, batches: tuple[RecordBatch, ...] | None, lag: int
) -> None:
    end = 5 if batches == (data(0, 3), marker(4)) else 7
    assert passed(committed, 0, end, batches) == (lag, 0, True)


@pytest.mark.parametrize(
    ("start", "end", "batches", "lost", "known"),
    [
        (5, 9, (data(5, 7), marker(8)), 0, True),
        (5, 9, (plain(5, 8),), 1, True),
        (5, 9, (marker(5), data(6, 8)), 0, False),
        (5, 5, None, 0, False),
        (5, 9, None, 1, True),
        (6, 9, (data(6, 7), marker(8)), 2, True),
    ],
    ids=["a marker", "no transactions", "within one", "nothing left", "unreadable", "more than one"],
)
def test_one_offset_that_is_deleted_may_have_been_a_marker(
    start: int, end: int, batches: tuple[RecordBatch, ...] | None, lost: int, known: bool
) -> None:
    assert passed(4, start, end, batches)[1:] == (lost, known)


@pytest.mark.parametrize(
    ("committed", "start", "end", "may"),
    [
        (None, 0, 1, False),
        (5, 0, 5, False),
        (5, 0, 5 + MOST_MARKERS, True),
        (5, 0, 6 + MOST_MARKERS, False),
        (5, 6, 99, True),
        (5, 7, 99, False),
        (5, 0, 4, False),
    ],
)
def test_only_few_offsets_are_looked_at(committed: int | None, start: int, end: int, may: bool) -> None:
    assert may_wait_before_markers(committed, start, end) is may


def group(kafka: KafkaLogs, *committed: int, moments: Moments = Moments()) -> list[QueryLag]:  # noqa: B008 - frozen
    queries = [
        Committed(f"g{n}", {"t": {0: at}}, missing=Missing.UNKNOWN, after_records=True)
        for n, at in enumerate(committed)
    ]
    return list(measure_each(kafka, {None: queries}, {None: moments})[None].queries)  # type: ignore[arg-type]


def test_a_group_before_a_marker_has_caught_up() -> None:
    """Its age does not grow, the gate opens, and a group that lags by a record is asked about by the same request."""
    kafka = KafkaLogs({0: (0, [900] * 6)}, batches_of={0: (data(0, 1), marker(2), data(3, 4), marker(5))})
    now = Moments(at=frozenset({kafka.now}))
    done, behind = group(kafka, 5, 4, moments=now)
    assert (done.records, done.seconds, done.unread_before, done.older(60)) == (0, 0.0, {kafka.now: False}, False)
    assert (behind.records, behind.unread_before) == (2, {kafka.now: True})
    assert kafka.fetched == {TopicPartition("t", 0): 4}


def test_a_stream_is_never_asked_for_its_records() -> None:
    """Spark commits the end, markers included; reading needs a right that measuring a stream does not."""
    kafka = KafkaLogs({0: (0, [900] * 6)}, batches_of={0: (marker(5),)})
    query = Committed("q", {"t": {0: 5}})
    (found,) = measure_each(kafka, {None: [query]}, {None: Moments()})[None].queries  # type: ignore[arg-type]
    assert (found.records, kafka.fetched) == (1, {})


def test_a_loss_that_may_have_been_a_marker_is_unknown() -> None:
    (emptied,) = group(KafkaLogs({0: (5, [])}), 4)
    assert (emptied.lost, emptied.alarm(Alarm.LOST_DATA, Ceilings())) == (0, None)
    (marked,) = group(KafkaLogs({0: (5, [9, 9])}, batches_of={0: (data(5, 5), marker(6))}), 4)
    assert (marked.lost, marked.alarm(Alarm.LOST_DATA, Ceilings()), marked.records) == (0, False, 2)
