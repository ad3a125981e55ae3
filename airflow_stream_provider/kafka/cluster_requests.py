"""Requests about the cluster itself and about making topics, as coroutines of the client's own thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.kafka.answers import Answers, Problem, error_sentence
from airflow_stream_provider.kafka.requests import Requests, topics_request

if TYPE_CHECKING:
    from kafka import TopicPartition


METADATA_TOPIC = "__cluster_metadata"


@dataclass(frozen=True)
class LogFolder:
    """One log folder of a broker.

    :param path: its path on the broker.
    :param total: size of its volume in bytes; None before Kafka 3.3.
    :param usable: bytes that are left on the volume; None before Kafka 3.3.
    :param problem: why the broker cannot use it, such as a failed disk; empty while it can.
    :param sizes: bytes of each partition's log in it.
    """

    path: str
    total: int | None = None
    usable: int | None = None
    problem: str = ""
    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Voter:
    """One controller of the quorum.

    :param id: its node id.
    :param behind: seconds for which it has lagged behind the leader; None if the leader does not know, because the
        controller has not fetched since the leader was elected.
    """

    id: int
    behind: float | None


@dataclass(frozen=True)
class Quorum:
    """The controllers that agree on the cluster's metadata.

    :param leader: node id of the active controller.
    :param voters: all controllers with a vote, by id.
    """

    leader: int
    voters: tuple[Voter, ...]


async def describe_cluster(requests: Requests) -> dict[str, Any]:
    """Return the cluster and its brokers; see `KafkaClient.describe_cluster`.

    kafka-python's own call (3.0.12) raises KeyError at brokers before Kafka 3.7.
    """
    from kafka.errors import for_code
    from kafka.protocol.admin import DescribeClusterRequest

    response = await requests.send(lambda: DescribeClusterRequest(include_fenced_brokers=True))
    if response.error_code:
        raise for_code(response.error_code)(response.error_message or "")
    found = response.to_dict()
    return {name: found[name] for name in ("cluster_id", "controller_id", "brokers")}


async def log_folders(
    requests: Requests, partitions: Iterable[TopicPartition], brokers: Iterable[int]
) -> Answers[int, tuple[LogFolder, ...]]:
    """Return the log folders of each broker; see `KafkaClient.log_folders`."""
    from kafka.protocol.admin import DescribeLogDirsRequest

    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    asked = list(topics.items())
    responses = await requests.ask_brokers(brokers, lambda _: DescribeLogDirsRequest(topics=asked))
    found: Answers[int, tuple[LogFolder, ...]] = Answers()
    found.problems.update(responses.problems)
    for broker, response in responses.items():
        # Only since version 3 is there an error for all; before, a denied request has no folder.
        code = response.error_code or 0
        if code:
            found.refuse(broker, code, f"log folders of broker {broker}")
        else:
            found[broker] = tuple(_folder(each) for each in response.to_dict()["results"])
    return found


async def quorum(requests: Requests) -> Quorum | None:
    """Return the quorum of controllers; see `KafkaClient.quorum`."""
    from kafka.errors import UnsupportedVersionError, for_code
    from kafka.protocol.admin import DescribeQuorumRequest

    topic = DescribeQuorumRequest.TopicData
    wanted = [topic(topic_name=METADATA_TOPIC, partitions=[topic.PartitionData(partition_index=0)])]
    try:
        response = await requests.send(lambda: DescribeQuorumRequest(topics=wanted))
    except UnsupportedVersionError:
        return None
    if response.error_code:
        raise for_code(response.error_code)(response.error_message or "")
    partition = response.to_dict()["topics"][0]["partitions"][0]
    if partition["error_code"]:
        raise for_code(partition["error_code"])(partition.get("error_message") or "")
    caught_up = {each["replica_id"]: each.get("last_caught_up_timestamp") for each in partition["current_voters"]}
    # The leader gives its present time for itself, so no other clock is compared with its times.
    now = caught_up.get(partition["leader_id"])
    if now is None:
        return None
    return Quorum(
        partition["leader_id"], tuple(Voter(each, _behind(at, now)) for each, at in sorted(caught_up.items()))
    )


def _behind(at: int | None, now: int) -> float | None:
    return None if at is None or at < 0 else max(0.0, (now - at) / 1000)


def _folder(found: Mapping[str, Any]) -> LogFolder:
    from kafka import TopicPartition

    total, usable, code = found.get("total_bytes", -1), found.get("usable_bytes", -1), found["error_code"]
    sizes = {
        TopicPartition(topic["name"], each["partition_index"]): int(each["partition_size"])
        for topic in found["topics"]
        for each in topic["partitions"]
        # A replica that is being moved to another disk has a second entry.
        if not each["is_future_key"]
    }
    return LogFolder(
        path=found["log_dir"],
        total=total if total >= 0 else None,
        usable=usable if usable >= 0 else None,
        problem=error_sentence(code, f"log folder {found['log_dir']}") if code else "",
        sizes=sizes,
    )


# Kafka's error code.
TOPIC_ALREADY_EXISTS = 36
# Kafka's codes of operations on a topic (KIP-430).
OPERATIONS = {"READ": 3, "WRITE": 4, "DESCRIBE": 8, "DESCRIBE_CONFIGS": 10}
# Milliseconds that the controller may take.
CREATE_MS = 10_000


async def create_topic(requests: Requests, name: str, replicas: int, settings: Mapping[str, str]) -> Problem | None:
    """Make a topic of one partition; see `KafkaClient.create_topic`."""
    from kafka.protocol.admin import CreateTopicsRequest

    topic = CreateTopicsRequest.CreatableTopic
    configs = [topic.CreatableTopicConfig(name=key, value=value) for key, value in settings.items()]
    wanted = topic(name=name, num_partitions=1, replication_factor=replicas, assignments=[], configs=configs)
    # With ZooKeeper only the controller makes topics; without it, every broker passes the request on.
    controller = (await describe_cluster(requests))["controller_id"]
    response = await requests.send(
        lambda: CreateTopicsRequest(topics=[wanted], timeout_ms=CREATE_MS, validate_only=False), controller
    )
    (made,) = response.topics
    if not made.error_code:
        return None
    said = f" Kafka says: {made.error_message.rstrip('. ')}." if made.error_message else ""
    return Problem(made.error_code, error_sentence(made.error_code, f"topic {name}") + said)


async def is_known(requests: Requests, name: str, replicas: int) -> bool:
    """Return whether all brokers know a topic; see `KafkaClient.is_known`."""
    answers = await requests.ask_brokers(requests.kafka.brokers(), lambda _: topics_request([name]))
    topics = [topic for response in answers.values() for topic in response.topics]
    return bool(topics) and not any(
        topic.error_code or any(each.leader_id < 0 or len(each.isr_nodes) < replicas for each in topic.partitions)
        for topic in topics
    )


async def operations(requests: Requests, names: Iterable[str]) -> Answers[str, frozenset[str]]:
    """Return what the user may do; see `KafkaClient.allowed`."""
    asked = list(names)
    response = await requests.send(lambda: topics_request(asked, operations=True))
    found: Answers[str, frozenset[str]] = Answers()
    for each in response.topics:
        if each.error_code:
            found.refuse(each.name, each.error_code, f"topic {each.name}")
        else:
            codes = set(each.authorized_operations)
            found[each.name] = frozenset(name for name, code in OPERATIONS.items() if code in codes)
    return found
