"""The rules for the topic of a control log, so that it loses nothing, and the findings on one that breaks them. Pure.

The rules, and their reasons (measured on Kafka 4.1):

- One partition: the order of its messages is the order of the log.
- Three replicas, two of them in sync before a write is acknowledged, no unclean leader election: a broker that is lost
  takes nothing with it, and one may be away while all goes on.
- `cleanup.policy` exactly ``compact``. Compaction keeps the last message of each key, and each record has its own. It
  never moves the start of the log from 0, and while the policy is no other one Kafka refuses to delete records by
  request. So a log that starts later has lost its beginning: by retention, or by a person.
- No tiered storage, which would delete from the brokers.
- `LogAppendTime`: a writer whose clock is wrong is not refused.
- `max.message.bytes` takes the largest saved state.
- `compression.type` is ``uncompressed``, or ``producer``, since our writers do not compress: brokers may compress what
  they get, and Airflow's client reads no lz4, snappy or zstd without further libraries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_stream_provider.control.files import STATE_LIMIT
from airflow_stream_provider.kafka.answers import TOPIC_DENIED, UNKNOWN_TOPIC_OR_PARTITION, Problem
from airflow_stream_provider.kafka.cluster_requests import OPERATIONS
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlUnavailable, SpecError, StreamError

COPIES = 3
MESSAGE_BYTES = STATE_LIMIT + 2**20
# The required values, by Kafka's names of the settings.
FIXED = {
    "cleanup.policy": "compact",
    "unclean.leader.election.enable": "false",
    "message.timestamp.type": "LogAppendTime",
    "compression.type": "uncompressed",
}
# Other values that are as good, where a service does not let them be set.
ALSO = {"compression.type": "producer"}
SETTINGS = {
    **FIXED,
    "max.message.bytes": str(MESSAGE_BYTES),
    # The segment that is written to is never compacted: at two heartbeats a second, ten minutes are some MiB.
    "segment.ms": "600000",
    # Kafka's default, whatever that of the brokers is: the log is compacted when half of it is new, so it is at most
    # twice as long as what it keeps, and each byte that is kept is copied for one that is new. Below, brokers would
    # copy old records all the time; how long the log is, hardly matters to its readers, who open it from its end.
    "min.cleanable.dirty.ratio": "0.5",
    # Kafka's default, a day: so long it is told that a heartbeat was removed. No reader stays away that long.
    "delete.retention.ms": "86400000",
    # Of no effect while the policy is compact. When it is changed, nothing is deleted yet.
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
# The settings to give when a topic is made, where a service refuses the others: its own values of those may do.
REQUIRED = ("max.message.bytes", "min.insync.replicas", *(name for name in FIXED if name not in ALSO))


# A topic made for a control log has at least one of them set, and no broker has our values as its default.
_OURS = ("cleanup.policy", "max.message.bytes", "segment.ms")


class NotWritable(ControlUnavailable):
    """A control log that can be read, and to which nothing can be written now."""


@dataclass(frozen=True)
class TopicFacts:
    """Kafka's description of one topic.

    :param partitions: as `KafkaClient.topics` describes them.
    :param settings: the effective ones.
    :param allowed: what the user may do.
    :param start: the first offset; None when it could not be read.
    :param brokers: how many brokers the cluster has, also those that are down; before Kafka 4.0 those that are up.
    :param problem: why Kafka does not describe the topic, its settings or its start.
    """

    name: str
    where: str
    partitions: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, str | None] = field(default_factory=dict)
    allowed: frozenset[str] = frozenset()
    start: int | None = None
    brokers: int = 0
    problem: Problem | None = None


def few_replicas(topic: TopicFacts) -> SpecError | None:
    """Return the error for a topic with fewer replicas than there are brokers for, such as brokers added since."""
    copies = min((len(each["replica_nodes"]) for each in topic.partitions), default=COPIES)
    wanted = min(COPIES, topic.brokers)
    if copies >= wanted:
        return None
    return SpecError(
        f"{topic.where} has {_replicas(copies)}; with {topic.brokers} brokers it needs {wanted}, or the loss of a "
        "disk loses the log.",
        next_step=f"Give it {wanted} replicas with kafka-reassign-partitions.sh, and right after that "
        "min.insync.replicas=2 with kafka-configs.sh.",
        topic=topic.name,
    )


def problem(topic: TopicFacts) -> StreamError | None:
    """Return what is wrong with a topic, so that it must not be used, or None."""
    lacking = [name for name in OPERATIONS if name not in topic.allowed]
    if lacking and (topic.allowed or topic.problem is None):
        return _denied(topic, " and ".join(lacking))
    if topic.problem is not None:
        return unreadable(topic)
    if not any(topic.settings.get(name) == SETTINGS[name] for name in _OURS):
        return _made_by_a_broker(topic)
    if len(topic.partitions) != 1:
        return SpecError(
            f"{topic.where} has {len(topic.partitions)} partitions; a control log needs one, whose order counts.",
            next_step="Give `control` another prefix: then a topic is made for the stream. Nobody can take partitions "
            "from a topic.",
            topic=topic.name,
        )
    partition = topic.partitions[0]
    copies = len(partition["replica_nodes"])
    return _settings_problem(topic, copies) or _state_problem(topic, partition)


def _settings_problem(topic: TopicFacts, copies: int) -> StreamError | None:
    for name, value in FIXED.items():
        if topic.settings.get(name) not in (value, ALSO.get(name, value)):
            return _wrong(topic, name, value)
    if topic.settings.get("remote.storage.enable") == "true":
        return _wrong(topic, "remote.storage.enable", "false")
    if int(topic.settings.get("max.message.bytes") or 0) < MESSAGE_BYTES:
        return _wrong(topic, "max.message.bytes", str(MESSAGE_BYTES), "or more")
    in_sync = int(topic.settings.get("min.insync.replicas") or 0)
    least, most = (2, copies - 1) if copies >= COPIES else (1, 1)
    if not least <= in_sync <= most:
        why = f"of {_replicas(copies)}: with fewer a loss is possible, with more one broker's restart stops all writes"
        return _wrong(topic, "min.insync.replicas", str(least), why)
    return None


def _state_problem(topic: TopicFacts, partition: Mapping[str, Any]) -> StreamError | None:
    in_sync, least = len(partition["isr_nodes"]), int(topic.settings.get("min.insync.replicas") or 0)
    if partition["leader_id"] < 0 or in_sync < least:
        found = "has no leader" if partition["leader_id"] < 0 else f"has {_replicas(in_sync)} in sync of {least} needed"
        return NotWritable(
            f"{topic.where} {found}: nothing can be written to it now.",
            next_step="Start its brokers again. Nothing is lost: the drivers wait for it.",
            topic=topic.name,
        )
    if topic.start:
        return ControlLogDamaged(
            f"{topic.where} begins at offset {topic.start}, and a control log at 0: its beginning was deleted, by "
            "retention under another cleanup.policy, or by a person.",
            next_step="What was there, no reader can know. See 'A damaged control log' in docs/trouble/damaged_log.md.",
            topic=topic.name,
        )
    return None


def _replicas(count: int) -> str:
    return f"{count} replica{'' if count == 1 else 's'}"


def _wrong(topic: TopicFacts, setting: str, wanted: str, why: str = "") -> SpecError:
    return SpecError(
        f"{topic.where} has {setting}={topic.settings.get(setting)}; a control log needs {wanted}{why and ' '}{why}.",
        next_step=f"Have it set: kafka-configs.sh --alter --entity-type topics --entity-name {topic.name} --add-config "
        f"{setting}={wanted}",
        topic=topic.name,
        setting=setting,
    )


def _made_by_a_broker(topic: TopicFacts) -> SpecError:
    """Return the error for a topic with the brokers' defaults: a driver that writes may have made them make it."""
    return SpecError(
        f"{topic.where} was not made for a control log: it has {len(topic.partitions)} partition"
        f"{'' if len(topic.partitions) == 1 else 's'}, and cleanup.policy={topic.settings.get('cleanup.policy')}, as "
        "by the brokers' defaults. If there was a control log, it was deleted and made anew by a broker "
        "(auto.create.topics.enable), and its records are lost.",
        next_step="Set auto.create.topics.enable=false. If there was one, see 'A damaged control log' in "
        f"docs/trouble/damaged_log.md. Otherwise delete {topic.name}, and deploy again: then it is made as it must be.",
        topic=topic.name,
    )


