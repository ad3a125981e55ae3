"""Audit three real brokers: the findings are right, and their commands fix them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from airflow_stream_provider.audit import AuditReport, CheckResult, Severity, audit, tool_arguments
from airflow_stream_provider.audit.checks import CHECKS, clients
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.operators.audit import AuditFailed, KafkaTopicAuditOperator
from devstack.kafka_cluster import USERS, Certificates, KafkaCluster
from devstack.kafka_tools import KafkaTools
from tests.support.audited import NEEDS

DEADLINE = 90.0
HOUR = 3600.0
# By default there is no limit for the age of a record.
SOUND = {"message.timestamp.before.max.ms": "604800000"}
# Checks of facts other than settings, and of the clients' declared settings.
REPLICAS = {"topic-readable", "single-replica", "replication-factor", "replica-racks", "offline-partitions"} | {
    *("under-replicated", "offline-replicas", "eligible-leaders", "enough-brokers", "fenced-brokers"),
    *("retention-observed", "open-transactions", "broker-racks"),
}
CLIENTS = {check.name for check in clients.CHECKS}
BROKERS = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
}


class ThreeRacks(KafkaCluster):
    """Three brokers with good settings, each in its own rack."""

    def _settings(self, number: int) -> dict[str, object]:
        return {**super()._settings(number), **BROKERS, "broker.rack": f"zone-{number}"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[KafkaCluster]:
    with ThreeRacks(tmp_path_factory.mktemp("three"), 3, secure=certificates) as started:
        yield started


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> KafkaTools:
    return KafkaTools(tmp_path_factory.mktemp("tools") / "bin")


@pytest.fixture
def admin(cluster: KafkaCluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.servers.split(","))
    yield client
    client.close()


def look(cluster: KafkaCluster, *topics: str, **extra: str) -> AuditReport:
    connection = {**cluster.extra, **extra}
    with KafkaClient("three", connection) as client:
        return audit(client, topics, NEEDS, tool_arguments(connection))


def look_until(cluster: KafkaCluster, ready: Callable[[AuditReport], bool], *topics: str, **extra: str) -> AuditReport:
    deadline = time.monotonic() + DEADLINE
    while True:
        report = look(cluster, *topics, **extra)
        if ready(report) or time.monotonic() > deadline:
            return report
        time.sleep(0.5)


def found(report: AuditReport) -> dict[str, CheckResult]:
    return {finding.check: finding.result for finding in report.findings}


def create(admin: KafkaAdminClient, topic: str, *replicas: list[int], partitions: int = 6, **settings: str) -> None:
    configs = {**SOUND, **{key.replace("_", "."): value for key, value in settings.items()}}
    placed = {"assignments": dict(enumerate(replicas))} if replicas else {"num_partitions": partitions}
    admin.create_topics({topic: {**placed, "configs": configs}}, wait_for_metadata=True)


def produce(cluster: KafkaCluster, topic: str, count: int, *, age: float, **settings: Any) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=cluster.servers.split(","), **settings)
    if settings:
        producer.init_transactions()
        producer.begin_transaction()
    at = round((time.time() - age) * 1000)
    for _ in range(count):
        producer.send(topic, b"x" * 100, partition=0, timestamp_ms=at)
    producer.flush()
    return producer


def test_a_healthy_topic_on_healthy_brokers_has_no_finding(cluster: KafkaCluster, admin: KafkaAdminClient) -> None:
    create(admin, "sound")
    report = look(cluster, "sound")
    assert [str(finding) for finding in report.findings] == []
    assert set(report.held) == {check.name for check in CHECKS}
    assert report.held["auto-create"] == 3


def test_a_missing_topic_is_reported_and_not_created(cluster: KafkaCluster, admin: KafkaAdminClient) -> None:
    worst = look(cluster, "nowhere").failing(Severity.CRITICAL)
    assert [(finding.check, finding.result) for finding in worst] == [("topic-readable", CheckResult.BROKEN)]
    assert "nowhere" not in admin.list_topics()


def test_the_commands_fix_what_was_found(cluster: KafkaCluster, admin: KafkaAdminClient, shell: KafkaTools) -> None:
    """The commands run unchanged, in a shell with Kafka's tools. No other topic that a pattern may match changes."""
    create(
        admin,
        "frail.1",
        [1],
        [2],
        min_insync_replicas="1",
        unclean_leader_election_enable="true",
        retention_ms="3600000",
        cleanup_policy="compact,delete",
        flush_ms="1000",
        message_timestamp_after_max_ms="86400000",
    )
    create(admin, "frail-1", partitions=2)
    report = look(cluster, "frail.1")
    assert set(found(report)) == {
        *("single-replica", "min-insync", "unclean-election", "retention-time", "compaction", "tombstones", "flush"),
        *("timestamps-past", "timestamps-future", "partitions"),
    }
    for _ in range(3):  # the command for one finding can leave another: added partitions have as few copies
        for fix in dict.fromkeys(finding.fix for finding in report.findings):
            shell.run(fix)
        report = look_until(cluster, lambda now: "under-replicated" not in found(now), "frail.1")
        if not report.findings:
            break
    assert [str(finding) for finding in report.findings] == []
    assert len(admin.describe_topics(["frail-1"])[0]["partitions"]) == 2


