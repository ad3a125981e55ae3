"""Waivers: what they cover, when they end, and that nothing waived is dropped."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from airflow_stream_provider.audit import Severity, Waiver
from airflow_stream_provider.audit.report import judge
from airflow_stream_provider.lifecycle.errors import SpecError
from tests.support.audited import NEEDS, NOW, broker, facts, topic

TODAY = datetime.fromtimestamp(NOW, UTC).date()
UNCLEAN = facts(
    topics=tuple(topic(name, unclean_leader_election_enable="true") for name in ("orders", "payments")),
)


def waiver(check: str = "unclean-election", **fields: Any) -> Waiver:
    return Waiver(**{"check": check, "reason": "the test cluster", "until": TODAY, **fields})


def test_a_waived_finding_stays_in_the_report_and_does_not_fail() -> None:
    report = judge(UNCLEAN, NEEDS, [waiver()])
    assert [finding.subject for finding in report.findings] == ["topic orders", "topic payments"]
    assert {finding.waived for finding in report.findings} == {f"until {TODAY}: the test cluster"}
    assert report.failing(Severity.INFO) == ()
    assert [finding["waived"] for finding in report.to_json()["findings"]] == [f"until {TODAY}: the test cluster"] * 2
    assert f"topic orders: waived until {TODAY}: the test cluster. Broken: " in str(report.findings[0])
    assert "2 waived" in str(report)
    assert "unclean-election" not in {check for check, count in report.held.items() if count > 2}


def test_a_waiver_may_be_about_one_subject() -> None:
    failing = judge(UNCLEAN, NEEDS, [waiver(subject="topic payments")]).failing(Severity.HIGH)
    assert [finding.subject for finding in failing] == ["topic orders"]


def test_a_waiver_of_one_broker_leaves_the_others() -> None:
    open_to_typos = facts(brokers=tuple(broker(n, auto_create_topics_enable="true") for n in (1, 2, 3)))
    report = judge(open_to_typos, NEEDS, [waiver("auto-create", subject="broker 2")])
    assert {(finding.subject, bool(finding.waived)) for finding in report.findings} == {
        ("brokers 1, 3", False),
        ("broker 2", True),
    }


def test_an_expired_waiver_counts_as_none_and_is_reported() -> None:
    expired = waiver(until=date(TODAY.year - 1, 1, 1))
    report = judge(UNCLEAN, NEEDS, [expired])
    assert len(report.failing(Severity.HIGH)) == 2
    assert report.expired == (expired,)
    assert report.to_json()["expired_waivers"] == [f"unclean-election, until {TODAY.year - 1}-01-01: the test cluster"]


def test_of_several_waivers_the_one_that_holds_counts() -> None:
    expired = waiver(until=date(TODAY.year - 1, 1, 1))
    assert judge(UNCLEAN, NEEDS, [expired, waiver(reason="renewed")]).findings[0].waived.endswith("renewed")


def test_the_last_day_is_a_whole_day_in_utc() -> None:
    midnight = datetime(TODAY.year, TODAY.month, TODAY.day, tzinfo=UTC).timestamp() + 86_400
    assert not waiver().expired(midnight - 1)
    assert waiver().expired(midnight)


def test_what_could_not_be_read_can_be_waived() -> None:
    denied = facts(quorum=None, problems={"quorum": "Kafka denies it."})
    assert judge(denied, NEEDS, [waiver("quorum", subject="the cluster")]).failing(Severity.INFO) == ()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"check": "unclean-elections"}, "no check 'unclean-elections' to waive. Did you mean 'unclean-election'?"),
        ({"check": "retention-observed"}, "no check 'retention-observed' to waive"),
        ({"check": "nonsense"}, "docs/audit.md lists them"),
        ({"reason": " "}, "has no reason"),
        ({"until": "2027-01-01"}, "has no day as its end: '2027-01-01'"),
        ({"until": datetime(2027, 1, 1, tzinfo=UTC)}, "has no day as its end"),
    ],
)
def test_a_waiver_that_could_never_hold_is_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as refused:
        waiver(**fields)
    assert sentence in str(refused.value)


def test_nothing_is_waived_by_default() -> None:
    assert not any(finding.waived for finding in judge(UNCLEAN, replace(NEEDS)).findings)
