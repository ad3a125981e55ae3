"""Check the present state of the cluster: its brokers, their disks, and its controllers."""

from __future__ import annotations

from airflow_stream_provider.audit.check import BROKERS, CLUSTER, Broken, Check, Severity, check
from airflow_stream_provider.audit.facts import BrokerFacts, Facts, NotRead, NotVerifiable, Requirements
from airflow_stream_provider.audit.fix import COPIES
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
