"""What is made of Kafka's answers; what the real one answers is in the integration tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from kafka import TopicPartition

from airflow_stream_provider.kafka.answers import Problem
from airflow_stream_provider.kafka.coordinators import Transaction
from airflow_stream_provider.lag import partition_offsets as logs
from airflow_stream_provider.lag.committed_offsets import Committed, CommittedOffsets, Missing
from airflow_stream_provider.lag.limits import Health, LagLimits, Moments
from airflow_stream_provider.lag.measure import measure_each
from airflow_stream_provider.lag.report import (
    Alarm,
    Ceilings,
    GroupVerdict,
    LagReport,
    PartitionState,
    QueryLag,
    Verdict,
)
from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from tests.support.kafka_logs import LOST, KafkaLogs
from tests.support.lag_reports import measure, of_group

NONE = Moments()


def report(kafka: KafkaLogs, *queries: Committed, moments: Moments = NONE) -> LagReport:
    return measure_each(kafka, {None: queries}, {None: moments})[None]  # type: ignore[arg-type]


def one(kafka: KafkaLogs, offsets: Mapping[int, int], moments: Moments = NONE, **more: Any) -> QueryLag:
    (found,) = report(kafka, Committed("q", {"t": offsets}, **more), moments=moments).queries
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
    found = measure(kafka, [of_group(kafka, "g")])
    assert found.verdict is GroupVerdict.UNKNOWN
    assert found.queries[0].problem == "Kafka refuses us the group g."


def test_queries_of_one_name_are_told_apart_by_their_key() -> None:
    kafka: Any = KafkaLogs({0: (0, [9, 8, 7]), 1: (0, [9, 8])})
    sources = {
        "a": [Committed("q", {"t": {0: 1}}, missing=Missing.NOT_READ)],
        "b": [
            Committed("q", {"t": {0: 3}}, missing=Missing.NOT_READ),
            Committed("q", {"t": {1: 0}}, missing=Missing.NOT_READ),
        ],
        "none": [],
    }
    found = measure_each(kafka, sources, dict.fromkeys(sources, NONE))
    assert {key: [query.records for query in each.queries] for key, each in found.items()} == {
        "a": [2],
        "b": [0, 2],
        "none": [],
    }
    assert len({each.at for each in found.values()}) == 1


def test_a_query_that_reads_no_kafka_has_no_lag() -> None:
    assert report(KafkaLogs({}), Committed("q")).queries == ()


def test_one_age_that_is_unknown_leaves_the_others_as_a_lower_bound() -> None:
    """A producer's clock is an hour ahead in partition 0, so the age of what comes after it is unknown."""
    found = one(KafkaLogs({0: (0, [-3600, 10]), 1: (0, [9000, 7200])}), {0: 1, 1: 1})
    assert (found.complete, found.ages_known) == (True, False)
    assert found.seconds == pytest.approx(7200, abs=3)
    assert found.retention_known is False
    assert one(KafkaLogs({0: (0, [-3600, 10])}, retention="-1"), {0: 1}).retention_known is True
    alone = one(KafkaLogs({0: (0, [-3600, 10])}), {0: 1})
    assert (alone.seconds, alone.ages_known) == (None, False)


def test_whether_a_record_of_a_moment_is_committed_is_exact() -> None:
    kafka = KafkaLogs({0: (0, [900, 600, 10]), 1: (5, [2000, 5])})
    asked = Moments(at=frozenset({kafka.now - 601, kafka.now - 599}), ages=frozenset({1500.0, 2500.0}))
    found = report(kafka, Committed("q", {"t": {0: 1, 1: 6}}), moments=asked)
    assert [found.unread_before(kafka.now - 601), found.unread_before(kafka.now - 599)] == [False, True]
    behind = one(kafka, {0: 1, 1: 5}, asked)
    assert [behind.older(1500.0), behind.older(2500.0)] == [True, False]
    lost = one(KafkaLogs(kafka.logs, {1: LOST}), {0: 2, 1: 5}, asked)
    assert lost.older(1500.0) is None


