"""Checks that the topics keep records until a stopped stream has caught up, and neither delay nor drop single ones."""

from __future__ import annotations

import math

from airflow_stream_provider.audit.check import Broken, Check, NotRead, NotVerifiable, Severity, broken_if
from airflow_stream_provider.audit.kafka.commands import ALL_TOPICS, BROKERS, TOPICS, broker_setting, topic_setting
from airflow_stream_provider.audit.kafka.facts import (
    BrokerFacts,
    Facts,
    Partition,
    Requirements,
    Topic,
    format_duration,
    partition_numbers,
)

# By default max.message.bytes is 12 bytes (offset and length of the batch) above the 1 MiB of clients and brokers.
BATCH_OVERHEAD = 12
MIB = "1048576"
# Kafka's default of message.timestamp.after.max.ms, since 3.6.
FUTURE_SECONDS = 3600.0
MINUTE = 60_000


def _policy(topic: Topic) -> str:
    return topic.settings.text("cleanup.policy")


def _kept(what: str, seconds: float, requirements: Requirements, unit: int = 1) -> Broken | None:
    """Compare a retention with what the stream needs; the setting is in a unit of so many milliseconds."""
    wanted = requirements.retention_needed
    found = f"{what} for {format_duration(seconds)}, {format_duration(wanted)} needed"
    return broken_if(seconds < wanted, found, value=math.ceil(wanted * 1000 / unit))


def _retention_time(topic: Topic, _: Facts, requirements: Requirements) -> Broken | None:
    if "delete" not in _policy(topic):
        return None
    return _kept("kept", topic.settings.seconds("retention.ms"), requirements)


