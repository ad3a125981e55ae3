"""Audit three real brokers: the findings are right, and their commands fix them."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType
from kafka.errors import KafkaConfigurationError, KafkaError

from airflow_stream_provider.audit import AuditReport, CheckResult, Severity, Waiver
from airflow_stream_provider.audit.kafka import read
from airflow_stream_provider.audit.kafka.checks import CHECKS, replicas
from airflow_stream_provider.audit.kafka.commands import CLIENTS as OF_CLIENTS
from airflow_stream_provider.kafka import connect
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.settings import client_settings
from airflow_stream_provider.operators.audit import AuditFailed, KafkaTopicAuditOperator
from airflow_stream_provider.spec.stream import load_spec
from devstack.certificates import Certificates
from devstack.drivers import wait_for
from devstack.kafka_cluster import USERS, KafkaCluster
from devstack.kafka_tools import KafkaTools
from devstack.kafka_writes import commit_group
from tests.support.audited import DAY, NEEDS
from tests.support.audited_brokers import ThreeRacks, create, found, look, look_until, produce
from tests.support.control_root import new_log
from tests.support.story import OLD, OLD_DEPLOYMENT, declared, record, submitted, write

HOUR = 3600.0
# Checks of facts other than settings, and of the clients' declared settings.
REPLICAS = {"topic-readable", "single-replica", "replication-factor", "replica-racks", "offline-partitions"} | {
    *("under-replicated", "offline-replicas", "eligible-leaders", "enough-brokers", "fenced-brokers"),
    *("open-transactions", "broker-racks", "offsets-retention"),
}
CLIENTS = {check.name for check in CHECKS if check.scope is OF_CLIENTS}


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


@pytest.fixture(autouse=True)
def _any_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge no disk of the machine that runs the tests: a full one would be found in every report."""
    monkeypatch.setattr(replicas, "USABLE_SHARE", 0.0)


@pytest.fixture
def admin(cluster: KafkaCluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.servers.split(","))
    yield client
    client.close()


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
        min_insync_replicas="1",
        unclean_leader_election_enable="true",
        retention_ms="3600000",
        cleanup_policy="compact,delete",
        message_timestamp_after_max_ms="86400000",
    )
    create(admin, "frail-1", min_insync_replicas="1")
    report = look(cluster, "frail.1")
    assert set(found(report)) == {
        *("min-insync", "unclean-election", "retention-time", "compaction", "tombstones", "timestamps-future"),
    }
    for fix in dict.fromkeys(finding.fix for finding in report.findings):
        shell.run(fix)
    report = look_until(cluster, lambda now: not now.findings, "frail.1")
    assert [str(finding) for finding in report.findings] == []
    assert set(found(look(cluster, "frail-1"))) == {"min-insync"}


def test_missing_replicas_are_planned_and_not_moved(
    cluster: KafkaCluster, admin: KafkaAdminClient, shell: KafkaTools
) -> None:
    create(admin, "few", [1], [2], min_insync_replicas="1")
    report = look(cluster, "few")
    assert set(found(report)) == {"single-replica", "min-insync"}
    for finding in report.findings:
        shell.run(finding.fix)
    (described,) = admin.describe_topics(["few"])
    assert [each["replica_nodes"] for each in described["partitions"]] in ([[1], [2]], [[2], [1]])
    assert set(found(look(cluster, "few"))) == {"single-replica", "min-insync"}, "a command changed something"


