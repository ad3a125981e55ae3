"""What is said of a topic that is not as a control log needs it. That Kafka is asked rightly, real brokers show."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_stream_provider.control.topic import topic_name
from airflow_stream_provider.kafka import control_topic_setup, records
from airflow_stream_provider.kafka.answers import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, Problem
from airflow_stream_provider.kafka.cluster_requests import OPERATIONS
from airflow_stream_provider.kafka.control_topic_rules import SETTINGS, NotWritable, TopicFacts, few_replicas, problem
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlUnavailable, SpecError, StreamError
from airflow_stream_provider.runtime import jvm_topic

PARTITION = {"partition_index": 0, "leader_id": 1, "replica_nodes": [1, 2, 3], "isr_nodes": [1, 2, 3]}
GOOD = TopicFacts(
    "streams.orders",
    "The topic streams.orders",
    (PARTITION,),
    {**SETTINGS, "min.insync.replicas": "2", "remote.storage.enable": "false"},
    frozenset(OPERATIONS),
    start=0,
    brokers=3,
)


def partition(**changed: Any) -> TopicFacts:
    return replace(GOOD, partitions=({**PARTITION, **changed},))


def setting(**changed: str) -> TopicFacts:
    return replace(GOOD, settings={**GOOD.settings, **{key.replace("_", "."): value for key, value in changed.items()}})


def kafka_of(brokers: int, in_sync: str = "1") -> TopicFacts:
    replicas = list(range(1, brokers + 1))
    settings = {**GOOD.settings, "min.insync.replicas": in_sync}
    return replace(partition(replica_nodes=replicas, isr_nodes=replicas), brokers=brokers, settings=settings)


@pytest.mark.parametrize(
    "topic",
    [
        *(GOOD, kafka_of(1), kafka_of(2), replace(GOOD, brokers=9), partition(isr_nodes=[1, 3])),
        setting(compression_type="producer"),
    ],
)
def test_nothing_is_wrong(topic: TopicFacts) -> None:
    assert problem(topic) is None


@pytest.mark.parametrize(
    ("topic", "kind", "says"),
    [
        (replace(GOOD, partitions=(PARTITION, PARTITION)), SpecError, "has 2 partitions.*another prefix"),
        (
            setting(cleanup_policy="delete", max_message_bytes="1048588", segment_ms="604800000"),
            SpecError,
            "has 1 partition, and cleanup.policy=delete.*deleted and made anew by a broker .auto.create.topics.enable.",
        ),
        (
            replace(
                setting(cleanup_policy="delete", max_message_bytes="1048588", segment_ms="604800000"),
                partitions=(PARTITION,) * 3,
            ),
            SpecError,
            "has 3 partitions, .*made anew by a broker.*Set auto.create.topics.enable=false",
        ),
        (setting(cleanup_policy="delete"), SpecError, "has cleanup.policy=delete.*add-config cleanup.policy=compact$"),
        (setting(cleanup_policy="compact,delete"), SpecError, "has cleanup.policy=compact,delete"),
        (setting(unclean_leader_election_enable="true"), SpecError, "unclean.leader.election.enable=false$"),
        (setting(message_timestamp_type="CreateTime"), SpecError, "message.timestamp.type=LogAppendTime$"),
        (setting(compression_type="zstd"), SpecError, "has compression.type=zstd.*compression.type=uncompressed$"),
        (setting(remote_storage_enable="true"), SpecError, "remote.storage.enable=false$"),
        (setting(max_message_bytes="1048588"), SpecError, "needs 17825792 or more"),
        (setting(min_insync_replicas="1"), SpecError, "min.insync.replicas=2$"),
        (setting(min_insync_replicas="3"), SpecError, "one broker's restart stops all writes"),
        (kafka_of(1, "2"), SpecError, "min.insync.replicas=1$"),
        (partition(isr_nodes=[1]), NotWritable, "has 1 replica in sync of 2 needed: nothing can be written"),
        (partition(leader_id=-1), NotWritable, "has no leader: nothing can be written"),
        (replace(GOOD, start=7), ControlLogDamaged, "begins at offset 7, and a control log at 0"),
        (replace(GOOD, allowed=frozenset({"DESCRIBE", "DESCRIBE_CONFIGS"})), SpecError, "needs READ and WRITE"),
        (
            replace(GOOD, allowed=frozenset(OPERATIONS) - {"DESCRIBE_CONFIGS"}, problem=Problem(29, "Denied.")),
            SpecError,
            "needs DESCRIBE_CONFIGS",
        ),
        (TopicFacts("t", "The topic t", problem=Problem(29, "Denied.")), SpecError, "needs READ and WRITE and DESC"),
        (
            TopicFacts("t", "The topic t", problem=Problem(UNKNOWN_TOPIC_OR_PARTITION, "No.")),
            ControlUnavailable,
            "There is no control log: The topic t does not exist.*Deploy the stream first",
        ),
        (
            TopicFacts("t", "The topic t", problem=Problem(LEADER_NOT_AVAILABLE, "It has no leader.")),
            ControlUnavailable,
            "cannot be read now: It has no leader",
        ),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(topic: TopicFacts, kind: type[StreamError], says: str) -> None:
    import re

    found = problem(topic)
    assert type(found) is kind
    assert re.search(says, str(found)), str(found)


@pytest.mark.parametrize(
    ("copies", "brokers", "says"),
    [(1, 1, ""), (1, 2, "has 1 replica; with 2 brokers it needs 2"), (2, 3, "has 2 replicas; with 3 "), (3, 9, "")],
)
def test_a_topic_from_before_there_were_more_brokers_is_used_by_what_runs(copies: int, brokers: int, says: str) -> None:
    """Found by a review: nobody could fence or revive a stream once brokers had been added."""
    topic = replace(kafka_of(copies, "2" if copies == 3 else "1"), brokers=brokers)
    assert problem(topic) is None
    found = few_replicas(topic)
    assert (found is None) == (not says)
    assert says in str(found or "")
    assert few_replicas(TopicFacts("t", "The topic t", problem=Problem(29, "Denied."))) is None


def test_the_topics_that_lack_replicas_are_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [replace(kafka_of(1), name=f"streams.{number}", brokers=3) for number in range(7)]
    monkeypatch.setattr(control_topic_setup, "facts", lambda client, names: topics)
    client: Any = SimpleNamespace(conn_id="kafka", version_without_ids=str)
    assert set(control_topic_setup.problems(client, [], deploys=True)) == {each.name for each in topics}
    assert control_topic_setup.problems(client, []) == {}
    assert "streams.0, streams.1, streams.2, streams.3, streams.4 and 2 more" in caplog.text
    assert "Give them 3 replicas with kafka-reassign-partitions.sh" in caplog.text


def test_the_name_of_a_topic_is_prefix_and_stream() -> None:
    assert topic_name("streams.prod", "orders") == "streams.prod.orders"
    assert len(topic_name("p" * 185, "s" * 63)) == 249


@pytest.mark.parametrize("prefix", ["", ".", "..", "a b", "a/b", "ü", "p" * 186, "a\n"])
def test_a_prefix_that_kafka_would_not_take_is_refused(prefix: str) -> None:
    with pytest.raises(SpecError, match="cannot begin the names of topics"):
        topic_name(prefix, "orders")


def test_no_writer_compresses_so_a_topic_may_keep_what_it_gets() -> None:
    from kafka.record.memory_records import MemoryRecords

    (batch,) = MemoryRecords(records._batch(b"key", b"value" * 1000, {}))
    assert batch.compression_type == 0
    assert jvm_topic._PRODUCER["compression.type"] == "none"
