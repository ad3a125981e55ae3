"""Check the present state of the cluster: its brokers, disks and controllers, and its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_stream_provider.audit.check import ALL_TOPICS, BROKERS, CLUSTER, COPIES, Broken, Check, Severity, check
from airflow_stream_provider.audit.facts import (
    BrokerFacts,
    Facts,
    NotRead,
    NotVerifiable,
    Partition,
    Requirements,
    Topic,
    partition_numbers,
)
from airflow_stream_provider.kafka.cluster_requests import Quorum

# Amazon MSK asks for an alarm when 85 % of a broker's disk are in use.
USABLE_SHARE = 0.15
VOTERS = 3
# A healthy voter fetches the metadata log every half second, and calls an election after two seconds without it.
BEHIND_SECONDS = 10.0


@check(
    "enough-brokers",
    Severity.MEDIUM,
    CLUSTER,
    wanted=f"{COPIES} live brokers, and at least as many as a partition has replicas",
    why="With fewer there is no broker for the third replica, nor for one that has to move.",
    fix="kafka-broker-api-versions.sh {server}  # lists live brokers; add or start some until there are {brokers}",
)
def enough_brokers(facts: Facts, _: Facts, requirements: Requirements) -> Broken | None:
    """Count the live brokers."""
    copies = [len(partition.replicas) for topic in facts.topics for partition in topic.partitions]
    wanted = max([COPIES, *copies])
    found = len(facts.live)
    return Broken(f"{found} of {wanted} brokers are live", {"brokers": wanted}) if found < wanted else None


@check(
    "fenced-brokers",
    Severity.MEDIUM,
    CLUSTER,
    wanted="no registered broker is fenced",
    why="A fenced broker serves no clients: it is down, starting, or cut off from the controllers.",
    fix="kafka-cluster.sh list-endpoints {cluster} --include-fenced-brokers  # then start brokers {brokers}",
)
def fenced_brokers(facts: Facts, _: Facts, requirements: Requirements) -> Broken | None:
    """Find fenced brokers."""
    if not facts.fenced_listed:
        raise NotVerifiable("Brokers before Kafka 4.0 do not list those that are fenced.")
    bad = [broker.id for broker in facts.brokers if broker.fenced]
    brokers = ",".join(str(each) for each in sorted(bad))
    return Broken(f"fenced: {brokers}", {"brokers": brokers}) if bad else None


@check(
    "quorum",
    Severity.HIGH,
    CLUSTER,
    wanted=f"{VOTERS} controllers or more, all of them up to date",
    why="Only a majority of the controllers can elect leaders. If it is lost, the next broker that fails takes its "
    "partitions with it; if the disks of a majority are lost, the cluster's metadata is lost (Kafka's KRaft guide: "
    "three or five controllers).",
    fix="kafka-metadata-quorum.sh {server} describe --replication  # then start or add controllers",
)
def quorum(facts: Facts, _: Facts, requirements: Requirements) -> Broken | None:
    """Count the controllers, and find those that do not follow the active one."""
    facts.require_field("quorum")
    if facts.quorum is None:
        raise NotVerifiable("The brokers tell of no quorum of controllers: they use ZooKeeper, or Kafka before 3.3.")
    found = [*_few(facts.quorum), *_not_following(facts.quorum)]
    return Broken("; ".join(found)) if found else None


def _few(quorum: Quorum) -> list[str]:
    count = len(quorum.voters)
    return [f"{count} controller{'s' if count > 1 else ''}"] if count < VOTERS else []


def _not_following(quorum: Quorum) -> list[str]:
    others = [voter for voter in quorum.voters if voter.id != quorum.leader]
    bad = [voter.id for voter in others if voter.behind is None or voter.behind > BEHIND_SECONDS]
    return [f"not up to date: {', '.join(str(each) for each in bad)}"] if bad else []


@check(
    "disk-headroom",
    Severity.HIGH,
    BROKERS,
    wanted=f"{USABLE_SHARE:.0%} usable space on the volume of each log folder, and no failed folder",
    why="A broker whose disk is full stops, and its partitions lose a replica; the disks of a cluster fill at about "
    "the same time, and fastest after retention was raised for an outage (Amazon MSK: alarm at 85 % in use).",
    fix="kafka-log-dirs.sh {server} --describe --broker-list {broker}  # then give the broker more or other disks",
)
def disk_headroom(broker: BrokerFacts, facts: Facts, requirements: Requirements) -> Broken | None:
    """Compare the usable with the total bytes of each log folder's volume."""
    if broker.folders_problem:
        raise NotRead(broker.folders_problem)
    found = [folder.problem for folder in broker.folders if folder.problem]
    sized = [(each.path, each.usable, each.total) for each in broker.folders if not each.problem]
    for path, usable, total in sized:
        if total is not None and usable is not None and usable < USABLE_SHARE * total:
            found.append(f"{path}: {usable / total:.1%} of {total / 2**30:.3g} GiB usable")
    if found:
        return Broken("; ".join(found))
    if any(total is None for _, _, total in sized):
        raise NotVerifiable("Brokers before Kafka 3.3 do not tell how large their disks are.")
    return None


