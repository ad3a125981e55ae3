"""Each check with the facts that break it; what real brokers say is in tests/integration/audit/test_audit.py."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_stream_provider.audit import AuditReport, CheckResult, Requirements, Severity
from airflow_stream_provider.audit.checks import CHECKS
from airflow_stream_provider.audit.facts import Settings, Topic
from airflow_stream_provider.audit.report import judge, table
from airflow_stream_provider.lifecycle.errors import SpecError
from tests.support.audit_cases import CASES, Case, six
from tests.support.audited import DAY, NEEDS, broker, facts, partition, topic

ROOT = Path(__file__).parents[3]


def found(report: AuditReport) -> set[str]:
    return {finding.check for finding in report.findings}


def test_a_healthy_cluster_has_no_finding_and_every_check_looked_at_it() -> None:
    report = judge(facts(), NEEDS)
    assert report.findings == ()
    assert set(report.held) == {check.name for check in CHECKS}
    assert report.held["single-replica"] == 3  # the topic and the two internal ones


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.check)
def test_a_check_finds_what_is_wrong_and_says_how_to_fix_it(case: Case) -> None:
    report = judge(case.facts, case.needs)
    assert found(report) == {case.check, *case.besides}
    mine = next(finding for finding in report.findings if finding.check == case.check)
    assert mine.outcome is CheckResult.BROKEN
    assert case.found in mine.found
    assert mine.fix.startswith(case.fix)


def test_every_check_has_its_case() -> None:
    assert sorted(case.check for case in CASES) == sorted(check.name for check in CHECKS)


def test_settings_that_could_not_be_read_are_never_a_check_that_holds() -> None:
    blind = replace(topic(), settings=Settings("topic orders"))
    report = judge(facts(topics=(blind,), internal=()), NEEDS)
    unread = {finding.check for finding in report.findings if finding.outcome is CheckResult.UNREAD}
    assert {finding.outcome for finding in report.findings} == {CheckResult.UNREAD}
    assert {
        "min-insync",
        "retention-time",
        "retention-size",
        "local-retention",
        "timestamps-past",
        "compaction",
    } <= unread
    assert not unread & set(report.held), "held and could not be read at once"
    assert all("DESCRIBE_CONFIGS" in finding.found for finding in report.findings)


def test_a_broker_that_does_not_answer_could_not_be_read() -> None:
    silent = replace(broker(2), settings=Settings("broker 2", problem="Broker 2 does not answer: KafkaTimeoutError."))
    report = judge(facts(brokers=(broker(1), silent, broker(3))), NEEDS)
    assert {(finding.outcome, finding.subject) for finding in report.findings} == {(CheckResult.UNREAD, "broker 2")}
    assert all("does not answer" in finding.found for finding in report.findings)


def test_a_topic_that_may_not_be_described_is_one_finding_that_fails() -> None:
    denied = Topic("orders", problem="Kafka denies the connection's user access to the topic orders.")
    report = judge(facts(topics=(denied,)), replace(NEEDS, executor_cores=None))
    worst = report.failing(Severity.CRITICAL)
    assert [(finding.check, finding.outcome, finding.subject) for finding in worst] == [
        ("topic-readable", CheckResult.UNREAD, "topic orders")
    ]


def test_an_internal_topic_that_may_not_be_described_is_not_taken_for_one_to_come() -> None:
    hidden = Topic("__consumer_offsets", problem="Kafka refuses it.")
    report = judge(facts(internal=(hidden,), brokers=(broker(1, offsets_topic_replication_factor="1"),)), NEEDS)
    outcomes = {f.check: f.outcome for f in report.findings if f.check in ("topic-readable", "consumer-offsets-topic")}
    assert outcomes == {"topic-readable": CheckResult.UNREAD, "consumer-offsets-topic": CheckResult.UNREAD}


@pytest.mark.parametrize("name", ["start", "oldest", "size", "held", "lost_leaders"])
def test_logs_that_could_not_be_read_are_said(name: str) -> None:
    limited = topic(retention_bytes="1000000000000")
    report = judge(facts(topics=(limited,), problems={name: "Kafka refuses it."}), NEEDS)
    assert report.findings
    assert {(finding.outcome, finding.found) for finding in report.findings} == {
        (CheckResult.UNREAD, "Kafka refuses it.")
    }


@pytest.mark.parametrize(("kept", "fix"), [("3600000", "90000000"), ("604800000", "604800000"), ("-1", "-1")])
def test_a_command_never_makes_retention_shorter(kept: str, fix: str) -> None:
    cut = facts(topics=(replace(topic(retention_ms=kept), partitions=six(start=10).topics[0].partitions),))
    commands = [finding.fix for finding in judge(cut, NEEDS).findings if finding.check == "retention-observed"]
    assert [f"retention.ms={fix}," in command for command in commands] == [True]


@pytest.mark.parametrize("declared", [{"delivery.timeout.ms": "2m"}, {"retries": "unlimited"}, {"retries": 1e6}])
def test_a_declared_setting_that_is_no_number_is_said(declared: dict[str, object]) -> None:
    report = judge(facts(), replace(NEEDS, producer={"acks": "all", "enable.idempotence": True, **declared}))
    (finding,) = report.findings
    assert (finding.check, finding.outcome) == ("producer-retries", CheckResult.UNVERIFIABLE)
    assert "which is not a whole number" in finding.found


def test_what_was_not_declared_is_not_verifiable_and_does_not_fail() -> None:
    report = judge(facts(), Requirements())
    assert {finding.outcome for finding in report.findings} == {CheckResult.UNVERIFIABLE}
    assert found(report) >= {
        "retention-time",
        "partitions",
        "producer-acks",
        "source-data-loss",
        "sink-acks",
        "message-size",
    }
    assert report.failing(Severity.INFO) == ()


def test_an_undeclared_setting_whose_default_differs_between_clients_is_not_verifiable() -> None:
    report = judge(facts(), replace(NEEDS, producer={}))
    assert found(report) == {"producer-acks", "producer-idempotence", "producer-in-flight"}
    assert report.failing(Severity.INFO) == ()


def test_catching_up_takes_as_long_as_the_outage_unless_declared() -> None:
    four_days = replace(NEEDS, outage=4 * DAY, catch_up=None)
    assert "retention-time" in found(judge(facts(), four_days))
    assert "retention-time" not in found(judge(facts(), replace(four_days, catch_up=DAY)))


@pytest.mark.parametrize("kept", ["-1", str(2**63 - 1), "90000000"])
def test_what_is_kept_for_ever_or_exactly_long_enough_is_long_enough(kept: str) -> None:
    kept_long = facts(topics=(topic(retention_ms=kept, message_timestamp_before_max_ms="1"),))
    assert found(judge(kept_long, NEEDS)) == set()


def test_racks_that_nobody_names_are_not_verifiable() -> None:
    bare = tuple(replace(broker(n), rack=None) for n in (1, 2, 3))
    outcomes = {f.check: f.outcome for f in judge(facts(brokers=bare), NEEDS).findings}
    assert outcomes == {"broker-racks": CheckResult.BROKEN, "replica-racks": CheckResult.UNVERIFIABLE}


def test_too_few_brokers_for_more_copies_is_said_instead_of_a_command() -> None:
    one = facts(
        topics=(replace(topic(), partitions=(partition(0, replicas=(1,), in_sync=(1,)),)),), brokers=(broker(1),)
    )
    fix = next(f.fix for f in judge(one, NEEDS).findings if f.check == "single-replica")
    assert fix.startswith("# first add brokers: 1 are live")


def test_names_are_quoted_for_the_shell_and_as_regular_expressions() -> None:
    odd = replace(topic("orders.v1 $(rm)"), partitions=(partition(0, leader=-1),))
    report = judge(facts(topics=(odd,)), replace(NEEDS, executor_cores=None))
    fix = next(f.fix for f in report.findings if f.check == "offline-partitions")
    assert shlex.split(fix, comments=True)[5] == r"orders\.v1 $(rm)"


def test_the_worst_comes_first_and_the_report_is_plain_values() -> None:
    bad = facts(
        topics=(topic(unclean_leader_election_enable="true", flush_ms="1"), Topic("x", problem="-", missing=True))
    )
    report = judge(bad, replace(NEEDS, executor_cores=None, producer=None))
    severities = [finding.severity for finding in report.findings]
    assert severities == sorted(severities, reverse=True)
    assert json.loads(json.dumps(report.to_json())) == report.to_json()
    assert report.to_json()["findings"][0]["severity"] == "critical"
    assert str(report).startswith("orders, x: 3 broken, 0 could not read, 6 not verifiable, ")


@pytest.mark.parametrize(("label", "severity"), [("high", Severity.HIGH), ("INFO", Severity.INFO)])
def test_severities_have_names(label: str, severity: Severity) -> None:
    assert Severity.of(label) is severity


def test_an_unknown_severity_is_refused_with_those_there_are() -> None:
    with pytest.raises(SpecError, match=r"'bad' is not a severity\. Use one of info, low"):
        Severity.of("bad")


def test_the_documentation_has_the_table_of_the_checks() -> None:
    page = (ROOT / "docs" / "audit.md").read_text()
    assert table() in page
