"""Each check with facts that break it. tests/integration/audit/test_audit.py has what real brokers return."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.audit import AuditReport, CheckResult, Severity
from airflow_stream_provider.audit.kafka.checks import CHECKS
from airflow_stream_provider.audit.kafka.facts import Settings, Topic
from airflow_stream_provider.audit.report import judge
from airflow_stream_provider.kafka.cluster_requests import LogFolder
from tests.support.audit_cases import CASES, Case, every, producer, six
from tests.support.audited import DAY, NEEDS, broker, facts, partition, topic


def found(report: AuditReport) -> set[str]:
    return {finding.check for finding in report.findings}


def test_a_healthy_cluster_has_no_finding_and_every_check_looked_at_it() -> None:
    report = judge(facts(), NEEDS)
    assert report.findings == ()
    assert set(report.held) == {check.name for check in CHECKS}
    assert report.held["single-replica"] == 3  # the topic and the two internal ones


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.check)
def test_a_check_finds_what_is_wrong_and_says_how_to_fix_it(case: Case) -> None:
    report = judge(case.facts, case.requirements)
    assert found(report) == {case.check, *case.besides}
    mine = next(finding for finding in report.findings if finding.check == case.check)
    assert mine.result is CheckResult.BROKEN
    assert case.found in mine.found
    assert mine.fix.startswith(case.fix)


def test_every_check_has_its_case() -> None:
    assert sorted(case.check for case in CASES) == sorted(check.name for check in CHECKS)


def test_a_broker_that_does_not_answer_could_not_be_read() -> None:
    silent = replace(broker(2), settings=Settings("broker 2", problem="Broker 2 does not answer: KafkaTimeoutError."))
    report = judge(facts(brokers=(broker(1), silent, broker(3))), NEEDS)
    assert {(finding.result, finding.subject) for finding in report.findings} == {(CheckResult.UNREAD, "broker 2")}
    assert all("does not answer" in finding.found for finding in report.findings)


def test_an_internal_topic_that_may_not_be_described_does_not_count_as_not_created() -> None:
    hidden = Topic("__consumer_offsets", problem="Kafka refuses it.")
    report = judge(facts(internal=(hidden,), brokers=(broker(1, offsets_topic_replication_factor="1"),)), NEEDS)
    results = {f.check: f.result for f in report.findings if f.check in ("topic-readable", "consumer-offsets-topic")}
    assert results == {"topic-readable": CheckResult.UNREAD, "consumer-offsets-topic": CheckResult.UNREAD}


@pytest.mark.parametrize("name", ["oldest", "held", "lost_leaders", "quorum"])
def test_facts_that_could_not_be_read_are_reported_with_the_reason(name: str) -> None:
    limited = topic(retention_bytes="1000000000000")
    report = judge(facts(topics=(limited,), problems={name: "Kafka refuses it."}), NEEDS)
    assert report.findings
    assert {(finding.result, finding.found) for finding in report.findings} == {
        (CheckResult.UNREAD, "Kafka refuses it.")
    }


def test_a_broker_without_sizes_loses_only_its_own_partitions() -> None:
    """The others are judged as if it had answered."""
    silent = {"size": "Broker 2 does not answer."}
    enough = replace(topic(retention_bytes="1000000000000"), partitions=(partition(0), partition(1, size=None)))
    (finding,) = judge(facts(topics=(enough,), problems=silent), NEEDS).findings
    assert (finding.check, finding.result) == ("retention-size", CheckResult.UNREAD)
    assert finding.found == "partition 1: Broker 2 does not answer."
    short = replace(topic(retention_bytes="36000000"), partitions=enough.partitions)
    (finding,) = judge(facts(topics=(short,), problems=silent), NEEDS).findings
    assert (finding.check, finding.result) == ("retention-size", CheckResult.BROKEN)
    assert finding.found.startswith("partition 0: 36000000 bytes last 10 h")


@pytest.mark.parametrize(("replicas", "value"), [((1, 2), "1"), ((1,), "1")])
def test_no_command_sets_min_insync_replicas_to_a_value_that_stops_writes(
    replicas: tuple[int, ...], value: str
) -> None:
    few = replace(topic(min_insync_replicas=value), partitions=(partition(0, replicas=replicas, in_sync=replicas),))
    report = judge(facts(topics=(few,), internal=()), NEEDS)
    fix = next(finding.fix for finding in report.findings if finding.check == "min-insync")
    assert fix.startswith("# first give every partition 3 replicas")
    assert "min.insync.replicas=2" not in " ".join(finding.fix for finding in report.findings)


def test_the_brokers_default_of_min_insync_replicas_needs_three_replicas_first() -> None:
    report = judge(every(min_insync_replicas="1", default_replication_factor="2"), NEEDS)
    fix = next(finding.fix for finding in report.findings if finding.check == "default-min-insync")
    assert fix.startswith("# first default.replication.factor=3")


def test_brokers_that_do_not_list_fenced_ones_do_not_count_as_having_none() -> None:
    report = judge(facts(fenced_listed=False), NEEDS)
    assert [(f.check, f.result) for f in report.findings] == [("fenced-brokers", CheckResult.UNVERIFIABLE)]
    assert "fenced-brokers" not in report.held


@pytest.mark.parametrize(("group", "findings"), [(None, 1), ("orders-monitor", 1), ("", 0)])
def test_offsets_of_groups_are_no_records_of_the_stream(group: str | None, findings: int) -> None:
    """Spark reads its checkpoint: what Kafka drops here costs only the view of lag tools."""
    report = judge(every(offsets_retention_minutes="1440"), replace(NEEDS, offsets_group=group))
    assert len(report.findings) == findings
    assert report.failing(Severity.MEDIUM) == ()


def test_long_transactions_are_allowed_if_no_producer_is_refused() -> None:
    """Flink's documentation asks for an hour or more at the brokers."""
    assert judge(every(transaction_max_timeout_ms="7200000"), NEEDS).findings == ()
    asking = producer(transactional_id="flink", transaction_timeout_ms=7_200_000)
    assert judge(every(transaction_max_timeout_ms="7200000"), asking).findings == ()


