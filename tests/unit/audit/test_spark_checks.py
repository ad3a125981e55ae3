"""Each check of Spark with facts that break it; tests/integration/clusters/test_audit_spark.py has a real driver."""

from __future__ import annotations

from datetime import date

import pytest

from airflow_stream_provider.audit import CheckResult, Severity, Waiver
from airflow_stream_provider.audit.kafka.checks import CHECKS as OF_KAFKA
from airflow_stream_provider.audit.report import AuditReport, judge, judge_spark, together
from airflow_stream_provider.audit.spark.checks import CHECKS
from airflow_stream_provider.audit.spark.checks.application import MISPLACED
from airflow_stream_provider.audit.spark.facts import SparkFacts, facts_of, seconds, size
from airflow_stream_provider.clusters.cluster import ClusterFacts
from airflow_stream_provider.lifecycle.environment import Environment
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.vitals import QueryVitals, Vitals
from tests.support import audited
from tests.support.spark_audit_cases import ALSO, CASES, Case
from tests.support.spark_audited import MASTERS, facts, found


@pytest.mark.parametrize("kind", MASTERS)
def test_a_healthy_stream_has_no_finding(kind: str) -> None:
    assert judge_spark(facts(kind)).findings == ()


def test_every_check_looked_at_one_of_them_and_has_its_case() -> None:
    looked = {name for kind in MASTERS for name in judge_spark(facts(kind)).held}
    assert looked == {check.name for check in CHECKS} - {"settings-without-effect"}
    assert sorted(case.check for case in CASES) == sorted(check.name for check in CHECKS)


@pytest.mark.parametrize("case", [*CASES, *ALSO], ids=lambda case: case.check)
def test_a_check_finds_what_is_wrong_and_says_what_to_change(case: Case) -> None:
    report = judge_spark(case.facts)
    assert {finding.check for finding in report.findings} == {case.check, *case.besides}
    mine = next(finding for finding in report.findings if finding.check == case.check)
    assert mine.result is case.result
    assert case.found in mine.found
    assert mine.fix.startswith(case.fix)


def test_no_two_checks_have_one_name() -> None:
    names = [check.name for check in (*OF_KAFKA, *CHECKS)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("each", MISPLACED, ids=lambda each: f"{each.name}-{each.kinds[0]}")
def test_a_setting_that_counts_elsewhere_is_found_on_these_clusters_alone(each: object) -> None:
    name = f"{each.name}x" if each.name.endswith(".") else each.name  # type: ignore[attr-defined]
    for kind in each.kinds:  # type: ignore[attr-defined]
        report = judge_spark(facts(kind, conf={name: "9"}))
        assert [(f.subject, f.result) for f in report.findings if f.check == "settings-without-effect"] == [
            (f"setting {name}", CheckResult.NO_EFFECT)
        ]
        assert report.failing(Severity.MEDIUM) == report.findings


def test_what_was_not_measured_or_told_fails_no_task() -> None:
    for kind in MASTERS:
        whole = facts(kind)
        mute = SparkFacts(whole.at, whole.environment, whole.queries)
        report = judge_spark(mute)
        assert report.failing(Severity.INFO) == ()
        assert {f.result for f in report.findings} <= {CheckResult.UNVERIFIABLE}
    assert "listener-queue" in found(mute)


def test_a_master_that_shows_nothing_is_not_verifiable() -> None:
    report = judge_spark(facts(cluster={"problem": "Spark 4.0 and later do."}))
    assert {f.check: f.found for f in report.findings} == dict.fromkeys(
        ("master-recovery", "executor-retries", "spread"), "Spark 4.0 and later do."
    )


def test_a_default_is_that_of_the_drivers_version() -> None:
    old = facts(conf={"spark.eventLog.enabled": "true"}, environment={})
    assert [f.result for f in judge_spark(old).findings] == [CheckResult.UNVERIFIABLE]
    conf = {**old.environment.conf}
    report = judge_spark(facts(environment={"spark": "3.5.7", "conf": conf}))
    assert [(f.check, f.result) for f in report.findings] == [("event-log", CheckResult.BROKEN)]


def test_a_finding_of_spark_can_be_waived_until_a_day() -> None:
    waiver = Waiver("speculation", "the sink is idempotent", date(2027, 3, 1))
    (finding,) = judge_spark(facts(conf={"spark.speculation": "true"}), [waiver]).findings
    assert finding.waived == "until 2027-03-01: the sink is idempotent"


def test_both_audits_are_one_report() -> None:
    kafka = judge(audited.facts(), audited.NEEDS)
    spark = judge_spark(facts(conf={"spark.speculation": "true"}))
    both = together([kafka, spark])
    assert both.topics == ("orders",)
    assert [f.check for f in both.findings] == ["speculation"]
    assert both.held["single-replica"] == 3
    assert both.held["ulimit"] == 1
    assert together([]) == AuditReport(0.0, (), (), {})
    assert (
        str(spark) == f"Spark: 1 broken, 0 could not read, 0 not verifiable, 0 waived, {sum(spark.held.values())} hold"
    )


@pytest.mark.parametrize(
    ("text", "wanted"), [("60000ms", 60.0), ("30min", 1800.0), ("10 seconds", 10.0), ("1 minute", 60.0), ("5", 5.0)]
)
def test_durations_are_read_as_spark_writes_them(text: str, wanted: float) -> None:
    assert seconds(text) == wanted


def test_sizes_are_read_as_spark_writes_them() -> None:
    assert (size("2g"), size("512", "m"), size("700mb"), size("1k")) == (2**31, 2**29, 700 * 2**20, 1024)


def test_facts_come_from_record_heartbeat_and_cluster() -> None:
    said = Environment.from_json({"spark": "4.0.0", "queries": {"orders": {"kafka_partitions": 6}}})
    described = [{"name": "orders", "sink": "kafka", "file_sink": False, "trigger": {"processingTime": "1 second"}}]
    beat = Heartbeat(
        started_at=100.0,
        queries=(QueryProgress("orders", batch_seconds=0.5),),
        vitals=Vitals(executors=2, queries={"orders": QueryVitals(best_rate=3.0)}),
    )
    made = facts_of(3700.0, said, described, beat, ClusterFacts())
    (query,) = made.queries
    assert (made.hours, made.executors, query.batch_seconds, query.trigger_seconds) == (1.0, 2, 0.5, 1.0)
    assert (query.of.kafka_partitions, query.measured("best_rate")) == (6, 3.0)
    assert facts_of(0.0, said, described, Heartbeat(), ClusterFacts()).hours is None
