"""Make the topic of a control log in Kafka, and check before it is used what `control_topic_rules` asks for."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.kafka.answers import NO_ANSWER, TOPIC_DENIED, UNKNOWN_TOPIC_OR_PARTITION, Problem
from airflow_stream_provider.kafka.cluster_requests import TOPIC_ALREADY_EXISTS
from airflow_stream_provider.kafka.control_topic_rules import (
    COPIES,
    REQUIRED,
    SETTINGS,
    TopicFacts,
    few_replicas,
    problem,
    unreadable,
    without_id,
)
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError, StreamError

if TYPE_CHECKING:
    from airflow_stream_provider.kafka.client import KafkaClient

_logger = logging.getLogger(__name__)

# Seconds until a new topic has its leader and its replicas.
READY_SECONDS = 15.0
# Kafka's error codes; the latter: of a setting that is not valid, or against a policy of the brokers.
_CLUSTER_DENIED = 31
_REFUSED = (40, 44)
_START = -2
_SETTINGS = (*SETTINGS, "min.insync.replicas", "remote.storage.enable")


def exists(client: KafkaClient, name: str) -> bool:
    """Whether there is a topic of this name.

    :raises SpecError: the user may not know that, or this Kafka is too old for a control log.
    :raises ControlUnavailable: Kafka does not say.
    """
    _check_version(client)
    described = client.topics([name])
    if name in described:
        _check_ids(client, described)
        return True
    problem = described.problems[name]
    if problem.code == UNKNOWN_TOPIC_OR_PARTITION:
        return False
    raise unreadable(TopicFacts(name, _where(client, name), problem=problem))


def create(client: KafkaClient, name: str) -> None:
    """Make the topic of a stream unless it exists, and check it.

    :raises SpecError: it may not be made, or it exists and is not as it must be.
    :raises ControlUnavailable: Kafka cannot make it now, or it cannot be used now.
    """
    if not exists(client, name):
        registered, live = _brokers(client)
        copies = min(COPIES, registered)
        if live < copies:
            raise ControlUnavailable(
                f"{_where(client, name)} cannot be made now: {live} of {registered} brokers are up, and it needs "
                f"{copies}.",
                next_step="Start the brokers, and try again.",
                topic=name,
            )
        settings = {**SETTINGS, "min.insync.replicas": "2" if copies >= COPIES else "1"}
        problem = client.create_topic(name, copies, settings)
        if problem is not None and problem.code in _REFUSED:
            # Services do not let some of them be set, such as compression.type. The check says whether theirs will do.
            problem = client.create_topic(name, copies, {each: settings[each] for each in REQUIRED})
        if problem is not None and problem.code != TOPIC_ALREADY_EXISTS:
            raise _not_made(client, name, problem)
        _wait_for(client, name, copies)
    check(client, name, deploys=True)


def check(client: KafkaClient, name: str, *, deploys: bool = False) -> None:
    """Check the topic of a stream; see `problems`.

    :raises SpecError: it is not as it must be, or the user may not use it.
    :raises ControlUnavailable: there is no such topic, or it cannot be used now.
    :raises ControlLogDamaged: its beginning was deleted.
    """
    error = problems(client, [name], deploys=deploys).get(name)
    if error is not None:
        raise error


def problems(client: KafkaClient, names: Iterable[str], *, deploys: bool = False) -> dict[str, StreamError]:
    """Check the topics of many streams, with five requests for all; return what is wrong, by name of the topic.

    Topics with fewer replicas than three are named in a warning: because there are no more brokers, or there were not.

    :param deploys: something new is to begin, so that one with fewer replicas than there are brokers for is refused. A
        refusal otherwise would prevent fencing and reviving the stream that runs.
    :raises StreamError: Kafka does not answer at all, or is too old for a control log.
    """
    _check_version(client)
    found = facts(client, names)
    few = [each.name for each in found if each.partitions and each.brokers < COPIES]
    if few:
        _logger.warning(
            "The Kafka of the connection %r has fewer than %d brokers. With the disk of one, these control logs may be "
            "lost: %s. Use a cluster with three brokers for whatever matters.",
            *(client.conn_id, COPIES, _shown(few)),
        )
    lacking = [] if deploys else [each.name for each in found if few_replicas(each)]
    if lacking:
        _logger.warning(
            "These control logs have fewer replicas than the Kafka of the connection %r has brokers for. With one disk "
            "they may be lost: %s. Give them %d replicas with kafka-reassign-partitions.sh, and right after that "
            "min.insync.replicas=2 with kafka-configs.sh.",
            *(client.conn_id, _shown(lacking), COPIES),
        )
    errors = {each.name: (few_replicas(each) if deploys else None) or problem(each) for each in found}
    return {name: error for name, error in errors.items() if error is not None}


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def facts(client: KafkaClient, names: Iterable[str]) -> list[TopicFacts]:
    """Ask Kafka about topics, all at once.

    :raises StreamError: Kafka does not answer at all.
    """
    from kafka import TopicPartition

    asked = list(dict.fromkeys(names))
    described, allowed = client.topics(asked), client.allowed(asked)
    _check_ids(client, described)
    settings = client.configs(topics=list(described), keys=_SETTINGS) if described else None
    # It is not known of one without a leader; that has a sentence of its own.
    led = [name for name, each in described.items() if any(p["leader_id"] >= 0 for p in each["partitions"])]
    starts = client.offsets({TopicPartition(name, 0): _START for name in led})
    brokers = len(client.describe_cluster()["brokers"])

    def known(name: str) -> TopicFacts:
        if name not in described or settings is None:
            return TopicFacts(name, _where(client, name), problem=described.problems[name])
        partition = TopicPartition(name, 0)
        failed = allowed.problems.get(name) or settings.problems.get(name) or starts.problems.get(partition)
        return TopicFacts(
            name,
            _where(client, name),
            tuple(described[name]["partitions"]),
            settings.get(name, {}),
            allowed.get(name, frozenset()),
            starts[partition].offset if partition in starts else None,
            brokers,
            failed,
        )

    return [known(name) for name in asked]


def _brokers(client: KafkaClient) -> tuple[int, int]:
    """Return how many brokers there are, and how many of them are up.

    :raises SpecError: this Kafka gives topics no ids.
    """
    found = client.describe_cluster()["brokers"]
    registered = {each["broker_id"] for each in found}
    if not all("is_fenced" in each for each in found):
        # Before Kafka 4.0 those that are down are not listed (KIP-1073); of most of them replicas tell.
        topics = client.topics()
        _check_ids(client, topics)
        partitions = (partition for topic in topics.values() for partition in topic["partitions"])
        registered.update(*(partition["replica_nodes"] for partition in partitions))
    return len(registered), sum(not each.get("is_fenced") for each in found)


def _check_version(client: KafkaClient) -> None:
    version = client.version_without_ids()
    if version:
        raise SpecError(
            f"The Kafka of the connection {client.conn_id!r} is {version}. A control log needs 3.1 or later, which "
            "reads a topic by its id.",
            next_step="Upgrade its brokers, or keep the control log in a folder (docs/control.md).",
            conn_id=client.conn_id,
        )


def _check_ids(client: KafkaClient, topics: Mapping[str, Mapping[str, Any]]) -> None:
    for name, each in topics.items():
        if each["topic_id"] is None:
            raise without_id(_where(client, name))


def _wait_for(client: KafkaClient, name: str, copies: int) -> None:
    """Wait until all brokers know a new topic; what is still missing then, the check says."""
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until and not client.is_known(name, copies):
        time.sleep(0.1)


def _where(client: KafkaClient, name: str) -> str:
    return f"The topic {name} of the Kafka connection {client.conn_id!r}"


def _not_made(client: KafkaClient, name: str, problem: Problem) -> StreamError:
    from kafka.errors import RetriableError, for_code

    if problem.code in (TOPIC_DENIED, _CLUSTER_DENIED):
        return SpecError(
            f"{_where(client, name)} does not exist, and the connection's user may not make it.",
            next_step="Grant it CREATE on the topic, or have somebody make the topic with the settings in "
            "docs/control.md.",
            topic=name,
        )
    if problem.code == NO_ANSWER or issubclass(for_code(problem.code), RetriableError):
        return ControlUnavailable(
            f"{_where(client, name)} cannot be made now: {problem.reason}",
            next_step="Check the brokers, and try again.",
            topic=name,
        )
    return SpecError(
        f"{_where(client, name)} cannot be made: {problem.reason}",
        next_step="Correct the prefix in `control`, or what Kafka says.",
        topic=name,
    )