def test_a_hanging_transaction_is_found_and_aborted(
    cluster: KafkaCluster, admin: KafkaAdminClient, shell: KafkaTools
) -> None:
    for topic in ("young", "held"):
        create(admin, topic, retention_ms="-1")
    young = produce(cluster, "young", 1, age=0, transactional_id="young", transaction_timeout_ms=600_000)
    assert "open-transactions" not in found(look(cluster, "young"))
    young.commit_transaction()
    young.close()
    hanging = produce(cluster, "held", 1, age=HOUR, transactional_id="hanging", transaction_timeout_ms=600_000)
    report = look_until(cluster, lambda now: "open-transactions" in found(now), "held")
    assert set(found(report)) == {"open-transactions"}
    shell.run(report.findings[0].fix)
    report = look_until(cluster, lambda now: not now.findings, "held")
    assert [str(finding) for finding in report.findings] == []
    hanging.close(timeout=0)


def test_internal_topics_are_audited_once_they_exist(
    cluster: KafkaCluster, admin: KafkaAdminClient, shell: KafkaTools
) -> None:
    with KafkaClient("three", cluster.extra) as client:
        client.commit_group("somebody", {TopicPartition("sound", 0): 0})
    look_until(cluster, lambda now: now.held["single-replica"] > 1, "sound")
    resource = {"__consumer_offsets": {"min.insync.replicas": "1"}}
    set_configs(admin, resource)
    report = look_until(cluster, lambda now: bool(now.findings), "sound")
    assert [(each.check, each.subject) for each in report.findings] == [("min-insync", "topic __consumer_offsets")]
    shell.run(report.findings[0].fix)
    assert look_until(cluster, lambda now: not now.findings, "sound").findings == ()


def set_configs(admin: KafkaAdminClient, topics: dict[str, dict[str, str]]) -> None:
    from kafka.admin import ConfigResource, ConfigResourceType

    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, configs) for name, configs in topics.items()])


def test_retention_is_compared_with_the_logs(cluster: KafkaCluster, admin: KafkaAdminClient) -> None:
    create(admin, "fading", retention_bytes="100000", message_timestamp_before_max_ms="604800000")
    produce(cluster, "fading", 200, age=HOUR).close()
    report = look(cluster, "fading")
    (size,) = report.findings  # 200 records of some 110 bytes in an hour: 100 kB last five hours
    assert size.check == "retention-size"
    assert size.found.startswith("partition 0: 100000 bytes last ")
    admin.delete_records({TopicPartition("fading", 0): 150})
    report = look_until(cluster, lambda now: "retention-observed" in found(now), "fading")
    observed = next(finding for finding in report.findings if finding.check == "retention-observed")
    assert observed.found.startswith("partition 0: records have been deleted, and the oldest left is 1")