def _retention_size(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare retention.bytes of each partition with the bytes per second that it has received so far."""
    limit = topic.settings.number("retention.bytes")
    if limit < 0 or "delete" not in _policy(topic):
        return None
    facts.require_field("oldest")
    unknown = [each for each in topic.partitions if each.leader >= 0 and each.size is None]
    kept = {each.number: limit / rate for each in topic.partitions if (rate := _bytes_per_second(each, facts.at))}
    if not kept and not unknown:
        raise NotVerifiable(
            f"retention.bytes is {limit}; for how long that is enough is not known before there are records."
        )
    wanted = requirements.retention_needed
    bad = [partition for partition in topic.partitions if kept.get(partition.number, math.inf) < wanted]
    if bad:
        least = format_duration(min(kept.values()))
        return Broken(f"{partition_numbers(bad)}: {limit} bytes last {least}, {format_duration(wanted)} needed")
    if unknown:
        # One broker may not have answered: the partitions of the others are judged above.
        raise NotRead(f"{partition_numbers(unknown)}: {facts.problems.get('size', 'the size is not known.')}")
    return None


def _bytes_per_second(partition: Partition, now: float) -> float | None:
    if not partition.size or partition.oldest is None or partition.oldest >= now:
        return None
    return partition.size / (now - partition.oldest)


def _local_retention(topic: Topic, _: Facts, requirements: Requirements) -> Broken | None:
    # Brokers before 3.6 have neither the setting nor tiered storage.
    if topic.settings.values and topic.settings.values.get("remote.storage.enable") in (None, "false"):
        return None
    # -2 means as long as retention.ms.
    if topic.settings.number("local.retention.ms") == -2:
        return None
    return _kept("local", topic.settings.seconds("local.retention.ms"), requirements)


def _compaction(topic: Topic, _: Facts, requirements: Requirements) -> Broken | None:
    policy = _policy(topic)
    return broken_if("compact" in policy and not requirements.compacted, f"cleanup.policy is {policy}")


def _tombstones(topic: Topic, _: Facts, requirements: Requirements) -> Broken | None:
    if "compact" not in _policy(topic):
        return None
    return _kept("deletions kept", topic.settings.seconds("delete.retention.ms"), requirements)


def _offsets_retention(broker: BrokerFacts, _: Facts, requirements: Requirements) -> Broken | None:
    if requirements.offsets_group == "":
        return None
    return _kept("offsets kept", broker.settings.number("offsets.retention.minutes") * 60.0, requirements, MINUTE)


def _message_size(topic: Topic, _: Facts, requirements: Requirements) -> Broken | None:
    allowed = topic.settings.number("max.message.bytes")
    made = requirements.number("producer", "max.request.size", MIB)
    found = f"max.message.bytes is {allowed}, max.request.size {made}"
    return broken_if(made > allowed, found, value=made + BATCH_OVERHEAD)


def _timestamps_future(topic: Topic, *_: object) -> Broken | None:
    if topic.settings.text("message.timestamp.type") == "LogAppendTime":
        return None
    ahead = topic.settings.seconds("message.timestamp.after.max.ms")
    return broken_if(ahead > FUTURE_SECONDS, f"timestamps may be {format_duration(ahead)} ahead")


def _open_transactions(topic: Topic, facts: Facts, _: Requirements) -> Broken | None:
    facts.require_field("held")
    bad = [partition for partition in topic.partitions if partition.held is not None]
    if bad:
        # The command aborts the first one; the next audit names the next.
        values = {"partition": bad[0].number, "offset": bad[0].held}
        return Broken(f"{partition_numbers(bad)}: a transaction that should have timed out is open", values)
    unlisted = [partition for partition in topic.partitions if partition.unlisted is not None]
    if unlisted:
        # Aborting it would destroy a healthy transaction that the user only may not see.
        raise NotRead(
            f"{partition_numbers(unlisted)}: a transaction is open that no coordinator lists. Either the user lacks "
            "DESCRIBE on its transactional id, or it hangs; kafka-transactions.sh find-hanging tells which."
        )
    return None


CHECKS = (
    Check(
        "retention-time",
        Severity.HIGH,
        TOPICS,
        "retention.ms of the longest planned outage and the time to catch up, or more",
        "Consumers must read a record within this time (Kafka's topic configuration). Records that a stopped stream "
        "has not read by then are deleted, and Spark fails or skips them.",
        topic_setting("retention.ms"),
        _retention_time,
    ),
    Check(
        "retention-size",
        Severity.MEDIUM,
        TOPICS,
        "retention.bytes of -1, or enough for the longest planned outage and the time to catch up",
        "The more is written, the sooner a limit in bytes deletes records, and a stream is behind just then.",
        topic_setting("retention.bytes", "-1"),
        _retention_size,
    ),
    Check(
        "local-retention",
        Severity.INFO,
        TOPICS,
        "with tiered storage, local.retention.ms of the longest planned outage and the time to catch up",
        "Older records come from the remote tier, so a stream that catches up reads slower than in its rehearsal.",
        topic_setting("local.retention.ms"),
        _local_retention,
    ),
    Check(
        "compaction",
        Severity.HIGH,
        TOPICS,
        "cleanup.policy=delete, unless the topic is meant to keep only the last record of each key (compacted=True)",
        "Compaction deletes older records of a key, which a stream that is behind then never reads.",
        topic_setting("cleanup.policy", "delete"),
        _compaction,
    ),
    Check(
        "tombstones",
        Severity.MEDIUM,
        TOPICS,
        "in a compacted topic, delete.retention.ms of the longest planned outage and the time to catch up",
        "A consumer that is further behind misses deletions and keeps deleted keys (Kafka's topic configuration).",
        topic_setting("delete.retention.ms"),
        _tombstones,
    ),
    Check(
        "offsets-retention",
        Severity.LOW,
        BROKERS,
        "offsets.retention.minutes of the longest planned outage and the time to catch up, or more, if the stream "
        "commits to an offsets_group",
        "Kafka drops the offsets of a group without members this long after its last commit, and lag tools then lose "
        "sight of the stream. The stream itself reads its checkpoint and loses nothing.",
        broker_setting("offsets.retention.minutes={value}"),
        _offsets_retention,
    ),
    Check(
        "message-size",
        Severity.MEDIUM,
        TOPICS,
        "max.message.bytes not below the producer's max.request.size",
        "Otherwise brokers refuse batches that the producer may build, and the producer drops them.",
        topic_setting("max.message.bytes"),
        _message_size,
    ),
    Check(
        "timestamps-future",
        Severity.LOW,
        TOPICS,
        "message.timestamp.type=LogAppendTime, or message.timestamp.after.max.ms of at most an hour",
        "One record with a timestamp far in the future keeps its whole segment too long, and makes the lag in seconds "
        "wrong.",
        topic_setting("message.timestamp.after.max.ms", "3600000"),
        _timestamps_future,
    ),
    Check(
        "open-transactions",
        Severity.MEDIUM,
        ALL_TOPICS,
        "no transaction open for longer than its producer's transaction.timeout.ms",
        "Consumers with read_committed stop before it, and no lag shows that (KIP-664).",
        "kafka-transactions.sh {server} abort --topic {topic} --partition {partition} --start-offset {offset}",
        _open_transactions,
    ),
)
