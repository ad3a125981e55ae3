"""Facts about a healthy cluster, for which every check of the audit holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_stream_provider.audit.kafka.facts import BrokerFacts, Facts, Partition, Requirements, Settings, Topic
from airflow_stream_provider.kafka.cluster_requests import LogFolder, Quorum, Voter

NOW = 1_800_000_000.0
DAY = 86_400.0
GIB = 2**30

TOPIC = {
    "cleanup.policy": "delete",
    "delete.retention.ms": "86400000",
    "local.retention.ms": "-2",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "2",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
BROKER = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.retention.minutes": "10080",
    "offsets.topic.replication.factor": "3",
    "replica.fetch.max.bytes": "1048576",
    "transaction.max.timeout.ms": "900000",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.replication.factor": "3",
}
NEEDS = Requirements(
    outage=DAY,
    catch_up=3600.0,
    producer={"acks": "all", "enable.idempotence": True},
    source={},
    sink={},
)


def partition(number: int, **changed: Any) -> Partition:
    whole = Partition(
        number,
        leader=1,
        replicas=(1, 2, 3),
        in_sync=(1, 2, 3),
        lost_leaders=(),
        end=500,
        oldest=NOW - 3600,
        size=3600_000,
    )
    return replace(whole, **changed)


def topic(name: str = "orders", partitions: int = 6, **settings: str) -> Topic:
    found = {key.replace("_", "."): value for key, value in settings.items()}
    return Topic(name, tuple(partition(n) for n in range(partitions)), Settings(f"topic {name}", {**TOPIC, **found}))


def broker(number: int, **settings: str) -> BrokerFacts:
    found = {key.replace("_", "."): value for key, value in settings.items()}
    settings_of = Settings(f"broker {number}", {**BROKER, **found})
    return BrokerFacts(number, f"zone-{number}", False, settings_of, (LogFolder("/data", 100 * GIB, 50 * GIB),))


def facts(**changed: Any) -> Facts:
    whole = Facts(
        at=NOW,
        server=("--bootstrap-server", "kafka:9092"),
        topics=(topic(),),
        internal=(topic("__consumer_offsets", 50, cleanup_policy="compact"), topic("__transaction_state", 50)),
        brokers=(broker(1), broker(2), broker(3)),
        quorum=Quorum(1, (Voter(1, 0.0), Voter(2, 0.2), Voter(3, 0.4))),
    )
    return replace(whole, **changed)
