"""Read the facts for an audit from Kafka. Nothing is created or changed.

A fact that cannot be read is stored with its reason.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_stream_provider.audit.facts import BrokerFacts, Facts, Partition, Settings, Topic
from airflow_stream_provider.lifecycle.errors import StreamError

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.answers import Answers
    from airflow_stream_provider.kafka.client import KafkaClient

INTERNAL = ("__consumer_offsets", "__transaction_state")
# Kafka's error code for an unknown topic.
_NO_TOPIC = 3
_LATEST = -1
_NO_FOLDERS = "Kafka did not return the log folders; the user may lack DESCRIBE on the cluster."
# Coordinators abort transactions that have timed out every ten seconds.
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
    found = client.describe_cluster()["brokers"]
    brokers = _brokers(client, found)
    topics = _topics(client, [*asked, *(name for name in INTERNAL if name not in asked)])
    brokers = _with_folders(client, brokers, topics.values())
    problems: dict[str, str] = {}
    topics = _with_logs(client, topics, brokers, problems)
    return Facts(
        at=time.time(),
        server=tuple(server),
        topics=tuple(topics[name] for name in asked),
        internal=tuple(topics[name] for name in INTERNAL if name not in asked),
        brokers=brokers,
        fenced_listed=all("is_fenced" in each for each in found),
        quorum=_tried("quorum", problems, client.quorum),
        problems=problems,
    )


def _brokers(client: KafkaClient, described: Iterable[Mapping[str, Any]]) -> tuple[BrokerFacts, ...]:
    found = sorted(described, key=lambda each: int(each["broker_id"]))
    settings = client.configs(brokers=[each["broker_id"] for each in found if not each.get("is_fenced")])
    return tuple(
        BrokerFacts(
            each["broker_id"], each["rack"] or None, bool(each.get("is_fenced")), _settings(settings, each["broker_id"])
        )
        for each in found
    )


def _with_folders(
    client: KafkaClient, brokers: Sequence[BrokerFacts], topics: Iterable[Topic]
) -> tuple[BrokerFacts, ...]:
    from kafka import TopicPartition

    partitions = [TopicPartition(topic.name, each.number) for topic in topics for each in topic.partitions]
    folders = client.log_folders(partitions, [broker.id for broker in brokers if not broker.fenced])

    def known(broker: BrokerFacts) -> BrokerFacts:
        problem = folders.problems.get(broker.id)
        if problem is not None:
            return replace(broker, folders_problem=problem.reason)
        found = folders.get(broker.id, ())
        return replace(broker, folders=found, folders_problem="" if found else _NO_FOLDERS)

    return tuple(known(broker) for broker in brokers)


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

    stable = offsets("held", dict.fromkeys(served, _LATEST), True)
    ends = offsets("end", dict.fromkeys(served, _LATEST))
    oldest = offsets("oldest", dict.fromkeys(served, 0))
    behind = {tp: each.offset for tp, each in stable.items() if tp in ends and each.offset < ends[tp].offset}
    listed = _listed(client, problems) if behind else {}
    held = {tp: at for tp, at in behind.items() if listed.get(tp, math.inf) < time.time() - _SLACK_SECONDS}
    unlisted = {tp: at for tp, at in behind.items() if tp not in listed}
    lost = _tried("lost_leaders", problems, lambda: client.eligible_leaders(tp.topic for tp in leaders)) or {}
    by_broker = {broker.id: broker for broker in brokers}

    def size(tp: TopicPartition) -> int | None:
        leader = by_broker.get(leaders[tp])
        sizes = [folder.sizes[tp] for folder in leader.folders if tp in folder.sizes] if leader else []
        if not sizes and leaders[tp] >= 0:
            problems.setdefault("size", (leader.folders_problem if leader else "") or _NO_FOLDERS)
        return sizes[0] if sizes else None

    def known(topic: str, partition: Partition) -> Partition:
        tp = TopicPartition(topic, partition.number)
        first = oldest.get(tp)
        return replace(
            partition,
            lost_leaders=lost.get(tp),
            end=ends[tp].offset if tp in ends else None,
            oldest=first.timestamp / 1000 if first is not None and first.offset >= 0 else None,
            size=size(tp),
            held=held.get(tp),
            unlisted=unlisted.get(tp),
        )

    return {
        name: replace(topic, partitions=tuple(known(name, partition) for partition in topic.partitions))
        for name, topic in topics.items()
    }


def _listed(client: KafkaClient, problems: dict[str, str]) -> dict[TopicPartition, float]:
    """Return when the first open transaction of each partition times out, in seconds since 1970.

    That is counted from the start that its coordinator knows: the timestamps of its records may be the producer's.
    """
    found = client.transactions()
    for problem in found.problems.values():
        problems.setdefault("held", problem.reason)
    ends: dict[TopicPartition, float] = {}
    for transaction in (each for listed in found.values() for each in listed):
        for tp in transaction.partitions:
            ends[tp] = min(ends.get(tp, math.inf), transaction.started + transaction.timeout)
    return ends


def _tried(field: str, problems: dict[str, str], call: Callable[[], T]) -> T | None:
    """Return a call's result. If it fails, return None and store the reason for the field.

    It fails on brokers that are too old, or if the user lacks an ACL.
    """
    try:
        return call()
    except StreamError as error:
        problems[field] = error.message
        return None
