"""For each check of the audit: facts that break it, what it finds, and the command that fixes it."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_stream_provider.audit import Requirements
from airflow_stream_provider.audit.kafka.facts import Facts, Topic
from airflow_stream_provider.kafka.cluster_requests import LogFolder, Quorum, Voter
from tests.support.audited import GIB, NEEDS, broker, facts, partition, topic

AT = "--bootstrap-server kafka:9092"
SET = f"kafka-configs.sh {AT} --alter --entity-type topics --entity-name orders --add-config"


def of(*partitions: Any, **settings: Any) -> Facts:
    return facts(topics=(replace(topic(**settings), partitions=partitions),))


def six(**first: Any) -> Facts:
    return of(partition(0, **first), *(partition(n) for n in range(1, 6)))


def every(**changed: str) -> Facts:
    return facts(brokers=tuple(broker(n, **changed) for n in (1, 2, 3)))


def producer(**declared: Any) -> Requirements:
    return replace(NEEDS, producer={**(NEEDS.producer or {}), **{k.replace("_", "."): v for k, v in declared.items()}})


@dataclass(frozen=True)
class Case:
    """Facts that break one check, and those in `besides`."""

    check: str
    found: str
    fix: str
    facts: Facts = field(default_factory=facts)
    requirements: Requirements = NEEDS
    besides: tuple[str, ...] = ()


def plan(brokers: str, copies: int = 3) -> str:
    topics = shlex.quote(json.dumps({"topics": [{"topic": "orders"}], "version": 1}, separators=(",", ":")))
    tool = f"kafka-reassign-partitions.sh {AT} --topics-to-move-json-file /dev/stdin --broker-list {brokers} --generate"
    return f"printf %s {topics} | {tool}  # then change the plan to {copies} replicas"


def restart(setting: str) -> str:
    return f"{setting}  # in every broker's server.properties, or in the configuration of the managed cluster"


WAIT = f"kafka-topics.sh {AT} --describe --topic orders"
NO_INTERNAL = (
    Topic("__consumer_offsets", problem="-", missing=True),
    Topic("__transaction_state", problem="-", missing=True),
)
TWO_BROKERS = facts(brokers=(broker(1), broker(2), replace(broker(3), fenced=True)))

CASES = [
    Case(
        "topic-readable",
        "There is no such topic",
        f"kafka-topics.sh {AT} --create --topic payments --replication-factor 3 --config min.insync.replicas=2",
        facts(topics=(topic(), Topic("payments", problem="There is no topic payments.", missing=True))),
    ),
    Case(
        "single-replica",
        "partition 0: one replica",
        plan("1,2,3"),
        six(replicas=(2,), in_sync=(2,)),
    ),
    Case(
        "replication-factor",
        "partition 0: two replicas",
        plan("1,2,3"),
        six(replicas=(2, 3), in_sync=(2, 3)),
        besides=("min-insync-room",),
    ),
    Case(
        "min-insync",
        "min.insync.replicas is 1",
        f"{SET} min.insync.replicas=2",
        of(*(partition(n) for n in range(6)), min_insync_replicas="1"),
    ),
    Case(
        "min-insync-room",
        "min.insync.replicas is 3 of 3",
        f"{SET} min.insync.replicas=2",
        of(*(partition(n) for n in range(6)), min_insync_replicas="3"),
    ),
    Case(
        "unclean-election",
        "is true",
        f"{SET} unclean.leader.election.enable=false",
        facts(topics=(topic(unclean_leader_election_enable="true"),)),
    ),
    Case(
        "replica-racks",
        "replicas share a rack while another rack has none",
        plan("1,2,3,4"),
        facts(brokers=(broker(1), broker(2), replace(broker(3), rack="zone-2"), broker(4))),
    ),
    Case(
        "offline-partitions",
        "partition 0: no leader",
        f"{WAIT} --unavailable-partitions  # until it lists none: start brokers 1,2,3",
        six(leader=-1),
    ),
    Case(
        "below-min-insync",
        "fewer than 2 replicas in sync",
        f"{WAIT} --under-min-isr-partitions  # until it lists none: start brokers 2,3",
        six(in_sync=(1,)),
        besides=("under-replicated",),
    ),
    Case(
        "at-min-insync",
        "only 2 replicas in sync",
        f"{WAIT} --at-min-isr-partitions  # until it lists none: start brokers 3",
        six(in_sync=(1, 2)),
        besides=("under-replicated",),
    ),
    Case(
        "under-replicated",
        "replicas that are not in sync",
        f"{WAIT} --under-replicated-partitions  # until it lists none: start brokers 4",
        six(replicas=(1, 2, 3, 4), in_sync=(1, 2, 3)),
        besides=("enough-brokers",),
    ),
    Case(
        "offline-replicas",
        "replicas offline",
        f"{WAIT} --under-replicated-partitions  # until it lists none: start brokers 3",
        six(offline=(3,)),
    ),
    Case(
        "eligible-leaders",
        "eligible leaders",
        f"{WAIT} --under-min-isr-partitions  # until it lists none: start brokers 2",
        six(lost_leaders=(2,)),
    ),
    Case(
        "enough-brokers",
        "2 of 3 brokers are live",
        f"kafka-broker-api-versions.sh {AT}  # lists live brokers; add or start some until there are 3",
        TWO_BROKERS,
        besides=("fenced-brokers",),
    ),
    Case(
        "fenced-brokers",
        "fenced: 3",
        f"kafka-cluster.sh list-endpoints {AT} --include-fenced-brokers  # then start brokers 3",
        TWO_BROKERS,
        besides=("enough-brokers",),
    ),
    Case(
        "quorum",
        "2 controllers; not up to date: 2",
        f"kafka-metadata-quorum.sh {AT} describe --replication  # then start or add controllers",
        facts(quorum=Quorum(1, (Voter(1, 0.0), Voter(2, 60.0)))),
    ),
    Case(
        "disk-headroom",
        "/data: 10.0% of 100 GiB usable",
        f"kafka-log-dirs.sh {AT} --describe --broker-list 2  # then give the broker more or other disks",
        facts(brokers=(broker(1), replace(broker(2), folders=(LogFolder("/data", 100 * GIB, 10 * GIB),)), broker(3))),
    ),
    Case(
        "retention-time",
        "kept for 1 d, 1.04 d needed",
        f"{SET} retention.ms=90000000",
        facts(topics=(topic(retention_ms="86400000"),)),
    ),
    Case(
        "retention-size",
        "partitions 0, 1, 2, 3, 4, 5: 36000000 bytes last 10 h, 1.04 d needed",
        f"{SET} retention.bytes=-1",
        facts(topics=(topic(retention_bytes="36000000"),)),
    ),
    Case(
        "local-retention",
        "local for 1 h, 1.04 d needed",
        f"{SET} local.retention.ms=90000000",
        facts(topics=(topic(remote_storage_enable="true", local_retention_ms="3600000"),)),
    ),
    Case(
        "compaction",
        "cleanup.policy is compact",
        f"{SET} cleanup.policy=delete",
        facts(topics=(topic(cleanup_policy="compact", delete_retention_ms="90000000"),)),
    ),
    Case(
        "tombstones",
        "deletions kept for 1 d, 1.04 d needed",
        f"{SET} delete.retention.ms=90000000",
        facts(topics=(topic(cleanup_policy="compact"),)),
        replace(NEEDS, compacted=True),
    ),
    Case(
        "offsets-retention",
        "offsets kept for 1 d, 1.04 d needed",
        restart("offsets.retention.minutes=1500"),
        every(offsets_retention_minutes="1440"),
    ),
    Case(
        "message-size",
        "max.request.size 2000000",
        f"{SET} max.message.bytes=2000012",
        requirements=producer(max_request_size=2_000_000),
    ),
    Case(
        "replica-fetch-size",
        "1000 bytes are fetched",
        restart("replica.fetch.max.bytes=1048588"),
        every(replica_fetch_max_bytes="1000"),
    ),
    Case(
        "timestamps-future",
        "timestamps may be 1 d ahead",
        f"{SET} message.timestamp.after.max.ms=3600000",
        facts(topics=(topic(message_timestamp_after_max_ms="86400000"),)),
    ),
    Case(
        "open-transactions",
        "partition 0: a transaction",
        f"kafka-transactions.sh {AT} abort --topic orders --partition 0 --start-offset 7",
        six(held=7),
    ),
    Case(
        "transaction-timeout",
        "transactions may be open for 900 s, producers ask for 1 h",
        restart("transaction.max.timeout.ms=3600000"),
        requirements=producer(transactional_id="flink", transaction_timeout_ms=3_600_000),
    ),
    Case(
        "broker-racks",
        "broker.rack is not set",
        restart("broker.rack=RACK"),
        facts(brokers=(broker(1), broker(2), replace(broker(3), rack=None))),
        besides=("replica-racks",),
    ),
    Case(
        "auto-create",
        "is true",
        restart("auto.create.topics.enable=false"),
        every(auto_create_topics_enable="true"),
    ),
    Case(
        "default-replication",
        "is 1",
        restart("default.replication.factor=3"),
        every(default_replication_factor="1"),
    ),
    Case(
        "default-min-insync",
        "is 1",
        f"kafka-configs.sh {AT} --alter --entity-type brokers --entity-default --add-config min.insync.replicas=2",
        every(min_insync_replicas="1"),
    ),
    Case(
        "consumer-offsets-topic",
        "offsets.topic.replication.factor is 1",
        restart("offsets.topic.replication.factor=3"),
        replace(every(offsets_topic_replication_factor="1"), internal=NO_INTERNAL),
    ),
    Case(
        "transaction-state-topic",
        "transaction.state.log.min.isr is 1",
        restart("transaction.state.log.replication.factor=3 transaction.state.log.min.isr=2"),
        replace(every(transaction_state_log_min_isr="1"), internal=NO_INTERNAL),
    ),
    Case("producer-acks", "acks is 1", "acks=all", requirements=producer(acks=1)),
    Case(
        "producer-idempotence",
        "is false",
        "enable.idempotence=true",
        requirements=producer(enable_idempotence=False),
        besides=("producer-in-flight",),
    ),
    Case("producer-retries", "retries is 0", "delivery.timeout.ms=120000", requirements=producer(retries=0)),
    Case(
        "producer-timeouts",
        "delivery.timeout.ms is 60000, linger.ms 40000 and request.timeout.ms 30000",
        "delivery.timeout.ms=70000",
        requirements=producer(delivery_timeout_ms=60_000, linger_ms=40_000),
    ),
    Case(
        "producer-in-flight",
        "is 6",
        "max.in.flight.requests.per.connection=5",
        requirements=producer(max_in_flight_requests_per_connection=6),
    ),
    Case(
        "source-data-loss",
        "is false",
        '.option("failOnDataLoss", "true")',
        requirements=replace(NEEDS, source={"failondataloss": "False", "startingOffsets": "earliest"}),
    ),
    Case(
        "sink-acks",
        "kafka.acks is 1",
        '.option("kafka.acks", "all")',
        requirements=replace(NEEDS, sink={"kafka.acks": "1"}),
    ),
]