def _denied(topic: TopicFacts, operations: str) -> SpecError:
    return SpecError(
        f"The user of the Kafka connection may not use the control log: {topic.where} needs {operations}.",
        next_step=f"Grant it {', '.join(OPERATIONS)} on the topic.",
        topic=topic.name,
    )


def without_id(where: str) -> SpecError:
    """Return the error for a topic to which Kafka has given no id, by which it is told from one made anew."""
    return SpecError(
        f"{where} has no id, by which a control log is told from one made anew: the brokers speak to each other as "
        "before Kafka 2.8.",
        next_step="Raise inter.broker.protocol.version on all brokers to their own version, and try again.",
    )


def unreadable(topic: TopicFacts) -> StreamError:
    """Return the error for a topic that Kafka does not describe."""
    assert topic.problem is not None
    if topic.problem.code == UNKNOWN_TOPIC_OR_PARTITION:
        return ControlUnavailable(
            f"There is no control log: {topic.where} does not exist, or its user may not know of it.",
            next_step="Deploy the stream first, or correct `control` or `name` in the YAML.",
            topic=topic.name,
        )
    if topic.problem.code == TOPIC_DENIED:
        return _denied(topic, " and ".join(OPERATIONS))
    return ControlUnavailable(
        f"{topic.where} cannot be read now: {topic.problem.reason}",
        next_step="Check its brokers. Nothing is lost: the drivers wait for it.",
        topic=topic.name,
    )