def test_a_transaction_is_judged_by_its_own_start_and_timeout(
    cluster: KafkaCluster, admin: KafkaAdminClient, shell: KafkaTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timestamps of its records may be of any age."""
    for topic in ("young", "held"):
        create(admin, topic, retention_ms="-1")
    young = produce(cluster, "young", 1, age=HOUR, transactional_id="young", transaction_timeout_ms=600_000)
    assert look(cluster, "young").findings == ()
    hanging = produce(cluster, "held", 1, age=0, transactional_id="hanging", transaction_timeout_ms=1000)
    assert look(cluster, "held").findings == ()
    monkeypatch.setattr(read, "_SLACK_SECONDS", 0.5)
    report = look_until(cluster, lambda now: bool(now.findings), "held", "young")
    assert [(finding.check, finding.subject) for finding in report.findings] == [("open-transactions", "topic held")]
    shell.run(report.findings[0].fix)
    report = look_until(cluster, lambda now: not now.findings, "held")
    assert [str(finding) for finding in report.findings] == []
    young.commit_transaction()
    young.close()
    hanging.close(timeout=0)


def test_a_producer_that_the_brokers_refuse_is_found_before(cluster: KafkaCluster, admin: KafkaAdminClient) -> None:
    """It asks for a longer transaction than they allow."""
    create(admin, "long")
    declared = {"transactional.id": "flink", "transaction.timeout.ms": 3_600_000}
    report = look(cluster, "long", requirements=replace(NEEDS, producer={**(NEEDS.producer or {}), **declared}))
    assert [(each.check, each.subject) for each in report.findings] == [("transaction-timeout", "brokers 1, 2, 3")]
    with pytest.raises(KafkaError, match="InvalidTransactionTimeoutError"):
        produce(cluster, "long", 1, age=0, transactional_id="flink", transaction_timeout_ms=3_600_000)


def test_timeouts_that_a_producer_refuses_are_found_before(cluster: KafkaCluster, admin: KafkaAdminClient) -> None:
    create(admin, "hasty")
    for linger, fits in ((30_000, True), (30_001, False)):
        declared = {"delivery.timeout.ms": 60_000, "linger.ms": linger}
        report = look(cluster, "hasty", requirements=replace(NEEDS, producer={**(NEEDS.producer or {}), **declared}))
        assert ("producer-timeouts" not in found(report)) is fits
        with contextlib.nullcontext() if fits else pytest.raises(KafkaConfigurationError, match="linger_ms"):
            KafkaProducer(
                bootstrap_servers=cluster.servers.split(","), delivery_timeout_ms=60_000, linger_ms=linger
            ).close(timeout=0)


def test_internal_topics_are_audited_once_they_exist(
    cluster: KafkaCluster, admin: KafkaAdminClient, shell: KafkaTools
) -> None:
    with KafkaClient("three", cluster.extra) as client:
        commit_group(client, "somebody", {TopicPartition("sound", 0): 0})
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
    create(admin, "fading", retention_bytes="100000")
    produce(cluster, "fading", 200, age=HOUR).close()
    report = look(cluster, "fading")
    (size,) = report.findings  # 200 records of some 110 bytes in an hour: 100 kB last five hours
    assert size.check == "retention-size"
    assert size.found.startswith("partition 0: 100000 bytes last ")


def test_a_sparse_topic_whose_old_records_are_deleted_is_sound(cluster: KafkaCluster, admin: KafkaAdminClient) -> None:
    """Its oldest record is younger than the needed retention, because nothing was written before it for days."""
    create(admin, "sparse")
    produce(cluster, "sparse", 1, age=DAY * 8).close()
    produce(cluster, "sparse", 1, age=HOUR).close()
    admin.delete_records({TopicPartition("sparse", 0): 1})
    assert [str(finding) for finding in look(cluster, "sparse").findings] == []


def test_a_log_folder_without_room_is_found(
    cluster: KafkaCluster,
    admin: KafkaAdminClient,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    create(admin, "roomy")
    disk = shutil.disk_usage(tmp_path_factory.getbasetemp())
    monkeypatch.setattr(replicas, "USABLE_SHARE", min(1.0, disk.free / disk.total + 0.1))
    (finding,) = [each for each in look(cluster, "roomy").findings if each.check == "disk-headroom"][:1]
    assert finding.result is CheckResult.BROKEN
    assert f"of {disk.total / 2**30:.3g} GiB usable" in finding.found


def test_what_older_brokers_do_not_tell_is_not_verifiable(
    cluster: KafkaCluster, admin: KafkaAdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same brokers, spoken to in the versions of Kafka 3.2."""
    create(admin, "elder")

    def older(conn_id: str, extra: Mapping[str, Any]) -> dict[str, Any]:
        return {**client_settings(conn_id, extra), "api_version": (3, 2)}

    monkeypatch.setattr(connect, "client_settings", older)
    report = look(cluster, "elder")
    results = found(report)
    older_ones = {"fenced-brokers", "disk-headroom", "quorum"}
    assert {results[name] for name in older_ones} == {CheckResult.UNVERIFIABLE}
    assert not older_ones & set(report.held)


def test_a_broker_that_does_not_answer_loses_only_its_own_sizes(cluster: KafkaCluster, admin: KafkaAdminClient) -> None:
    create(admin, "partly", [1], [2], [3], retention_bytes="1000000000")
    with KafkaClient("three", cluster.extra) as client:
        partitions = [TopicPartition("partly", number) for number in range(3)]
        answers = client.log_folders(partitions, [1, 2, 99])
        assert sorted(answers) == [1, 2]

        def sizes() -> set[int]:
            known = client.log_folders(partitions, [1, 2, 99])
            return {tp.partition for folders in known.values() for each in folders for tp in each.sizes}

        assert answers.problems[99].reason.startswith("Broker 99 does not answer")
        wait_for("the brokers to make their folders", lambda: sizes() == {0, 1})
        configs = client.configs(brokers=[1, 99], topics=["partly"])
        assert set(configs) == {1, "partly"}
        assert set(configs.problems) == {99}


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


class Task:
    """Stands for the task instance: keeps what is pushed."""

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = json.loads(json.dumps(value))


def test_the_operator_reports_and_fails_by_severity(
    cluster: KafkaCluster, admin: KafkaAdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_THREE", json.dumps({"conn_type": "kafka", "extra": cluster.extra}))
    create(admin, "careless", unclean_leader_election_enable="true")
    task = Task()
    pushed = task.pushed
    context: Any = {"ti": task}
    operator = KafkaTopicAuditOperator(task_id="audit", conn_id="three", topics=["careless"], fail_on="critical")
    report = operator.execute(context)
    assert pushed == {}
    assert "unclean-election" in {finding["check"] for finding in report["findings"]}
    operator.fail_on = "high"
    with pytest.raises(AuditFailed, match="unclean-election, topic careless"):
        operator.execute(context)
    assert pushed["return_value"]["findings"][0]["check"] == "unclean-election"


def test_a_streams_own_record_names_its_topics_and_options(
    cluster: KafkaCluster, admin: KafkaAdminClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_THREE", json.dumps({"conn_type": "kafka", "extra": cluster.extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local"}))
    create(admin, "read", unclean_leader_election_enable="true")
    create(admin, "written")
    folder = tmp_path / "streams"
    folder.mkdir()
    control = (tmp_path / "control").as_uri()
    fields = {"name": "orders", "application": "a.py", "version": "1", "cluster": "spark_default", "control": control}
    (folder / "orders.yaml").write_text(json.dumps({**fields, "kafka": "three"}))
    stream = load_spec(folder / "orders.yaml")
    query: dict[str, Any] = {
        "name": "a",
        "checkpoint": "/nowhere/a",
        "sink": "kafka",
        "target": "written",
        "sink_options": {},
    }
    query |= {"sources": ["kafka:subscribe=read"], "source_options": [{"failOnDataLoss": "false"}]}
    log = new_log(control)
    standby = record("standby", deployment=OLD_DEPLOYMENT, incarnation=OLD, queries=[query], rehearsal={})
    write(log, declared(OLD_DEPLOYMENT), submitted(OLD_DEPLOYMENT), standby)
    waiver = Waiver("unclean-election", "a test", datetime.now(UTC).date() + timedelta(days=1), "topic read")
    operator = KafkaTopicAuditOperator(
        task_id="audit", stream=stream, topics=["written"], outage=DAY, fail_on="medium", waivers=[waiver]
    )
    context: Any = {"ti": (task := Task())}
    with pytest.raises(AuditFailed, match=r"^1 findings of severity medium or worse: MEDIUM source-data-loss"):
        operator.execute(context)
    report = task.pushed["return_value"]
    assert report["topics"] == ["read", "written"]
    waived = {finding["check"]: finding["waived"] for finding in report["findings"] if finding["waived"]}
    assert waived == {"unclean-election": f"until {waiver.until}: a test"}
    assert "sink-acks" in report["held"]


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
        "quorum": "the cluster",
    }

    def seen(now: AuditReport) -> set[tuple[str, str]]:
        return {(each.check, each.subject) for each in now.findings}

    report = look_until(cluster, lambda now: set(wanted.items()) <= seen(now), *topics)
    broken = {(each.check, each.subject): each for each in report.findings if each.result is CheckResult.BROKEN}
    assert set(wanted.items()) <= set(broken)
    assert "no leader" in broken["offline-partitions", "topic alone"].found
    assert broken["below-min-insync", "topic strict"].fix.endswith("start brokers 3")
    assert broken["fenced-brokers", "the cluster"].found == "fenced: 3"
    assert broken["quorum", "the cluster"].found == "not up to date: 3"
    cluster.start(3)
    report = look_until(cluster, lambda now: not set(wanted.items()) & seen(now), *topics)
    assert not set(wanted.items()) & seen(report)
