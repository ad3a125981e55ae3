"""Check that Kafka keeps records and offsets until a stopped stream is back and has caught up."""

from __future__ import annotations

import math

from airflow_stream_provider.audit.check import BROKERS, TOPICS, Broken, Check, Severity, check
from airflow_stream_provider.audit.facts import (
    BrokerFacts,
    Facts,
    NotVerifiable,
    Partition,
    Requirements,
    Topic,
    format_duration,
    partition_numbers,
)
from airflow_stream_provider.audit.fix import broker_file, topic_setting


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
    facts.require_field("size")
    facts.require_field("oldest")
    kept = {each.number: limit / rate for each in topic.partitions if (rate := _bytes_per_second(each, facts.at))}
    if not kept:
        raise NotVerifiable(
            f"retention.bytes is {limit}; for how long that is enough is not known before there are records."
        )
    wanted = requirements.retention_needed
    bad = [partition for partition in topic.partitions if kept.get(partition.number, math.inf) < wanted]
    least = min(kept.values())
    return (
        Broken(
            f"{partition_numbers(bad)}: {limit} bytes last {format_duration(least)}, {format_duration(wanted)} needed"
        )
        if bad
        else None
    )


def _bytes_per_second(partition: Partition, now: float) -> float | None:
    if not partition.size or partition.oldest is None or partition.oldest >= now:
        return None
    return partition.size / (now - partition.oldest)


@check(
    "retention-observed",
    Severity.HIGH,
    TOPICS,
    wanted="where records have been deleted, the oldest one left is as old as the longest planned outage and the time "
    "to catch up",
    why="Kafka may keep less than the settings promise, because of a limit in bytes, timestamps in the past or "
    "kafka-delete-records.sh.",
    fix=topic_setting("retention.ms", "{value},retention.bytes=-1"),
)
def retention_observed(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare the age of the oldest record with the needed retention, in logs that have lost their beginning."""
    facts.require_field("start")
    facts.require_field("oldest")
    ages = {each.number: facts.at - each.oldest for each in topic.partitions if each.start and each.oldest is not None}
    wanted = requirements.retention_needed
    bad = [partition for partition in topic.partitions if ages.get(partition.number, math.inf) < wanted]
    if not bad:
        return None
    oldest = format_duration(max(0.0, min(ages.values())))
    found = f"{partition_numbers(bad)}: records have been deleted, and the oldest left is {oldest} old"
    # Never less than the present value, which would delete more records.
    kept = topic.settings.seconds("retention.ms")
    return Broken(found, {"value": -1 if math.isinf(kept) else _milliseconds(max(kept, wanted))})


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
    Severity.HIGH,
    BROKERS,
    wanted="offsets.retention.minutes of the longest planned outage and the time to catch up, or more",
    why="Kafka drops the offsets of a group without members this long after its last commit. The group that a stream "
    "commits to for monitoring has no members.",
    fix=broker_file("offsets.retention.minutes"),
)
def offsets_retention(broker: BrokerFacts, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare offsets.retention.minutes with the retention that the stream needs."""
    kept, wanted = broker.settings.number("offsets.retention.minutes") * 60.0, requirements.retention_needed
    if kept >= wanted:
        return None
    return Broken(
        f"offsets kept for {format_duration(kept)}, {format_duration(wanted)} needed", {"value": math.ceil(wanted / 60)}
    )


ON_TOPICS: tuple[Check[Topic], ...] = (
    retention_time,
    retention_size,
    retention_observed,
    local_retention,
    compaction,
    tombstones,
)
ON_BROKERS: tuple[Check[BrokerFacts], ...] = (offsets_retention,)