def test_brokers_with_the_same_finding_share_one() -> None:
    report = judge(facts(brokers=tuple(broker(n, auto_create_topics_enable="true") for n in range(1, 101))), NEEDS)
    (finding,) = report.findings
    assert finding.subject == f"brokers {', '.join(str(n) for n in range(1, 101))}"


def test_a_transaction_that_no_coordinator_lists_is_not_aborted() -> None:
    (finding,) = judge(six(unlisted=7), NEEDS).findings
    assert (finding.check, finding.result, finding.fix) == ("open-transactions", CheckResult.UNREAD, "")


def test_a_failed_log_folder_is_found_and_its_size_ignored() -> None:
    failed = LogFolder("/bad", problem="Kafka does not answer for the log folder /bad: KafkaStorageError.")
    report = judge(facts(brokers=(replace(broker(1), folders=(failed,)), broker(2), broker(3))), NEEDS)
    assert [(f.check, f.subject, f.found) for f in report.findings] == [("disk-headroom", "broker 1", failed.problem)]


def test_a_cluster_with_zookeeper_has_no_quorum_to_judge() -> None:
    (finding,) = judge(facts(quorum=None), NEEDS).findings
    assert (finding.check, finding.result) == ("quorum", CheckResult.UNVERIFIABLE)


@pytest.mark.parametrize("declared", [{"delivery.timeout.ms": "2m"}, {"retries": "unlimited"}, {"retries": 1e6}])
def test_a_declared_setting_that_is_not_a_number_is_not_verifiable(declared: dict[str, object]) -> None:
    report = judge(facts(), replace(NEEDS, producer={"acks": "all", "enable.idempotence": True, **declared}))
    finding = report.findings[0]
    assert (finding.check, finding.result) == ("producer-retries", CheckResult.UNVERIFIABLE)
    assert "which is not a whole number" in finding.found


def test_an_undeclared_setting_whose_default_differs_between_clients_is_not_verifiable() -> None:
    report = judge(facts(), replace(NEEDS, producer={}))
    assert found(report) == {"producer-acks", "producer-idempotence", "producer-in-flight"}
    assert report.failing(Severity.INFO) == ()


def test_catching_up_takes_as_long_as_the_outage_unless_declared() -> None:
    four_days = replace(NEEDS, outage=4 * DAY, catch_up=None)
    assert "retention-time" in found(judge(facts(), four_days))
    assert "retention-time" not in found(judge(facts(), replace(four_days, catch_up=DAY)))


@pytest.mark.parametrize("kept", ["-1", str(2**63 - 1), "90000000"])
def test_unlimited_or_exactly_sufficient_retention_is_enough(kept: str) -> None:
    kept_long = facts(topics=(topic(retention_ms=kept),))
    assert found(judge(kept_long, NEEDS)) == set()


def test_replicas_on_brokers_without_rack_are_not_verifiable() -> None:
    bare = tuple(replace(broker(n), rack=None) for n in (1, 2, 3))
    results = {f.check: f.result for f in judge(facts(brokers=bare), NEEDS).findings}
    assert results == {"broker-racks": CheckResult.BROKEN, "replica-racks": CheckResult.UNVERIFIABLE}


def test_with_too_few_brokers_the_fix_is_to_add_brokers() -> None:
    one = facts(
        topics=(replace(topic(), partitions=(partition(0, replicas=(1,), in_sync=(1,)),)),), brokers=(broker(1),)
    )
    fix = next(f.fix for f in judge(one, NEEDS).findings if f.check == "single-replica")
    assert fix.startswith("# first add brokers: 1 are live")
