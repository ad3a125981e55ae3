"""Three real brokers with good settings, and how they are audited."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaError

from airflow_stream_provider.audit import AuditReport, CheckResult, Requirements, audit, tool_arguments
from devstack.kafka_cluster import KafkaCluster, patient_client
from devstack.kafka_writes import wait_until_known
from devstack.ports import HOST, free_port
from tests.support.audited import NEEDS

DEADLINE = 300.0
BROKERS = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    # One that a busy machine keeps from its work is not to be found as gone; one that is stopped says so itself.
    "broker.session.timeout.ms": 30_000,
}


class ThreeRacks(KafkaCluster):
    """Three brokers with good settings, each in its own rack and a controller."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._controllers = {number: f"{HOST}:{free_port()}" for number in self.numbers}

    def __enter__(self) -> KafkaCluster:
        # At the same time: none serves before there is a majority of controllers.
        with ThreadPoolExecutor() as threads:
            started = [threads.submit(self.start, number, fresh=True) for number in self.numbers]
        try:
            for each in started:
                each.result()
            self.wait(lambda: self._seen() == len(self.numbers))
        except BaseException:
            self.close()
            raise
        return self

    def _settings(self, number: int) -> dict[str, object]:
        found = super()._settings(number)
        brokers = ",".join(each for each in str(found["listeners"]).split(",") if not each.startswith("CONTROLLER"))
        return {
            **found,
            **BROKERS,
            "broker.rack": f"zone-{number}",
            "process.roles": "broker,controller",
            "controller.quorum.voters": ",".join(f"{n}@{at}" for n, at in self._controllers.items()),
            "listeners": f"{brokers},CONTROLLER://{self._controllers[number]}",
            # Transactions stay open for longer than their time-out until a coordinator looks: here, never.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 86_400_000,
        }


def look(cluster: KafkaCluster, *topics: str, requirements: Requirements = NEEDS, **extra: Any) -> AuditReport:
    connection = {**cluster.extra, **extra}
    with patient_client("three", connection) as client:
        return audit(client, topics, requirements, tool_arguments(connection))


def look_until(cluster: KafkaCluster, ready: Callable[[AuditReport], bool], *topics: str, **extra: Any) -> AuditReport:
    deadline = time.monotonic() + DEADLINE
    while True:
        report = look(cluster, *topics, **extra)
        if ready(report) or time.monotonic() > deadline:
            return report
        time.sleep(0.5)


def found(report: AuditReport) -> dict[str, CheckResult]:
    return {finding.check: finding.result for finding in report.findings}


def create(admin: KafkaAdminClient, topic: str, *replicas: list[int], partitions: int = 6, **settings: str) -> None:
    configs = {key.replace("_", "."): value for key, value in settings.items()}
    placed = {"assignments": dict(enumerate(replicas))} if replicas else {"num_partitions": partitions}
    admin.create_topics({topic: {**placed, "configs": configs}}, wait_for_metadata=True)
    with patient_client("three", {"bootstrap.servers": ",".join(admin.config["bootstrap_servers"])}) as client:
        wait_until_known(client, [topic])


def produce(cluster: KafkaCluster, topic: str, count: int, *, age: float, **settings: Any) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=cluster.servers.split(","), **settings)
    if settings:
        try:
            producer.init_transactions()
        except KafkaError:
            producer.close(timeout=0)
            raise
        producer.begin_transaction()
    at = round((time.time() - age) * 1000)
    for _ in range(count):
        producer.send(topic, b"x" * 100, partition=0, timestamp_ms=at)
    producer.flush()
    return producer