def test_facts_that_may_not_be_read_are_reported(
    cluster: KafkaCluster, admin: KafkaAdminClient, certificates: Certificates
) -> None:
    """A user who may describe one topic and nothing else."""
    create(admin, "seen")
    create(admin, "hidden")
    rule = ResourcePattern(ResourceType.TOPIC, "seen")
    admin.create_acls([ACL("User:reader", "*", ACLOperation.DESCRIBE, ACLPermissionType.ALLOW, rule)])
    reader = {
        "bootstrap.servers": cluster.at("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "reader",
        "sasl.password": USERS["reader"],
        "ssl.ca.location": str(certificates.authority),
    }
    report = look_until(cluster, lambda now: "single-replica" in now.held, "seen", "hidden", **reader)
    assert {finding.result for finding in report.findings} == {CheckResult.UNREAD}
    worst = [(each.check, each.subject) for each in report.failing(Severity.CRITICAL)]
    assert ("topic-readable", "topic hidden") in worst
    assert ("below-min-insync", "topic seen") in worst, "the settings, and so min.insync.replicas, may not be read"
    unread = {finding.check for finding in report.findings}
    assert unread >= {"min-insync", "retention-time", "compaction", "message-size", "auto-create", "offsets-retention"}
    assert set(report.held) <= REPLICAS | CLIENTS, "nothing holds that was not seen"


def test_the_operator_reports_and_fails_by_severity(
    cluster: KafkaCluster, admin: KafkaAdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_THREE", json.dumps({"conn_type": "kafka", "extra": cluster.extra}))
    create(admin, "careless", unclean_leader_election_enable="true")
    pushed: dict[str, Any] = {}

    class Task:
        def xcom_push(self, key: str, value: Any) -> None:
            pushed[key] = json.loads(json.dumps(value))

    context: Any = {"ti": Task()}
    operator = KafkaTopicAuditOperator(task_id="audit", conn_id="three", topics=["careless"], fail_on="critical")
    report = operator.execute(context)
    assert pushed == {}
    assert "unclean-election" in {finding["check"] for finding in report["findings"]}
    operator.fail_on = "high"
    with pytest.raises(AuditFailed, match="unclean-election, topic careless"):
        operator.execute(context)
    assert pushed["return_value"]["findings"][0]["check"] == "unclean-election"


def test_a_stopped_broker_is_found_by_every_live_check(cluster: KafkaCluster, admin: KafkaAdminClient) -> None:
    """The last test of this file, because it stops a broker and starts it again."""
    create(admin, "strict", min_insync_replicas="3")
    create(admin, "alone", [3], [1])
    topics = ("sound", "strict", "alone")
    cluster.stop(3)
    wanted = {
        "offline-partitions": "topic alone",
        "below-min-insync": "topic strict",
        "at-min-insync": "topic sound",
        "under-replicated": "topic sound",
        "offline-replicas": "topic sound",
        "eligible-leaders": "topic strict",
        "enough-brokers": "the cluster",
        "fenced-brokers": "the cluster",
    }

    def seen(now: AuditReport) -> set[tuple[str, str]]:
        return {(each.check, each.subject) for each in now.findings}

    report = look_until(cluster, lambda now: set(wanted.items()) <= seen(now), *topics)
    broken = {(each.check, each.subject): each for each in report.findings if each.result is CheckResult.BROKEN}
    assert set(wanted.items()) <= set(broken)
    assert "no leader" in broken["offline-partitions", "topic alone"].found
    assert broken["below-min-insync", "topic strict"].fix.endswith("start brokers 3")
    assert broken["fenced-brokers", "the cluster"].found == "fenced: 3"
    cluster.start(3)
    report = look_until(cluster, lambda now: not set(wanted.items()) & seen(now), *topics)
    assert not set(wanted.items()) & seen(report)
