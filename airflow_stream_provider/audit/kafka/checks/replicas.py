"""Checks of the replicas and of what has them: that the loss of a broker loses no record, and what is down now."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from airflow_stream_provider.audit.check import Broken, Check, NotRead, NotVerifiable, Severity, broken_if
from airflow_stream_provider.audit.kafka.commands import (
    ALL_TOPICS,
    BROKERS,
    CLUSTER,
    COPIES,
    NAMED_TOPICS,
    REASSIGN,
    Look,
    flag_off,
    reassigned,
    topic_setting,
)
from airflow_stream_provider.audit.kafka.facts import (
    BrokerFacts,
    Facts,
    Partition,
    Requirements,
    Topic,
    partition_numbers,
)

# Amazon MSK asks for an alarm when 85 % of a broker's disk are in use.
USABLE_SHARE = 0.15
VOTERS = 3
# A healthy voter fetches the metadata log every half second, and calls an election after two seconds without it.
BEHIND_SECONDS = 10.0


def _readable(topic: Topic, *_: object) -> Broken | None:
    if topic.problem and not topic.missing:
        raise NotRead(topic.problem)
    return broken_if(topic.missing, "There is no such topic")


def _more_copies(found: str, topic: Topic, facts: Facts, fix: str = "") -> Broken:
    live = len(facts.live)
    if live < COPIES:
        fix = f"# first add brokers: {live} are live, {COPIES} replicas need {COPIES}; then audit again"
        return Broken(found, fix=fix)
    return Broken(found, reassigned(topic, facts.live), fix)


def _copies(bad: Callable[[int], bool], found: str) -> Look:
    def look(topic: Topic, facts: Facts, _: Requirements) -> Broken | None:
        few = [each for each in topic.partitions if bad(len(each.replicas))]
        return _more_copies(f"{partition_numbers(few)}: {found}", topic, facts) if few else None

    return look


def _min_insync(topic: Topic, *_: object) -> Broken | None:
    value, copies = topic.settings.number("min.insync.replicas"), topic.copies
    found = f"min.insync.replicas is {value}"
    if copies >= COPIES:
        return broken_if(value < 2, found)
    # With two replicas, 2 stops all writes when one broker restarts; with one, at once.
    first = f"# first give every partition {COPIES} replicas: with {copies}, 2 would stop writes; then audit again"
    return broken_if(value < 2, f"{found}, with {copies} replicas", first)


def _min_insync_room(topic: Topic, facts: Facts, _: Requirements) -> Broken | None:
    value, copies = topic.settings.number("min.insync.replicas"), topic.copies
    if copies < 2 or value < copies:  # `single-replica` reports partitions with one
        return None
    found = f"min.insync.replicas is {value} of {copies} replicas"
    # With two replicas, lowering min.insync.replicas to 1 would break `min-insync`; the fix is a third replica.
    return Broken(found, {"value": copies - 1}) if copies >= COPIES else _more_copies(found, topic, facts, REASSIGN)


def _racks(topic: Topic, facts: Facts, _: Requirements) -> Broken | None:
    racks = {broker.id: broker.rack for broker in facts.brokers}
    names = {broker.rack for broker in facts.live}
    if None in names:
        raise NotVerifiable("Not every broker has a broker.rack, so it is not known which of them fail together.")
    bad = [
        partition
        for partition in topic.partitions
        if len({racks.get(replica) for replica in partition.replicas}) < min(len(partition.replicas), len(names))
    ]
    found = f"{partition_numbers(bad)}: replicas share a rack while another rack has none"
    return Broken(found, reassigned(topic, facts.live, topic.copies)) if bad else None


def _start(flag: str) -> str:
    # No command can restore a replica; only its broker has the data.
    show = f"kafka-topics.sh {{server}} --describe --topic {{pattern}} {flag}"
    return f"{show}  # until it lists none: start brokers {{brokers}}"


def _not_in_sync(partition: Partition) -> Iterable[int]:
    return set(partition.replicas) - set(partition.in_sync)


def _down(
    topic: Topic, bad: Callable[[Partition], object], found: str, missing: Callable[[Partition], Iterable[int]]
) -> Broken | None:
    partitions = [each for each in topic.partitions if bad(each)]
    brokers = sorted({broker for each in partitions for broker in missing(each)})
    return broken_if(partitions, f"{partition_numbers(partitions)}: {found}", brokers=",".join(map(str, brokers)))


def _below_min_insync(topic: Topic, *_: object) -> Broken | None:
    wanted = topic.settings.number("min.insync.replicas")

    def refuses(partition: Partition) -> bool:
        # With fewer replicas than min.insync.replicas, brokers want all of them (Kafka's Partition.effectiveMinIsr).
        return partition.leader >= 0 and len(partition.in_sync) < min(wanted, len(partition.replicas))

    return _down(topic, refuses, f"fewer than {wanted} replicas in sync, so writes are refused", _not_in_sync)


def _at_min_insync(topic: Topic, *_: object) -> Broken | None:
    wanted = topic.settings.number("min.insync.replicas")

    def at_the_limit(partition: Partition) -> bool:
        # If all its replicas are in sync, `min-insync-room` reports the cause.
        return partition.leader >= 0 and wanted == len(partition.in_sync) < len(partition.replicas)

    return _down(topic, at_the_limit, f"only {wanted} replicas in sync", _not_in_sync)


def _lost_leaders(partition: Partition) -> Iterable[int]:
    return partition.lost_leaders or ()


def _eligible_leaders(topic: Topic, facts: Facts, _: Requirements) -> Broken | None:
    facts.require_field("lost_leaders")
    return _down(topic, _lost_leaders, "eligible leaders out of sync", _lost_leaders)


def _enough_brokers(facts: Facts, *_: object) -> Broken | None:
    copies = [len(partition.replicas) for topic in facts.topics for partition in topic.partitions]
    wanted, found = max([COPIES, *copies]), len(facts.live)
    return broken_if(found < wanted, f"{found} of {wanted} brokers are live", brokers=wanted)


def _fenced(facts: Facts, *_: object) -> Broken | None:
    if not facts.fenced_listed:
        raise NotVerifiable("Brokers before Kafka 4.0 do not list those that are fenced.")
    brokers = ",".join(str(each) for each in sorted(broker.id for broker in facts.brokers if broker.fenced))
    return broken_if(brokers, f"fenced: {brokers}", brokers=brokers)


def _quorum(facts: Facts, *_: object) -> Broken | None:
    facts.require_field("quorum")
    if facts.quorum is None:
        raise NotVerifiable("The brokers tell of no quorum of controllers: they use ZooKeeper, or Kafka before 3.3.")
    voters = facts.quorum.voters
    found = [f"{len(voters)} controller{'s' if len(voters) > 1 else ''}"] if len(voters) < VOTERS else []
    others = [voter for voter in voters if voter.id != facts.quorum.leader]
    bad = [str(voter.id) for voter in others if voter.behind is None or voter.behind > BEHIND_SECONDS]
    found += [f"not up to date: {', '.join(bad)}"] if bad else []
    return broken_if(found, "; ".join(found))


def _disks(broker: BrokerFacts, *_: object) -> Broken | None:
    if broker.folders_problem:
        raise NotRead(broker.folders_problem)
    found = [folder.problem for folder in broker.folders if folder.problem]
    sized = [(each.path, each.usable, each.total) for each in broker.folders if not each.problem]
    for path, usable, total in sized:
        if total is not None and usable is not None and usable < USABLE_SHARE * total:
            found.append(f"{path}: {usable / total:.1%} of {total / 2**30:.3g} GiB usable")
    if not found and any(total is None for _, _, total in sized):
        raise NotVerifiable("Brokers before Kafka 3.3 do not tell how large their disks are.")
    return broken_if(found, "; ".join(found))


CHECKS = (
    Check(
        "topic-readable",
        Severity.CRITICAL,
        NAMED_TOPICS,
        "the topic exists and may be described",
        "The topic could not be audited: no other check of the report covers it.",
        "kafka-topics.sh {server} --create --topic {topic} --replication-factor 3 --config min.insync.replicas=2",
        _readable,
    ),
    Check(
        "single-replica",
        Severity.CRITICAL,
        ALL_TOPICS,
        "more than one replica of every partition",
        "A failed disk loses the only copy, and every restart of its broker stops the partition (Amazon MSK's best "
        "practices).",
        REASSIGN,
        _copies(lambda count: count == 1, "one replica"),
    ),
    Check(
        "replication-factor",
        Severity.HIGH,
        ALL_TOPICS,
        f"{COPIES} replicas or more of every partition",
        "With two, maintenance of one broker leaves a single replica, or stops writes (Amazon MSK and Confluent "
        "Cloud both ask for three).",
        REASSIGN,
        _copies(lambda count: 1 < count < COPIES, "two replicas"),
    ),
    Check(
        "min-insync",
        Severity.HIGH,
        ALL_TOPICS,
        "min.insync.replicas of 2 or more",
        "With 1, a write with acks=all is acknowledged when a single broker has it, and is lost with that broker "
        "(Kafka's topic configuration: 3 replicas, min.insync.replicas 2, acks=all).",
        topic_setting("min.insync.replicas", "2"),
        _min_insync,
    ),
    Check(
        "min-insync-room",
        Severity.HIGH,
        ALL_TOPICS,
        "min.insync.replicas below the number of replicas",
        "If they are equal, the restart of one broker stops all writes with acks=all (Amazon MSK: at most "
        "replicas - 1).",
        topic_setting("min.insync.replicas"),
        _min_insync_room,
    ),
    Check(
        "unclean-election",
        Severity.HIGH,
        ALL_TOPICS,
        "unclean.leader.election.enable=false",
        "A replica that is out of sync may become the leader, and the records that it lacks are lost (Kafka's topic "
        "configuration).",
        topic_setting("unclean.leader.election.enable", "false"),
        flag_off("unclean.leader.election.enable"),
    ),
    Check(
        "replica-racks",
        Severity.MEDIUM,
        ALL_TOPICS,
        "the replicas of every partition spread over as many racks (zones) as possible",
        "A rack or zone may fail as a whole, with all replicas in it (Amazon MSK spreads brokers over zones for this).",
        REASSIGN,
        _racks,
    ),
    Check(
        "offline-partitions",
        Severity.CRITICAL,
        ALL_TOPICS,
        "a leader for every partition",
        "A partition without a leader can be neither read nor written.",
        _start("--unavailable-partitions"),
        lambda topic, *_: _down(topic, lambda each: each.leader < 0, "no leader", lambda each: each.replicas),
    ),
    Check(
        "below-min-insync",
        Severity.CRITICAL,
        ALL_TOPICS,
        "at least min.insync.replicas replicas in sync",
        "Brokers refuse every write with acks=all until enough replicas are in sync.",
        _start("--under-min-isr-partitions"),
        _below_min_insync,
    ),
    Check(
        "at-min-insync",
        Severity.HIGH,
        ALL_TOPICS,
        "more replicas in sync than min.insync.replicas",
        "After one more failure brokers refuse writes (KIP-351).",
        _start("--at-min-isr-partitions"),
        _at_min_insync,
    ),
    Check(
        "under-replicated",
        Severity.MEDIUM,
        ALL_TOPICS,
        "all replicas in sync",
        "A replica that is behind does not protect the newest records.",
        _start("--under-replicated-partitions"),
        lambda topic, *_: _down(topic, _not_in_sync, "replicas that are not in sync", _not_in_sync),
    ),
    Check(
        "offline-replicas",
        Severity.MEDIUM,
        ALL_TOPICS,
        "no replica offline",
        "Its broker is down or its disk has failed, so it does not catch up by itself.",
        _start("--under-replicated-partitions"),
        lambda topic, *_: _down(topic, lambda each: each.offline, "replicas offline", lambda each: each.offline),
    ),
    Check(
        "eligible-leaders",
        Severity.INFO,
        ALL_TOPICS,
        "no eligible leader replicas, which are out of sync",
        "The partition is below min.insync.replicas, or was so when its last leader failed. These replicas still have "
        "every acknowledged record (KIP-966).",
        _start("--under-min-isr-partitions"),
        _eligible_leaders,
    ),
    Check(
        "enough-brokers",
        Severity.MEDIUM,
        CLUSTER,
        f"{COPIES} live brokers, and at least as many as a partition has replicas",
        "With fewer there is no broker for the third replica, nor for one that has to move.",
        "kafka-broker-api-versions.sh {server}  # lists live brokers; add or start some until there are {brokers}",
        _enough_brokers,
    ),
    Check(
        "fenced-brokers",
        Severity.MEDIUM,
        CLUSTER,
        "no registered broker is fenced",
        "A fenced broker serves no clients: it is down, starting, or cut off from the controllers.",
        "kafka-cluster.sh list-endpoints {cluster} --include-fenced-brokers  # then start brokers {brokers}",
        _fenced,
    ),
    Check(
        "quorum",
        Severity.HIGH,
        CLUSTER,
        f"{VOTERS} controllers or more, all of them up to date",
        "Only a majority of the controllers can elect leaders. If it is lost, the next broker that fails takes its "
        "partitions with it; if the disks of a majority are lost, the cluster's metadata is lost (Kafka's KRaft guide: "
        "three or five controllers).",
        "kafka-metadata-quorum.sh {server} describe --replication  # then start or add controllers",
        _quorum,
    ),
    Check(
        "disk-headroom",
        Severity.HIGH,
        BROKERS,
        f"{USABLE_SHARE:.0%} usable space on the volume of each log folder, and no failed folder",
        "A broker whose disk is full stops, and its partitions lose a replica; the disks of a cluster fill at about "
        "the same time, and fastest after retention was raised for an outage (Amazon MSK: alarm at 85 % in use).",
        "kafka-log-dirs.sh {server} --describe --broker-list {broker}  # then give the broker more or other disks",
        _disks,
    ),
)
