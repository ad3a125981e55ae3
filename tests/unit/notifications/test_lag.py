"""The notifier measures and tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseNotifier

from airflow_stream_provider.control.files_root import SampleFile
from airflow_stream_provider.hooks import lag
from airflow_stream_provider.kafka.connect import BrokerUnreachable
from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lag.report import LagReport, Verdict
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.monitoring.alert import Alert
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample, append
from airflow_stream_provider.notifications.lag import LagNotifier
from airflow_stream_provider.spec.stream import StreamSpec
from devstack.control_folder import folder_of
from tests.support.control_root import new_log
from tests.support.lag_reports import partition, report


class Page(BaseNotifier):
    """A notifier as those of Airflow's providers are."""

    template_fields = ("text",)
    sent: list[str] = []  # noqa: RUF012

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Any) -> None:
        self.sent.append(self.text)


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    log = new_log(f"file://{tmp_path}", "orders")
    behind = {"enrich": QuerySample(20, 1.0, "OK")}
    append(SampleFile(folder_of(log)), LagSample(940.0, queries=behind, health=Health.FAIL))
    fields = {"name": "orders", "application": "a.py", "version": "2", "cluster": "c", "kafka": "k"}
    return StreamSpec.model_validate(fields | {"control": f"file://{tmp_path}", "lag": {"max_records": 10}})


def test_it_is_brought_by_airflows_notifiers_and_by_functions(
    spec: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "kafka_extra", lambda kafka: {})
    monkeypatch.setattr(lag, "measure_lag", lambda target, extra, roots, moments: report(partition(50)))
    called: list[Alert] = []
    Page.sent = []
    notifier = LagNotifier(stream=spec, to=[Page("{{ alert.subject }}"), called.append])

    notifier({})
    notifier({})
    assert Page.sent == ["orders is behind Kafka: 50 records, 5 s"] * 2
    assert [found.since for found in called] == [940.0] * 2


def test_a_consumer_group_is_measured_without_samples_and_its_verdicts_are_not_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[LagTarget, Any]] = []

    def measured(target: LagTarget, extra: Any, roots: Any, moments: Any) -> LagReport:
        asked.append((target, extra))
        return report(partition(50, verdict=Verdict.STALL))

    monkeypatch.setattr(lag, "kafka_extra", lambda kafka: {"read from": kafka})
    monkeypatch.setattr(lag, "measure_lag", measured)
    called: list[Alert] = []
    LagNotifier(group="billing", kafka="kafka_main", to=[called.append])({})
    assert asked == [(LagTarget("kafka_main", group="billing"), {"read from": "kafka_main"})]
    (alert,) = called
    assert (alert.stream, alert.records, alert.since, alert.growth) == ("billing", 50, alert.at, None)
    assert not any("stall" in reason.lower() for reason in alert.reasons)


def test_that_it_cannot_be_measured_is_told_too(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(kafka: str) -> Any:
        raise BrokerUnreachable("Kafka does not answer.", next_step="Check it.")

    monkeypatch.setattr(lag, "kafka_extra", away)
    called: list[Alert] = []
    LagNotifier(stream=spec, to=[called.append])({})
    assert called[0].reasons == ("Kafka does not answer. Check it.",)
    assert called[0].records is None


def test_a_recipient_that_fails_keeps_no_other_from_being_told_and_fails_the_notifier(
    spec: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(alert: Alert) -> None:
        raise ConnectionError("no line today")

    monkeypatch.setattr(lag, "kafka_extra", lambda kafka: {})
    monkeypatch.setattr(lag, "measure_lag", lambda target, extra, roots, moments: report(partition(50)))
    called: list[Alert] = []
    notifier = LagNotifier(stream=spec, to=[broken, called.append])
    context: Any = {}
    with pytest.raises(StreamError, match=r"could not be delivered to .*broken"):
        notifier.notify(context)
    assert len(called) == 1
