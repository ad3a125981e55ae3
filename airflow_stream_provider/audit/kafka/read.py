"""Read the facts for an audit from Kafka. Nothing is created or changed.

A fact that cannot be read is stored with its reason.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_stream_provider.audit.kafka.facts import BrokerFacts, Facts, Partition, Settings, Topic
from airflow_stream_provider.kafka.answers import UNKNOWN_TOPIC_OR_PARTITION
from airflow_stream_provider.lifecycle.errors import StreamError

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.answers import Answers
    from airflow_stream_provider.kafka.client import KafkaClient

    Described = Answers[str, dict[str, Any]]

INTERNAL = ("__consumer_offsets", "__transaction_state")
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
    others = [name for name in INTERNAL if name not in asked]
    registered = client.describe_cluster()["brokers"]
    described = client.topics([*asked, *others])
    brokers = _brokers(client, registered, described)
    problems: dict[str, str] = {}
    topics = _topics(client, [*asked, *others], described, _partitions(client, described, brokers, problems))
    return Facts(
        at=time.time(),
        server=tuple(server),
        topics=tuple(topics[name] for name in asked),
        internal=tuple(topics[name] for name in others),
        brokers=brokers,
        fenced_listed=all("is_fenced" in each for each in registered),
        quorum=_tried("quorum", problems, client.quorum),
        problems=problems,
    )


def _brokers(
    client: KafkaClient, registered: Iterable[Mapping[str, Any]], topics: Described
) -> tuple[BrokerFacts, ...]:
    from kafka import TopicPartition

    found = sorted(registered, key=lambda each: int(each["broker_id"]))
    live = [each["broker_id"] for each in found if not each.get("is_fenced")]
    settings = client.configs(brokers=live)
    partitions = [TopicPartition(name, p["partition_index"]) for name in topics for p in topics[name]["partitions"]]
    folders = client.log_folders(partitions, live)

    def known(id: int, rack: str | None, fenced: bool) -> BrokerFacts:
        problem, its = folders.problems.get(id), folders.get(id, ())
        why = problem.reason if problem else "" if its else _NO_FOLDERS
        return BrokerFacts(id, rack or None, fenced, _settings(settings, id), its, why)

    return tuple(known(each["broker_id"], each["rack"], bool(each.get("is_fenced"))) for each in found)


def _topics(
    client: KafkaClient, names: Iterable[str], described: Described, partitions: Mapping[str, list[Partition]]
) -> dict[str, Topic]:
    settings = client.configs(topics=list(described)) if described else None
    topics = {}
    for name in names:
        if settings is not None and name in described:
            found = sorted(partitions[name], key=lambda each: each.number)
            topics[name] = Topic(name, tuple(found), _settings(settings, name))
        else:
            problem = described.problems.get(name)
            reason = problem.reason if problem else "Kafka did not describe it."
            topics[name] = Topic(
                name, problem=reason, missing=problem is not None and problem.code == UNKNOWN_TOPIC_OR_PARTITION
            )
    return topics


def _settings(found: Answers[str | int, dict[str, str | None]], key: str | int) -> Settings:
    problem = found.problems.get(key)
    of = f"broker {key}" if isinstance(key, int) else f"topic {key}"
    return Settings(of, found.get(key, {}), problem.reason if problem else "")


def _partitions(
    client: KafkaClient, topics: Described, brokers: Sequence[BrokerFacts], problems: dict[str, str]
) -> dict[str, list[Partition]]:
    """Return the partitions by topic, with the facts about their logs: offsets, age, size and hanging transactions."""
    from kafka import TopicPartition

    found = {
        TopicPartition(name, each["partition_index"]): each for name in topics for each in topics[name]["partitions"]
    }
    served = [tp for tp, each in found.items() if each["leader_id"] >= 0]

    def offsets(field: str, spec: int, read_committed: bool = False) -> dict[TopicPartition, Any]:
        answers = client.offsets(dict.fromkeys(served, spec), read_committed)
        for problem in answers.problems.values():
            problems.setdefault(field, problem.reason)
        return answers

    stable, ends, oldest = offsets("held", _LATEST, True), offsets("end", _LATEST), offsets("oldest", 0)
    behind = {tp: each.offset for tp, each in stable.items() if tp in ends and each.offset < ends[tp].offset}
    listed = _listed(client, problems) if behind else {}
    late = time.time() - _SLACK_SECONDS
    lost = _tried("lost_leaders", problems, lambda: client.eligible_leaders(topics)) or {}
    by_broker = {broker.id: broker for broker in brokers}

    def size(tp: TopicPartition, leader: int) -> int | None:
        broker = by_broker.get(leader)
        sizes = [folder.sizes[tp] for folder in broker.folders if tp in folder.sizes] if broker else []
        if not sizes and leader >= 0:
            problems.setdefault("size", (broker.folders_problem if broker else "") or _NO_FOLDERS)
        return sizes[0] if sizes else None

    partitions: dict[str, list[Partition]] = {name: [] for name in topics}
    for tp, each in found.items():
        first = oldest.get(tp)
        partitions[tp.topic].append(
            Partition(
                number=tp.partition,
                leader=each["leader_id"],
                replicas=tuple(each["replica_nodes"]),
                in_sync=tuple(each["isr_nodes"]),
                offline=tuple(each["offline_replicas"]),
                lost_leaders=lost.get(tp),
                end=ends[tp].offset if tp in ends else None,
                oldest=first.timestamp / 1000 if first is not None and first.offset >= 0 else None,
                size=size(tp, each["leader_id"]),
                held=behind.get(tp) if listed.get(tp, math.inf) < late else None,
                unlisted=None if tp in listed else behind.get(tp),
            )
        )
    return partitions


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
