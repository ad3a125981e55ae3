"""A query is measured on the Kafka that it reads, and each of its sources by its own isolation level."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.lag.committed_offsets import Committed, CommittedOffsets, refuse_others
from airflow_stream_provider.lag.limits import Health, LagLimits, Moments
from airflow_stream_provider.lag.measure import measure_each
from airflow_stream_provider.lifecycle.heartbeat import Commit, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.kafka_source import KafkaSource
from tests.support.kafka_logs import KafkaLogs
from tests.support.lag_reports import measure

COMMITTED = KafkaSource("subscribe", "t", ("kafka:9092",), True)


def kafka(**more: Any) -> Any:
    return KafkaLogs({0: (0, [9, 8, 7])}, **more)


def sourced(*sources: KafkaSource, committed: Any = None) -> CommittedOffsets:
    progress = QueryProgress("q", batch=4, committed=(committed or {"t": {"0": 1}},))
    return CommittedOffsets("q", Heartbeat(queries=(progress,)), sources=sources)


@pytest.mark.parametrize(
    ("servers", "brokers"),
    [
        (("kafka:9092",), []),
        (("gone:9092", "kafka:9092"), []),
        (("10.0.0.7:9092",), [{"host": "10.0.0.6", "port": 9092}, {"host": "10.0.0.7", "port": 9092}]),
        ((), []),
    ],
    ids=["the same", "one of them", "a broker there", "unknown"],
)
def test_a_query_that_shares_an_address_is_measured(servers: tuple[str, ...], brokers: list[dict[str, Any]]) -> None:
    (found,) = measure(kafka(brokers=brokers), [sourced(KafkaSource("subscribe", "t", servers))]).queries
    assert (found.records, found.problem) == (2, "")


def test_a_query_of_another_kafka_is_never_measured_on_this_one() -> None:
    """Also if only one of its sources reads there: its offsets are those of all sources."""
    client = kafka(brokers=[{"host": "10.0.0.6", "port": 9092}])
    other = KafkaSource("subscribe", "u", ("other:9092",))
    report = measure(client, [sourced(COMMITTED, other)])
    (found,) = report.queries
    assert (found.records, found.complete) == (None, False)
    assert LagLimits(max_records=5).judge(report).health is Health.UNKNOWN
    assert found.problem == (
        "The query q reads the Kafka at other:9092, which seems not to be the one of the connection 'kafka_default' "
        "(10.0.0.6:9092,kafka:9092): name the connection of that Kafka in the stream's YAML, or, if both are the same "
        "Kafka, put the query's addresses into the connection's extra as stream.bootstrap.servers."
    )


def test_the_brokers_are_asked_for_once_and_only_where_addresses_differ() -> None:
    client, asked = kafka(), []
    client.describe_cluster = lambda: asked.append(1) or {"brokers": []}
    same, far = Committed("a", servers=(("kafka:9092",),)), Committed("b", servers=(("b:1",),))
    assert refuse_others(client, [(1, same)]) == [(1, same)]
    assert asked == []
    assert [query.problem != "" for _, query in refuse_others(client, [(1, same), (2, far), (3, far)])] == [
        False,
        True,
        True,
    ]
    assert asked == [1]


def test_each_source_has_its_own_isolation_level() -> None:
    found = sourced(
        COMMITTED,
        KafkaSource("subscribe", "u", ("kafka:9092",), False),
        KafkaSource("subscribePattern", "v.*", ("kafka:9092",), True),
        KafkaSource("subscribe", "v2", ("kafka:9092",), False),
        committed={name: {"0": 1} for name in ("t", "u", "v1", "v2")},
    ).read()
    assert {topic: found.reads_committed(topic) for topic in found.offsets} == {
        "t": True,
        "u": False,
        "v1": True,
        "v2": False,
    }
    alike = sourced(KafkaSource("subscribe", "t"), KafkaSource("subscribe", "u")).read()
    assert (alike.read_committed, alike.uncommitted) == (False, frozenset())


def test_all_records_wait_of_a_topic_that_was_added_and_of_which_nothing_is_committed() -> None:
    """Spark reads it from its first record on; until that batch is committed the checkpoint does not know it."""
    client = kafka(topic_names=("t", "u"))
    (found,) = measure(client, [sourced(KafkaSource("subscribe", "t, u,", ("kafka:9092",)))]).queries
    assert [(each.topic, each.lag) for each in found.partitions] == [("t", 2), ("u", 3)]
    assert found.complete
    assert sorted(found.topic_ids) == ["t", "u"]
    pattern = measure(client, [sourced(KafkaSource("subscribePattern", "t, u", ("kafka:9092",)))])
    assert [each.topic for each in pattern.queries[0].partitions] == ["t"], "nobody knows what it matches"


def test_a_topic_that_an_uncommitted_pattern_may_match_counts_as_uncommitted() -> None:
    far, both = KafkaSource("subscribePattern", "(a+)+$", ("kafka:9092",)), {"t": {"0": 1}, "a" * 60 + "!": {"0": 1}}
    found = sourced(COMMITTED, far, committed=both).read()
    assert found.read_committed
    assert found.uncommitted == frozenset(both)


def test_a_query_with_both_levels_is_measured_by_each() -> None:
    """The records of t behind an open transaction are held back, those of u count."""
    client = kafka(held=1, topic_names=("t", "u"))
    both = Committed("q", {"t": {0: 1}, "u": {0: 1}}, read_committed=True, uncommitted=frozenset({"u"}))
    (found,) = measure_each(client, {None: [both]}, {None: Moments()})[None].queries
    assert [(p.topic, p.lag, p.held) for p in found.partitions] == [("t", 1, 1), ("u", 2, None)]
    assert found.seconds == pytest.approx(8, abs=2)
    assert None not in [p.seconds for p in found.partitions]


def test_offsets_of_another_source_are_none_of_kafka_whatever_their_form() -> None:
    """Event Hubs writes {hub: {partition: number}}, too (azure-event-hubs-spark issues 461, 578)."""
    commits = (Commit(1.0, {"t": {"0": 1}, "hub": {"0": 7}}), Commit(2.0, {"t": {"0": 2}, "hub": {"0": 9}}))
    progress = QueryProgress("q", batch=4, committed=({"hub": {"0": 9}}, {"t": {"0": 2}}), commits=commits)
    found = CommittedOffsets("q", Heartbeat(queries=(progress,)), sources=(COMMITTED,)).read()
    assert found.offsets == {"t": {0: 2}}
    assert found.window == ((1.0, {"t": {0: 1}}), (2.0, {"t": {0: 2}}))
