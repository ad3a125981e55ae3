"""Check the present state of the partitions: those without a leader, and those with missing replicas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_stream_provider.audit.check import ALL_TOPICS, Broken, Check, Severity, check
from airflow_stream_provider.audit.facts import Facts, Partition, Requirements, Topic, partition_numbers


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
