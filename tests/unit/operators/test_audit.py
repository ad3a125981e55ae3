"""What the operator does with a report; real brokers are asked in tests/integration/audit/test_audit.py."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_stream_provider.audit import AuditReport
from airflow_stream_provider.audit.report import judge
from airflow_stream_provider.lifecycle.errors import ConnectionUnavailable
from airflow_stream_provider.operators.audit import AuditFailed, KafkaTopicAuditOperator
from tests.support.audited import NEEDS, facts, topic


class Pushed(dict[str, Any]):
    """Stands for the task instance: keeps what is pushed."""

    def xcom_push(self, key: str, value: Any) -> None:
        self[key] = value


class Judging(KafkaTopicAuditOperator):
    """The operator on a report that is there already."""

    report: AuditReport
    log: Any = logging.getLogger("judging")  # Airflow's own is not for caplog once it is set up

    def _audit(self) -> AuditReport:
        return self.report


def operator(report: AuditReport, **settings: Any) -> Judging:
    made = Judging(task_id="audit", topics=["orders"], **settings)
    made.report = report
    return made


UNCLEAN = judge(
    facts(topics=(topic(unclean_leader_election_enable="true", message_timestamp_after_max_ms="86400000"),)), NEEDS
)


def test_a_clean_report_is_the_xcom() -> None:
    clean = judge(facts(), NEEDS)
    pushed = Pushed()
    assert operator(clean).execute({"ti": pushed}) == clean.to_json()  # type: ignore[typeddict-item]


def test_what_is_bad_enough_fails_with_the_fix_and_leaves_the_report() -> None:
    pushed = Pushed()
    with pytest.raises(AuditFailed, match="HIGH unclean-election, topic orders") as failed:
        operator(UNCLEAN).execute({"ti": pushed})  # type: ignore[typeddict-item]
    assert "--add-config unclean.leader.election.enable=false" in str(failed.value)
    assert pushed == {"return_value": UNCLEAN.to_json()}


def test_what_is_not_bad_enough_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert operator(UNCLEAN, fail_on="critical").execute({"ti": Pushed()}) == UNCLEAN.to_json()  # type: ignore[typeddict-item]
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    warned = [text for text in warned if "outside of the Task Runner" not in text]  # Airflow's own
    assert [text.split(",")[0] for text in warned] == ["HIGH unclean-election", "LOW timestamps-future"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"fail_on": "bad"}, "'bad' is not a severity"),
        ({"topics": []}, "No topic was given to audit"),
        ({"topics": ""}, "No topic was given to audit"),
    ],
)
def test_what_cannot_be_used_fails_at_once(settings: dict[str, Any], sentence: str) -> None:
    made = KafkaTopicAuditOperator(**{"task_id": "audit", "topics": ["orders"], **settings})
    with pytest.raises(AirflowFailException, match=sentence):
        made.execute({"ti": Pushed()})  # type: ignore[typeddict-item]


def test_a_connection_that_cannot_be_read_is_left_to_the_retries() -> None:
    made = KafkaTopicAuditOperator(task_id="audit", topics=["orders"], conn_id="nowhere")
    with pytest.raises(ConnectionUnavailable, match="The Airflow connection 'nowhere' cannot be read"):
        made.execute({"ti": Pushed()})  # type: ignore[typeddict-item]