def test_hundreds_of_readers_at_different_offsets_are_exact_with_one_request() -> None:
    """Their ages are estimates: the searches share a bounded number of requests."""
    ages = [float(3000 - 3 * n - (n % 7)) for n in range(900)]
    kafka = KafkaLogs({0: (0, ages)})
    queries = [Committed(str(n), {"t": {0: n}}) for n in range(0, 900, 3)]
    report(kafka, *queries)
    plain = kafka.questions
    kafka.questions = 0
    found = report(kafka, *queries, moments=Moments(at=frozenset({kafka.now - 1500})))
    assert kafka.questions <= plain + 1
    first = next(n for n, age in enumerate(ages) if age <= 1500)
    for query in found.queries:
        assert query.unread_before == {kafka.now - 1500: int(query.query) < first}


def test_records_behind_an_open_transaction_are_not_committed() -> None:
    kafka = KafkaLogs({0: (0, [900, 600, 10])}, held=2)
    asked = Moments(at=frozenset({kafka.now - 601, kafka.now - 599}))
    found = one(kafka, {0: 1}, asked, read_committed=True)
    assert (found.records, found.partitions[0].held) == (0, 2)
    assert list(found.unread_before.values()).count(True) == 1
    assert found.unread_before[kafka.now - 599] is True


def test_a_transaction_is_as_old_as_its_coordinator_says() -> None:
    """The records behind it are dated two hours ago: the times of events, not of the transaction."""
    kafka = KafkaLogs({0: (0, [9000, 7200, 7200])}, held=2)
    kafka.open = [Transaction("fresh", kafka.now - 5, 60.0, frozenset({TopicPartition("t", 0)}))]
    found = one(kafka, {0: 1}, read_committed=True)
    assert found.held_seconds == pytest.approx(5, abs=3)
    assert (found.held_timeout, found.held_by, found.alarms(Ceilings())) == (60.0, "fresh", ())
    kafka.open = [Transaction("hangs", kafka.now - 130, 60.0, frozenset({TopicPartition("t", 0)}))]
    assert one(kafka, {0: 1}, read_committed=True).alarms(Ceilings()) == (Alarm.STUCK_TRANSACTION,)
    kafka.open = []
    unnamed = one(kafka, {0: 1}, read_committed=True)
    assert (unnamed.held_seconds, unnamed.undecided(Ceilings())) == (None, (Alarm.STUCK_TRANSACTION,))
    assert "no coordinator names it" in unnamed.problem


@pytest.mark.parametrize(("silent", "verdict"), [(0.0, Verdict.WARN), (900.0, Verdict.STOP)])
def test_a_stream_whose_checkpoint_cannot_be_read_is_judged_by_its_heartbeat(silent: float, verdict: Verdict) -> None:
    """Found by a review: a heartbeat had one commit, so that every lag was unknown."""
    kafka = KafkaLogs({0: (0, [900.0 - 10 * n for n in range(90)])})
    commits = tuple(Commit(kafka.now - silent - 10 * (9 - n), {"t": {"0": n}}) for n in range(10))
    progress = QueryProgress("q", batch=9, committed=({"t": {"0": 9}},), commits=commits, quiet_seconds=0.0)
    read = CommittedOffsets("q", Heartbeat(queries=(progress,))).read()
    (found,) = report(kafka, read).queries
    assert [p.verdict for p in found.partitions] == [verdict]
    assert found.commit_age == pytest.approx(silent, abs=30.0)


def test_a_heartbeat_with_a_time_alone_says_how_long_ago_that_was_and_no_verdict() -> None:
    kafka = KafkaLogs({0: (0, [9, 8, 7])})
    commits = (Commit(kafka.now - 3600.0),)
    progress = QueryProgress("q", batch=9, committed=({"t": {"0": 1}},), commits=commits, quiet_seconds=0.0)
    read = CommittedOffsets("q", Heartbeat(queries=(progress,))).read()
    found = report(kafka, read)
    assert [(p.lag, p.verdict) for p in found.queries[0].partitions] == [(2, None)]
    assert found.queries[0].commit_age == pytest.approx(3600.0, abs=30.0)
    judged = LagLimits().judge(found)
    assert (judged.health, "reads very many partitions" in str(judged)) == (Health.UNKNOWN, True)
