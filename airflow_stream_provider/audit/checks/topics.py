"""Check that Kafka keeps records: over the loss of a broker, and until a stopped stream has caught up."""

from __future__ import annotations

import math

from airflow_stream_provider.audit.check import (
    ALL_TOPICS,
    BROKERS,
    COPIES,
    NAMED_TOPICS,
    REASSIGN,
    TOPICS,
    Broken,
    Check,
    Severity,
    broker_setting,
    check,
    reassigned,
    topic_setting,
)
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


@check(
    "topic-readable",
    Severity.CRITICAL,
    NAMED_TOPICS,
    wanted="the topic exists and may be described",
    why="The topic could not be audited: no other check of the report covers it.",
    fix="kafka-topics.sh {server} --create --topic {topic} --replication-factor 3 --config min.insync.replicas=2",
)
def topic_readable(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Find topics that do not exist; a topic that may not be described counts as not read."""
    if topic.missing:
        return Broken("There is no such topic")
    if topic.problem:
        raise NotRead(topic.problem)
    return None


def _more_copies(found: str, topic: Topic, facts: Facts) -> Broken:
    live = len(facts.live)
    if live < COPIES:
        return Broken(
            found, fix=f"# first add brokers: {live} are live, {COPIES} replicas need {COPIES}; then audit again"
        )
    return Broken(found, reassigned(topic, facts.live))


@check(
    "single-replica",
    Severity.CRITICAL,
    ALL_TOPICS,
    wanted="more than one replica of every partition",
    why="A failed disk loses the only copy, and every restart of its broker stops the partition (Amazon MSK's best "
    "practices).",
    fix=REASSIGN,
)
def single_replica(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Find partitions with one replica."""
    bad = [partition for partition in topic.partitions if len(partition.replicas) == 1]
    return _more_copies(f"{partition_numbers(bad)}: one replica", topic, facts) if bad else None


@check(
    "replication-factor",
    Severity.HIGH,
    ALL_TOPICS,
    wanted=f"{COPIES} replicas or more of every partition",
    why="With two, maintenance of one broker leaves a single replica, or stops writes (Amazon MSK and Confluent "
    "Cloud both ask for three).",
    fix=REASSIGN,
)
def replication_factor(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Find partitions with two replicas; `single-replica` reports those with one."""
    bad = [partition for partition in topic.partitions if 1 < len(partition.replicas) < COPIES]
    return _more_copies(f"{partition_numbers(bad)}: two replicas", topic, facts) if bad else None


@check(
    "min-insync",
    Severity.HIGH,
    ALL_TOPICS,
    wanted="min.insync.replicas of 2 or more",
    why="With 1, a write with acks=all is acknowledged when a single broker has it, and is lost with that broker "
    "(Kafka's topic configuration: 3 replicas, min.insync.replicas 2, acks=all).",
    fix=topic_setting("min.insync.replicas", "2"),
)
def min_insync(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare min.insync.replicas with 2."""
    value, copies = topic.settings.number("min.insync.replicas"), topic.copies
    if value >= 2:
        return None
    found = f"min.insync.replicas is {value}"
    if copies >= COPIES:
        return Broken(found)
    # With two replicas, 2 stops all writes when one broker restarts; with one, at once.
    first = f"# first give every partition {COPIES} replicas: with {copies}, 2 would stop writes; then audit again"
    return Broken(f"{found}, with {copies} replicas", fix=first)


@check(
    "min-insync-room",
    Severity.HIGH,
    ALL_TOPICS,
    wanted="min.insync.replicas below the number of replicas",
    why="If they are equal, the restart of one broker stops all writes with acks=all (Amazon MSK: at most "
    "replicas - 1).",
    fix=topic_setting("min.insync.replicas"),
)
def min_insync_room(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare min.insync.replicas with the number of replicas; `single-replica` reports partitions with one."""
    value, copies = topic.settings.number("min.insync.replicas"), topic.copies
    if copies < 2 or value < copies:
        return None
    found = f"min.insync.replicas is {value} of {copies} replicas"
    return Broken(found, {"value": copies - 1}) if copies >= COPIES else _fewer(found, topic, facts)


def _fewer(found: str, topic: Topic, facts: Facts) -> Broken:
    # With two replicas, lowering min.insync.replicas to 1 would break `min-insync`; the fix is a third replica.
    broken = _more_copies(found, topic, facts)
    return Broken(broken.found, broken.values, broken.fix or REASSIGN)


@check(
    "unclean-election",
    Severity.HIGH,
    ALL_TOPICS,
    wanted="unclean.leader.election.enable=false",
    why="A replica that is out of sync may become the leader, and the records that it lacks are lost (Kafka's topic "
    "configuration).",
    fix=topic_setting("unclean.leader.election.enable", "false"),
)
def unclean_election(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Check unclean.leader.election.enable."""
    on = topic.settings.flag("unclean.leader.election.enable")
    return Broken("unclean.leader.election.enable is true") if on else None


@check(
    "replica-racks",
    Severity.MEDIUM,
    ALL_TOPICS,
    wanted="the replicas of every partition spread over as many racks (zones) as possible",
    why="A rack or zone may fail as a whole, with all replicas in it (Amazon MSK spreads brokers over zones for this).",
    fix=REASSIGN,
)
def replica_racks(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Count the racks of each partition's replicas."""
    racks = {broker.id: broker.rack for broker in facts.brokers}
    names = {broker.rack for broker in facts.live}
    if None in names:
        raise NotVerifiable("Not every broker has a broker.rack, so it is not known which of them fail together.")
    bad = [
        partition
        for partition in topic.partitions
        if len({racks.get(replica) for replica in partition.replicas}) < min(len(partition.replicas), len(names))
    ]
    if not bad:
        return None
    values = reassigned(topic, facts.live, topic.copies)
    return Broken(f"{partition_numbers(bad)}: replicas share a rack while another rack has none", values)


CHECKS: tuple[Check[Topic], ...] = (
    topic_readable,
    single_replica,
    replication_factor,
    min_insync,
    min_insync_room,
    unclean_election,
    replica_racks,
)


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
