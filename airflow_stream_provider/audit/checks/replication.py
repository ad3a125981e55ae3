"""Check that records survive the loss of a broker: number of replicas, and when a write is acknowledged."""

from __future__ import annotations

from airflow_stream_provider.audit.check import ALL_TOPICS, NAMED_TOPICS, Broken, Check, Severity, check
from airflow_stream_provider.audit.facts import Facts, NotRead, NotVerifiable, Requirements, Topic, partition_numbers
from airflow_stream_provider.audit.fix import COPIES, REASSIGN, reassigned, topic_setting


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
