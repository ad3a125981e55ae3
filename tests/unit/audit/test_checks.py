"""Each check with facts that break it. tests/integration/audit/test_audit.py has what real brokers return."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_stream_provider.audit import AuditReport, CheckResult, Severity
from airflow_stream_provider.audit.checks import CHECKS
from airflow_stream_provider.audit.facts import Settings, Topic
from airflow_stream_provider.audit.report import judge
from tests.support.audit_cases import CASES, Case, six
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


@pytest.mark.parametrize("name", ["start", "oldest", "size", "held", "lost_leaders"])
def test_facts_that_could_not_be_read_are_reported_with_the_reason(name: str) -> None:
    limited = topic(retention_bytes="1000000000000")
    report = judge(facts(topics=(limited,), problems={name: "Kafka refuses it."}), NEEDS)
    assert report.findings
    assert {(finding.result, finding.found) for finding in report.findings} == {
        (CheckResult.UNREAD, "Kafka refuses it.")
    }


@pytest.mark.parametrize(("kept", "fix"), [("3600000", "90000000"), ("604800000", "604800000"), ("-1", "-1")])
def test_a_command_never_makes_retention_shorter(kept: str, fix: str) -> None:
    cut = facts(topics=(replace(topic(retention_ms=kept), partitions=six(start=10).topics[0].partitions),))
    commands = [finding.fix for finding in judge(cut, NEEDS).findings if finding.check == "retention-observed"]
    assert [f"retention.ms={fix}," in command for command in commands] == [True]


@pytest.mark.parametrize("declared", [{"delivery.timeout.ms": "2m"}, {"retries": "unlimited"}, {"retries": 1e6}])
def test_a_declared_setting_that_is_not_a_number_is_not_verifiable(declared: dict[str, object]) -> None:
    report = judge(facts(), replace(NEEDS, producer={"acks": "all", "enable.idempotence": True, **declared}))
    (finding,) = report.findings
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
    kept_long = facts(topics=(topic(retention_ms=kept, message_timestamp_before_max_ms="1"),))
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
