"""The offsets of what some queries read: which partitions, asked how often, and what each gap in them means."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import TopicPartition

from airflow_stream_provider.kafka.answers import Problem
from airflow_stream_provider.lag import partition_offsets
from airflow_stream_provider.lag.committed_offsets import Committed, Missing
from airflow_stream_provider.lag.partition_offsets import PartitionOffsets
from tests.support.kafka_logs import KafkaLogs


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_offsets, "RETRY_END_SECONDS", 0.0)


def offsets(kafka: KafkaLogs, *queries: Committed) -> PartitionOffsets:
    client: Any = kafka
    return PartitionOffsets(client, queries)


def test_a_partition_is_asked_for_its_start_and_its_end_once_for_all_queries() -> None:
    kafka = KafkaLogs({0: (0, [9, 8]), 1: (0, [9])})
    first, second = Committed("a", {"t": {0: 1}}), Committed("b", {"t": {1: 0}})
    found = offsets(kafka, first, second)
    assert kafka.questions == 2
    assert found.partitions(first) == found.partitions(second) == [TopicPartition("t", 0), TopicPartition("t", 1)]


def test_a_query_that_assigns_its_partitions_reads_no_others() -> None:
    query = Committed("a", {"t": {1: 0}}, missing=Missing.NOT_READ)
    assert offsets(KafkaLogs({0: (0, [9]), 1: (0, [9])}), query).partitions(query) == [TopicPartition("t", 1)]


def test_two_isolation_levels_have_ends_of_their_own_and_what_lies_between_is_held_back() -> None:
    stable, all_records = Committed("a", {"t": {0: 1}}, read_committed=True), Committed("b", {"t": {0: 1}})
    # In the order of the questions: its end for each level, then the high watermark.
    found = offsets(KafkaLogs({0: (0, [9] * 9)}, ends=[4, 9, 9]), stable, all_records)
    partition = TopicPartition("t", 0)
    one, other = found.lag(stable, partition), found.lag(all_records, partition)
    assert (one.end, one.lag, one.held, other.end, other.lag, other.held) == (4, 3, 5, 9, 8, None)


@pytest.mark.parametrize("again", [2, 3, 5])
def test_an_end_before_what_is_committed_is_asked_for_once_more(again: int) -> None:
    kafka = KafkaLogs({0: (0, [9] * 9)}, ends=[1, again])
    query = Committed("a", {"t": {0: 3}})
    found = offsets(kafka, query).lag(query, TopicPartition("t", 0))
    assert kafka.questions == 3
    assert (found.end, found.state.value) == (again, "ahead_of_end" if again < 3 else "ok")


def test_what_could_not_be_read_once_is_not_asked_again() -> None:
    kafka = KafkaLogs({0: (0, [9])}, {1: Problem(29, "Kafka refuses us.")})
    query = Committed("a", {"t": {0: 0, 1: 0}})
    found = offsets(kafka, query)
    hidden = TopicPartition("t", 1)
    assert (found.readable(TopicPartition("t", 0)), found.readable(hidden)) == (True, False)
    before = kafka.questions
    assert found._ask({hidden: -1}, False) == {}
    assert kafka.questions == before
    lags = {tp: found.lag(query, tp) for tp in found.partitions(query)}
    assert found.problem(lags) == "Kafka refuses us."
    assert found.problem({TopicPartition("t", 0): lags[TopicPartition("t", 0)]}) == ""


@pytest.mark.parametrize(
    ("kafka", "query", "says"),
    [
        (
            KafkaLogs({0: (0, [9]), 1: (0, [9])}),
            Committed("a", {"t": {0: 0}}, missing=Missing.UNKNOWN),
            "There is no commit for partition 1 of the topic t.",
        ),
        (
            KafkaLogs({0: (0, [9])}),
            Committed("a", {"t": {0: 3}}),
            "Partition 0 of the topic t ends at 1, before what is committed (3): the topic was recreated or truncated.",
        ),
        (KafkaLogs({}), Committed("a", {"gone": {0: 3}}), "There is no topic gone."),
    ],
)
def test_the_reason_is_that_of_the_first_partition_that_is_not_known(
    kafka: KafkaLogs, query: Committed, says: str
) -> None:
    found = offsets(kafka, query)
    assert found.problem({tp: found.lag(query, tp) for tp in found.partitions(query)}) == says


@pytest.mark.parametrize(("retention", "seconds"), [("3600000", 3600.0), ("0", 0.0), ("-1", None), (None, None)])
def test_retention_is_in_seconds_and_none_where_nothing_is_deleted(
    retention: str | None, seconds: float | None
) -> None:
    query = Committed("a", {"t": {0: 0}})
    found = offsets(KafkaLogs({0: (0, [9])}, retention=retention), query)
    assert found.retention(["t"]) == {"t": seconds}
    assert found.retention([]) == {}
    unknown = "" if retention is not None else "When Kafka deletes unread records of the topic t is unknown"
    lags = {tp: found.lag(query, tp) for tp in found.partitions(query)}
    assert found.problem(lags).startswith(unknown)
    assert bool(found.problem(lags)) is (retention is None)


def test_without_queries_nothing_is_asked() -> None:
    kafka = KafkaLogs({0: (0, [9])})
    assert offsets(kafka).search([]) == []
    assert kafka.questions == 0
