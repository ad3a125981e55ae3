"""Read the facts for an audit from Kafka. Nothing is created or changed.

What cannot be read is stored with its reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_stream_provider.audit.facts import BrokerFacts, Facts, Partition, Settings, Topic
from airflow_stream_provider.lifecycle.errors import StreamError

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.client import KafkaClient
    from airflow_stream_provider.kafka.requests import Answers

INTERNAL = ("__consumer_offsets", "__transaction_state")
# Kafka's error code for an unknown topic.
_NO_TOPIC = 3
_EARLIEST, _LATEST = -2, -1
# transaction.max.timeout.ms in seconds, where it could not be read; and slack for the brokers, which abort
# transactions every ten seconds.
_TRANSACTION_SECONDS = 900.0
_SLACK_SECONDS = 60.0

T = TypeVar("T")


def gather(client: KafkaClient, names: Iterable[str], server: Sequence[str]) -> Facts:
    """Return all facts that the checks examine.

    The user needs DESCRIBE and DESCRIBE_CONFIGS on the topics, on `__consumer_offsets`, on `__transaction_state` and on
    the cluster.

    :param names: names of the audited topics.
    :param server: arguments with which Kafka's tools reach the cluster, for the commands.
    :raises StreamError: Kafka does not answer, or denies every request.
    """
    asked = list(dict.fromkeys(names))
    brokers = _brokers(client)
    topics = _topics(client, [*asked, *(name for name in INTERNAL if name not in asked)])
    problems: dict[str, str] = {}
    topics = _with_logs(client, topics, brokers, problems)
    return Facts(
        at=time.time(),
        server=tuple(server),
        topics=tuple(topics[name] for name in asked),
        internal=tuple(topics[name] for name in INTERNAL if name not in asked),
        brokers=brokers,
        problems=problems,
    )


def _brokers(client: KafkaClient) -> tuple[BrokerFacts, ...]:
    found = sorted(client.describe_cluster()["brokers"], key=lambda each: int(each["broker_id"]))
    settings = client.configs(brokers=[each["broker_id"] for each in found if not each.get("is_fenced")])
    return tuple(
        BrokerFacts(
            each["broker_id"], each["rack"] or None, bool(each.get("is_fenced")), _settings(settings, each["broker_id"])
        )
        for each in found
    )


def _topics(client: KafkaClient, names: Sequence[str]) -> dict[str, Topic]:
    described = client.topics(names)
    settings = client.configs(topics=list(described)) if described else None
    topics = {}
    for name in names:
        if settings is not None and name in described:
            partitions = sorted((_partition(each) for each in described[name]["partitions"]), key=lambda p: p.number)
            topics[name] = Topic(name, tuple(partitions), _settings(settings, name))
        else:
            problem = described.problems.get(name)
            reason = problem.reason if problem else "Kafka did not describe it."
            topics[name] = Topic(name, problem=reason, missing=problem is not None and problem.code == _NO_TOPIC)
    return topics


def _partition(found: Mapping[str, Any]) -> Partition:
    return Partition(
        found["partition_index"],
        found["leader_id"],
        tuple(found["replica_nodes"]),
        tuple(found["isr_nodes"]),
        tuple(found["offline_replicas"]),
    )


def _settings(found: Answers[str | int, dict[str, str | None]], key: str | int) -> Settings:
    problem = found.problems.get(key)
    of = f"broker {key}" if isinstance(key, int) else f"topic {key}"
    return Settings(of, found.get(key, {}), problem.reason if problem else "")


def _with_logs(
    client: KafkaClient, topics: dict[str, Topic], brokers: Sequence[BrokerFacts], problems: dict[str, str]
) -> dict[str, Topic]:
    """Add the facts about the partitions' logs: offsets, age, size and hanging transactions."""
    from kafka import TopicPartition

    leaders = {TopicPartition(t.name, p.number): p.leader for t in topics.values() for p in t.partitions}
    served = [tp for tp, leader in leaders.items() if leader >= 0]

    def offsets(
        field: str, specs: Mapping[TopicPartition, int], read_committed: bool = False
    ) -> dict[TopicPartition, Any]:
        found = client.offsets(specs, read_committed)
        for problem in found.problems.values():
            problems.setdefault(field, problem.reason)
        return dict(found)

    starts = offsets("start", dict.fromkeys(served, _EARLIEST))
    stable = offsets("held", dict.fromkeys(served, _LATEST), True)
    ends = offsets("end", dict.fromkeys(served, _LATEST))
    oldest = offsets("oldest", dict.fromkeys(served, 0))
    limit = time.time() - _transaction_seconds(brokers) - _SLACK_SECONDS
    behind = {tp: each.offset for tp, each in stable.items() if tp in ends and each.offset < ends[tp].offset}
    young = offsets("held", dict.fromkeys(behind, round(limit * 1000)))
    # A transaction hangs if all records since the limit come after its first record, or if there are none.
    held = {tp: at for tp, at in behind.items() if tp in young and not 0 <= young[tp].offset <= at}
    lost = _tried("lost_leaders", problems, lambda: client.eligible_leaders(tp.topic for tp in leaders))
    sizes = _tried("size", problems, lambda: client.log_sizes(leaders))
    if any(tp not in sizes for tp in served):
        problems.setdefault(
            "size", "Kafka did not return the sizes of the logs; the user may lack DESCRIBE on the cluster."
        )

    def known(topic: str, partition: Partition) -> Partition:
        tp = TopicPartition(topic, partition.number)
        first = oldest.get(tp)
        return replace(
            partition,
            lost_leaders=lost.get(tp),
            start=starts[tp].offset if tp in starts else None,
            end=ends[tp].offset if tp in ends else None,
            oldest=first.timestamp / 1000 if first is not None and first.offset >= 0 else None,
            size=sizes.get(tp),
            held=held.get(tp),
        )

    return {
        name: replace(topic, partitions=tuple(known(name, partition) for partition in topic.partitions))
        for name, topic in topics.items()
    }


def _transaction_seconds(brokers: Sequence[BrokerFacts]) -> float:
    found = [broker.settings.values.get("transaction.max.timeout.ms") for broker in brokers]
    return max((int(each) / 1000 for each in found if each), default=_TRANSACTION_SECONDS)


def _tried(
    field: str, problems: dict[str, str], call: Callable[[], dict[TopicPartition, T]]
) -> dict[TopicPartition, T]:
    """Return a call's result. If it fails, return nothing and store the reason for the field.

    It fails on brokers that are too old, or if the user lacks an ACL.
    """
    try:
        return call()
    except StreamError as error:
        problems[field] = error.message
        return {}
