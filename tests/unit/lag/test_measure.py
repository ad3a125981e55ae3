"""What is made of Kafka's answers; what the real one answers is in the integration tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_stream_provider.kafka.requests import Problem
from airflow_stream_provider.lag import partition_offsets as logs
from airflow_stream_provider.lag.committed_offsets import Committed, GroupOffsets, Missing
from airflow_stream_provider.lag.measure import measure, measure_each
from airflow_stream_provider.lag.report import GroupVerdict, LagReport, PartitionState, QueryLag, Verdict
from tests.support.kafka_logs import KafkaLogs


@dataclass
class Known:
    """Offsets that are known beforehand."""

    committed: Committed

    def read(self) -> Committed:
        return self.committed


def report(kafka: KafkaLogs, *queries: Committed) -> LagReport:
    return measure(kafka, [Known(query) for query in queries])  # type: ignore[arg-type]


def one(kafka: KafkaLogs, offsets: Mapping[int, int], **more: Any) -> QueryLag:
    (found,) = report(kafka, Committed("q", {"t": offsets}, **more)).queries
    return found


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "RETRY_END_SECONDS", 0.0)


def test_the_lag_counts_from_what_is_committed_or_the_start_of_the_log() -> None:
    found = one(KafkaLogs({0: (0, [9, 8, 7]), 1: (5, [9, 8]), 2: (0, [4])}), {0: 1, 1: 2})
    assert [(p.lag, p.lost, p.state.value) for p in found.partitions] == [
        (2, 0, "ok"),
        (2, 3, "ok"),
        (1, 0, "new_partition"),
    ]
    assert (found.records, found.lost, found.complete, found.problem) == (5, 3, True, "")


def test_what_some_queries_have_in_common_is_asked_once() -> None:
    kafka = KafkaLogs({0: (0, [9, 8, 7])})
    alone = one(kafka, {0: 1}) and kafka.questions
    kafka.questions = 0
    found = report(kafka, *(Committed(str(n), {"t": {0: 1}}) for n in range(50)))
    assert (len(found.queries), kafka.questions) == (50, alone)


def test_the_oldest_unread_record_says_how_many_seconds() -> None:
    found = one(KafkaLogs({0: (0, [900, 600, 10]), 1: (0, [2000, 5])}), {0: 1, 1: 1})
    assert found.seconds == pytest.approx(600, abs=3)
    assert found.retention_seconds == pytest.approx(3000, abs=3)
    assert one(KafkaLogs({0: (0, [900])}), {0: 1}).seconds == 0.0


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (3, PartitionState.UNKNOWN_TOPIC),
        (5, PartitionState.NO_LEADER),
        (29, PartitionState.UNREADABLE),
        (-1, PartitionState.UNREADABLE),
    ],
)
def test_what_kafka_does_not_answer_is_unknown_and_said(code: int, state: PartitionState) -> None:
    found = one(KafkaLogs({0: (0, [9, 8])}, {1: Problem(code, "Because.")}), {0: 1, 1: 1})
    assert [p.state for p in found.partitions] == [PartitionState.OK, state]
    assert (found.records, found.seconds is not None, found.complete, found.problem) == (1, True, False, "Because.")
    assert found.verdict is GroupVerdict.UNKNOWN


def test_a_topic_that_is_gone_is_unknown() -> None:
    (found,) = report(KafkaLogs({}), Committed("q", {"gone": {0: 5, 1: 5}})).queries
    assert {p.state for p in found.partitions} == {PartitionState.UNKNOWN_TOPIC}
    assert (found.records, found.seconds, found.problem) == (None, None, "There is no topic gone.")


def test_a_leader_lost_while_it_is_measured_is_never_no_lag() -> None:
    whole = KafkaLogs({0: (0, [900, 600, 10])})
    assert one(whole, {0: 1}).complete
    assert whole.questions > 3, "its ends, and some times"
    for question in range(1, whole.questions + 1):
        found = one(KafkaLogs({0: (0, [900, 600, 10])}, lost_at=question, now=whole.now), {0: 1})
        assert (found.records, found.seconds, found.complete) == (None, None, False)
        assert found.partitions[0].state is PartitionState.NO_LEADER
        assert found.verdict is GroupVerdict.UNKNOWN


def test_a_commit_ahead_of_the_end_is_looked_at_twice() -> None:
    again = one(KafkaLogs({0: (0, [9, 8, 7])}, ends=[2]), {0: 3})
    assert (again.records, again.partitions[0].state) == (0, PartitionState.OK)
    recreated = one(KafkaLogs({0: (0, [9])}), {0: 3})
    assert (recreated.partitions[0].raw_lag, recreated.records) == (-2, None)
    assert (recreated.partitions[0].verdict, recreated.verdict) == (Verdict.REWIND, GroupVerdict.ERR)
    assert recreated.problem == (
        "Partition 0 of the topic t ends at 1, before what is committed (3): the topic was recreated or truncated."
    )


@pytest.mark.parametrize(
    ("missing", "states"),
    [
        (Missing.FROM_START, ["ok", "new_partition", "new_partition"]),
        (Missing.UNKNOWN, ["ok", "no_commit", "new_partition"]),
        (Missing.NOT_READ, ["ok"]),
    ],
)
def test_a_partition_without_a_commit_is_what_the_reader_makes_of_it(missing: Missing, states: list[str]) -> None:
    found = one(KafkaLogs({0: (0, [9]), 1: (0, [9]), 2: (7, [])}), {0: 0}, missing=missing)
    assert [p.state.value for p in found.partitions] == states


def test_retention_that_is_not_known_is_said_and_changes_nothing_else() -> None:
    found = one(KafkaLogs({0: (0, [9, 8])}, retention=None), {0: 1})
    assert (found.retention_seconds, found.records, found.complete) == (None, 1, True)
    assert found.problem == "When Kafka deletes unread records of the topic t is unknown: Kafka refuses us."
    assert one(KafkaLogs({0: (0, [9, 8])}, retention="-1"), {0: 1}).retention_seconds is None


def test_a_group_that_may_not_be_read_is_unknown() -> None:
    kafka: Any = KafkaLogs({})
    found = measure(kafka, [GroupOffsets(kafka, "g")])
    assert found.verdict is GroupVerdict.UNKNOWN
    assert found.queries[0].problem == "Kafka refuses us the group g."


def test_queries_of_one_name_are_told_apart_by_their_key() -> None:
    kafka: Any = KafkaLogs({0: (0, [9, 8, 7]), 1: (0, [9, 8])})
    sources = {
        "a": [Known(Committed("q", {"t": {0: 1}}, missing=Missing.NOT_READ))],
        "b": [
            Known(Committed("q", {"t": {0: 3}}, missing=Missing.NOT_READ)),
            Known(Committed("q", {"t": {1: 0}}, missing=Missing.NOT_READ)),
        ],
        "none": [],
    }
    found = measure_each(kafka, sources)
    assert {key: [query.records for query in each.queries] for key, each in found.items()} == {
        "a": [2],
        "b": [0, 2],
        "none": [],
    }
    assert len({each.at for each in found.values()}) == 1


def test_a_query_that_reads_no_kafka_has_no_lag() -> None:
    assert report(KafkaLogs({}), Committed("q")).queries == ()
