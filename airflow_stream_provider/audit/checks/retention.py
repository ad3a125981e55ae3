"""Check that Kafka keeps records and offsets until a stopped stream is back and has caught up."""

from __future__ import annotations

import math

from airflow_stream_provider.audit.check import BROKERS, TOPICS, Broken, Check, Severity, check
from airflow_stream_provider.audit.facts import (
    BrokerFacts,
    Facts,
    NotRead,
    NotVerifiable,
    Partition,
    Requirements,
    Topic,
    format_duration,
    partition_numbers,
)
from airflow_stream_provider.audit.fix import broker_setting, topic_setting


def _deletes(topic: Topic) -> bool:
    return "delete" in topic.settings.text("cleanup.policy")


def _milliseconds(seconds: float) -> int:
    return math.ceil(seconds * 1000)


@check(
    "retention-time",
    Severity.HIGH,
    TOPICS,
    wanted="retention.ms of the longest planned outage and the time to catch up, or more",
    why="Consumers must read a record within this time (Kafka's topic configuration). Records that a stopped stream "
    "has not read by then are deleted, and Spark fails or skips them.",
    fix=topic_setting("retention.ms"),
)
def retention_time(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare retention.ms with the retention that the stream needs."""
    if not _deletes(topic):
        return None
    kept, wanted = topic.settings.seconds("retention.ms"), requirements.retention_needed
    if kept >= wanted:
        return None
    return Broken(
        f"kept for {format_duration(kept)}, {format_duration(wanted)} needed", {"value": _milliseconds(wanted)}
    )


@check(
    "retention-size",
    Severity.MEDIUM,
    TOPICS,
    wanted="retention.bytes of -1, or enough for the longest planned outage and the time to catch up",
    why="The more is written, the sooner a limit in bytes deletes records, and a stream is behind just then.",
    fix=topic_setting("retention.bytes", "-1"),
)
def retention_size(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare retention.bytes of each partition with the bytes per second that it has received so far."""
    limit = topic.settings.number("retention.bytes")
    if limit < 0 or not _deletes(topic):
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


@check(
    "local-retention",
    Severity.INFO,
    TOPICS,
    wanted="with tiered storage, local.retention.ms of the longest planned outage and the time to catch up",
    why="Older records come from the remote tier, so a stream that catches up reads slower than in its rehearsal.",
    fix=topic_setting("local.retention.ms"),
)
def local_retention(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare local.retention.ms of a tiered topic with the retention that the stream needs."""
    # Brokers before 3.6 have neither the setting nor tiered storage.
    if topic.settings.values and topic.settings.values.get("remote.storage.enable") in (None, "false"):
        return None
    topic.settings.flag("remote.storage.enable")
    # -2 means as long as retention.ms.
    if topic.settings.number("local.retention.ms") == -2:
        return None
    kept, wanted = topic.settings.seconds("local.retention.ms"), requirements.retention_needed
    if kept >= wanted:
        return None
    return Broken(
        f"local for {format_duration(kept)}, {format_duration(wanted)} needed", {"value": _milliseconds(wanted)}
    )


@check(
    "compaction",
    Severity.HIGH,
    TOPICS,
    wanted="cleanup.policy=delete, unless the topic is meant to keep only the last record of each key (compacted=True)",
    why="Compaction deletes older records of a key, which a stream that is behind then never reads.",
    fix=topic_setting("cleanup.policy", "delete"),
)
def compaction(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Check that a compacted topic was declared as such."""
    policy = topic.settings.text("cleanup.policy")
    return Broken(f"cleanup.policy is {policy}") if "compact" in policy and not requirements.compacted else None


@check(
    "tombstones",
    Severity.MEDIUM,
    TOPICS,
    wanted="in a compacted topic, delete.retention.ms of the longest planned outage and the time to catch up",
    why="A consumer that is further behind misses deletions and keeps deleted keys (Kafka's topic configuration).",
    fix=topic_setting("delete.retention.ms"),
)
def tombstones(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare delete.retention.ms of a compacted topic with the retention that the stream needs."""
    if "compact" not in topic.settings.text("cleanup.policy"):
        return None
    kept, wanted = topic.settings.seconds("delete.retention.ms"), requirements.retention_needed
    if kept >= wanted:
        return None
    return Broken(
        f"deletions kept for {format_duration(kept)}, {format_duration(wanted)} needed",
        {"value": _milliseconds(wanted)},
    )


@check(
    "offsets-retention",
    Severity.LOW,
    BROKERS,
    wanted="offsets.retention.minutes of the longest planned outage and the time to catch up, or more, if the stream "
    "commits to an offsets_group",
    why="Kafka drops the offsets of a group without members this long after its last commit, and lag tools then lose "
    "sight of the stream. The stream itself reads its checkpoint and loses nothing.",
    fix=broker_setting("offsets.retention.minutes={value}"),
)
def offsets_retention(broker: BrokerFacts, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare offsets.retention.minutes with the retention that the stream needs."""
    if requirements.offsets_group == "":
        return None
    kept, wanted = broker.settings.number("offsets.retention.minutes") * 60.0, requirements.retention_needed
    if kept >= wanted:
        return None
    return Broken(
        f"offsets kept for {format_duration(kept)}, {format_duration(wanted)} needed", {"value": math.ceil(wanted / 60)}
    )


ON_TOPICS: tuple[Check[Topic], ...] = (
    retention_time,
    retention_size,
    local_retention,
    compaction,
    tombstones,
)
ON_BROKERS: tuple[Check[BrokerFacts], ...] = (offsets_retention,)
