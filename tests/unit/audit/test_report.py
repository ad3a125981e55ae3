"""The report: what is in it, what fails, and how it is written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from airflow_stream_provider.audit import CheckResult, Requirements, Severity
from airflow_stream_provider.audit.kafka.facts import Settings, Topic
from airflow_stream_provider.audit.report import judge
from tests.support.audit_table import of_kafka, of_spark
from tests.support.audited import NEEDS, facts, topic

ROOT = Path(__file__).parents[3]


def test_a_check_never_holds_if_its_settings_could_not_be_read() -> None:
    blind = replace(topic(), settings=Settings("topic orders"))
    report = judge(facts(topics=(blind,), internal=()), NEEDS)
    unread = {finding.check for finding in report.findings if finding.result is CheckResult.UNREAD}
    assert {finding.result for finding in report.findings} == {CheckResult.UNREAD}
    assert {
        "min-insync",
        "retention-time",
        "retention-size",
        "local-retention",
        "compaction",
    } <= unread
    assert not unread & set(report.held), "held and could not be read at once"
    assert all("DESCRIBE_CONFIGS" in finding.found for finding in report.findings)


def test_the_report_is_sorted_by_severity_and_is_json() -> None:
    bad = facts(
        topics=(
            topic(unclean_leader_election_enable="true", message_timestamp_after_max_ms="86400000"),
            Topic("x", problem="-", missing=True),
        )
    )
    report = judge(bad, replace(NEEDS, producer=None))
    severities = [finding.severity for finding in report.findings]
    assert severities == sorted(severities, reverse=True)
    assert json.loads(json.dumps(report.to_json())) == report.to_json()
    assert report.to_json()["findings"][0]["severity"] == "critical"
    assert str(report).startswith("orders, x: 3 broken, 0 could not read, 7 not verifiable, 0 waived, ")


def test_undeclared_settings_are_not_verifiable_and_do_not_fail() -> None:
    report = judge(facts(), Requirements())
    assert {finding.result for finding in report.findings} == {CheckResult.UNVERIFIABLE}
    assert {finding.check for finding in report.findings} >= {
        "retention-time",
        "producer-acks",
        "source-data-loss",
        "sink-acks",
        "message-size",
    }
    assert report.failing(Severity.INFO) == ()


def test_a_topic_that_may_not_be_described_is_one_finding_that_fails() -> None:
    denied = Topic("orders", problem="Kafka denies the connection's user access to the topic orders.")
    report = judge(facts(topics=(denied,)), NEEDS)
    worst = report.failing(Severity.CRITICAL)
    assert [(finding.check, finding.result, finding.subject) for finding in worst] == [
        ("topic-readable", CheckResult.UNREAD, "topic orders")
    ]


def test_the_documentation_has_the_table_of_the_checks() -> None:
    page = (ROOT / "docs" / "audit.md").read_text()
    assert of_kafka() in page
    assert of_spark() in page
