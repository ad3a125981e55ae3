"""For each check of the audit: facts that break it, what it finds, and the command that fixes it."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_stream_provider.audit import Requirements
from airflow_stream_provider.audit.facts import Facts, Topic
from tests.support.audited import NEEDS, broker, facts, partition, topic

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


def plan(*replicas: list[int]) -> str:
    rows = [{"topic": "orders", "partition": n, "replicas": each} for n, each in enumerate(replicas)]
    text = shlex.quote(json.dumps({"version": 1, "partitions": rows}, separators=(",", ":")))
    return f"printf %s {text} | kafka-reassign-partitions.sh {AT} --reassignment-json-file /dev/stdin --execute"


WAIT = f"kafka-topics.sh {AT} --describe --topic orders"
THREE = [[1, 2, 3]] * 5
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
        replace(NEEDS, executor_cores=1),
        besides=("partitions",),
    ),
    Case(
        "single-replica",
        "partition 0: one replica",
        plan([2, 1, 3], *THREE),
        six(replicas=(2,), in_sync=(2,)),
    ),
    Case(
        "replication-factor",
        "partition 0: two replicas",
        plan([2, 3, 1], *THREE),
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
        plan(*[[1, 2, 4]] * 6),
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
        "retention-time",
        "kept for 1 d, 1.04 d needed",
        f"{SET} retention.ms=90000000",
        facts(topics=(topic(retention_ms="86400000", message_timestamp_before_max_ms="1"),)),
    ),
    Case(
        "retention-size",
        "partitions 0, 1, 2, 3, 4, 5: 36000000 bytes last 10 h, 1.04 d needed",
        f"{SET} retention.bytes=-1",
        facts(topics=(topic(retention_bytes="36000000"),)),
    ),
    Case(
        "retention-observed",
        "partition 0: records have been deleted, and the oldest left is 1 h old",
        f"{SET} retention.ms=604800000,retention.bytes=-1",
        six(start=10),
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
        "echo offsets.retention.minutes=1500 >> server.properties  # of broker 1, then restart it",
        every(offsets_retention_minutes="1440"),
    ),
    Case(
        "message-size",
        "max.request.size 2000000",
        f"{SET} max.message.bytes=2000012",
        requirements=producer(max_request_size=2_000_000),
    ),
    Case(
        "fetch-size",
        "1048576 bytes are fetched, batches may have 2000000",
        '.option("kafka.max.partition.fetch.bytes", 2000000)',
        facts(topics=(topic(max_message_bytes="2000000"),)),
        besides=("replica-fetch-size",),
    ),
    Case(
        "replica-fetch-size",
        "1000 bytes are fetched",
        "echo replica.fetch.max.bytes=1048588 >> server.properties  # of broker 1, then restart it",
        every(replica_fetch_max_bytes="1000"),
    ),
    Case(
        "timestamps-past",
        "new records may be an unlimited time old, and are kept for 7 d",
        f"{SET} message.timestamp.before.max.ms=604800000",
        facts(topics=(topic(message_timestamp_before_max_ms=str(2**63 - 1)),)),
    ),
    Case(
        "timestamps-future",
        "timestamps may be 1 d ahead",
        f"{SET} message.timestamp.after.max.ms=3600000",
        facts(topics=(topic(message_timestamp_after_max_ms="86400000"),)),
    ),
    Case(
        "flush",
        "flush.messages is 1",
        f"{SET} flush.messages={2**63 - 1},flush.ms={2**63 - 1}",
        facts(topics=(topic(flush_messages="1"),)),
    ),
    Case(
        "open-transactions",
        "partition 0: a transaction",
        f"kafka-transactions.sh {AT} abort --topic orders --partition 0 --start-offset 7",
        six(held=7),
    ),
    Case(
        "transaction-timeout",
        "a transaction may be open for 1 h",
        "echo transaction.max.timeout.ms=900000 >> server.properties  # of broker 1, then restart it",
        every(transaction_max_timeout_ms="3600000"),
    ),
    Case(
        "broker-racks",
        "broker.rack is not set",
        "echo broker.rack=RACK >> server.properties  # of broker 3, then restart it",
        facts(brokers=(broker(1), broker(2), replace(broker(3), rack=None))),
        besides=("replica-racks",),
    ),
    Case(
        "auto-create",
        "is true",
        "echo auto.create.topics.enable=false >> server.properties  # of broker 1, then restart it",
        every(auto_create_topics_enable="true"),
    ),
    Case(
        "default-replication",
        "is 1",
        "echo default.replication.factor=3 >> server.properties",
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
        "echo offsets.topic.replication.factor=3 >> server.properties",
        replace(every(offsets_topic_replication_factor="1"), internal=NO_INTERNAL),
    ),
    Case(
        "transaction-state-topic",
        "transaction.state.log.min.isr is 1",
        "printf 'transaction.state.log.replication.factor=3\\ntransaction.state.log.min.isr=2",
        replace(every(transaction_state_log_min_isr="1"), internal=NO_INTERNAL),
    ),
    Case(
        "partitions",
        "6 partitions for 4 cores, 12 wanted",
        f"kafka-topics.sh {AT} --alter --topic orders --partitions 12",
        requirements=replace(NEEDS, executor_cores=4),
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
        "producer-in-flight",
        "is 6",
        "max.in.flight.requests.per.connection=5",
        requirements=producer(max_in_flight_requests_per_connection=6),
    ),
    Case(
        "source-data-loss",
        "is false",
        '.option("failOnDataLoss", "true")',
        requirements=replace(NEEDS, source={"failondataloss": "False", "maxOffsetsPerTrigger": 1}),
    ),
    Case(
        "source-batch-limit",
        "is not set",
        '.option("maxOffsetsPerTrigger", "1000000")',
        requirements=replace(NEEDS, source={}),
    ),
    Case(
        "sink-acks",
        "kafka.acks is 1",
        '.option("kafka.acks", "all")',
        requirements=replace(NEEDS, sink={"kafka.acks": "1"}),
    ),
]