ON_THE_CLUSTER: tuple[Check[Facts], ...] = (enough_brokers, fenced_brokers, quorum)
ON_BROKERS: tuple[Check[BrokerFacts], ...] = (disk_headroom,)


def _start(flag: str) -> str:
    # No command can restore a replica; only its broker has the data.
    show = f"kafka-topics.sh {{server}} --describe --topic {{pattern}} {flag}"
    return f"{show}  # until it lists none: start brokers {{brokers}}"


def _short(partitions: Sequence[Partition], found: str) -> Broken | None:
    missing = {broker for partition in partitions for broker in set(partition.replicas) - set(partition.in_sync)}
    return _of(partitions, found, missing)


def _of(partitions: Sequence[Partition], found: str, brokers: Iterable[int]) -> Broken | None:
    if not partitions:
        return None
    return Broken(
        f"{partition_numbers(partitions)}: {found}", {"brokers": ",".join(str(each) for each in sorted(set(brokers)))}
    )


@check(
    "offline-partitions",
    Severity.CRITICAL,
    ALL_TOPICS,
    wanted="a leader for every partition",
    why="A partition without a leader can be neither read nor written.",
    fix=_start("--unavailable-partitions"),
)
def offline_partitions(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Find partitions without a leader."""
    bad = [partition for partition in topic.partitions if partition.leader < 0]
    return _of(bad, "no leader", {broker for partition in bad for broker in partition.replicas})


@check(
    "below-min-insync",
    Severity.CRITICAL,
    ALL_TOPICS,
    wanted="at least min.insync.replicas replicas in sync",
    why="Brokers refuse every write with acks=all until enough replicas are in sync.",
    fix=_start("--under-min-isr-partitions"),
)
def below_min_insync(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Find partitions that refuse writes. Those without a leader are reported by `offline-partitions`."""
    wanted = topic.settings.number("min.insync.replicas")
    # With fewer replicas than min.insync.replicas, brokers want all of them (Kafka's Partition.effectiveMinIsr).
    bad = [
        each for each in topic.partitions if each.leader >= 0 and len(each.in_sync) < min(wanted, len(each.replicas))
    ]
    return _short(bad, f"fewer than {wanted} replicas in sync, so writes are refused")


@check(
    "at-min-insync",
    Severity.HIGH,
    ALL_TOPICS,
    wanted="more replicas in sync than min.insync.replicas",
    why="After one more failure brokers refuse writes (KIP-351).",
    fix=_start("--at-min-isr-partitions"),
)
def at_min_insync(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Find partitions one failure away. If all their replicas are in sync, `min-insync-room` reports the cause."""
    wanted = topic.settings.number("min.insync.replicas")
    bad = [
        each
        for each in topic.partitions
        if each.leader >= 0 and len(each.in_sync) == wanted and len(each.in_sync) < len(each.replicas)
    ]
    return _short(bad, f"only {wanted} replicas in sync")


@check(
    "under-replicated",
    Severity.MEDIUM,
    ALL_TOPICS,
    wanted="all replicas in sync",
    why="A replica that is behind does not protect the newest records.",
    fix=_start("--under-replicated-partitions"),
)
def under_replicated(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Find partitions with a replica that is not in sync."""
    bad = [partition for partition in topic.partitions if set(partition.replicas) - set(partition.in_sync)]
    return _short(bad, "replicas that are not in sync")


@check(
    "offline-replicas",
    Severity.MEDIUM,
    ALL_TOPICS,
    wanted="no replica offline",
    why="Its broker is down or its disk has failed, so it does not catch up by itself.",
    fix=_start("--under-replicated-partitions"),
)
def offline_replicas(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Find replicas on brokers that are down or whose disk failed."""
    bad = [partition for partition in topic.partitions if partition.offline]
    return _of(bad, "replicas offline", {broker for partition in bad for broker in partition.offline})


@check(
    "eligible-leaders",
    Severity.INFO,
    ALL_TOPICS,
    wanted="no eligible leader replicas, which are out of sync",
    why="The partition is below min.insync.replicas, or was so when its last leader failed. These replicas still have "
    "every acknowledged record (KIP-966).",
    fix=_start("--under-min-isr-partitions"),
)
def eligible_leaders(topic: Topic, facts: Facts, requirements: Requirements) -> Broken | None:
    """Find partitions with eligible leader replicas; a healthy partition has none."""
    facts.require_field("lost_leaders")
    bad = [partition for partition in topic.partitions if partition.lost_leaders]
    return _of(bad, "eligible leaders out of sync", {broker for each in bad for broker in each.lost_leaders or ()})


ON_TOPICS: tuple[Check[Topic], ...] = (
    offline_partitions,
    below_min_insync,
    at_min_insync,
    under_replicated,
    offline_replicas,
    eligible_leaders,
)
