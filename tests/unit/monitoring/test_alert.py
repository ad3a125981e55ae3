from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseNotifier

from airflow_stream_provider.control import open_log
from airflow_stream_provider.kafka.connect import BrokerUnreachable
from airflow_stream_provider.lag.limits import Health, LagLimits
from airflow_stream_provider.monitoring.alert import LagAlert, growth
from airflow_stream_provider.monitoring.lag_history import bad_since, health_of
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample, append
from airflow_stream_provider.notifications import lag
from airflow_stream_provider.notifications.lag import LagNotifier, alert_of
from airflow_stream_provider.spec.stream import StreamSpec
from tests.support.lag_reports import partition, report

LIMITS = LagLimits(max_records=10)
AT = 1_700_000_000.0


def alert(**more: Any) -> LagAlert:
    given = {"records": 12_000, "seconds": 300.0, "growth": 20.0, "reasons": ("It is late.",), **more}
    return LagAlert("orders", "orders-1", AT - 720, AT, **given)


def sample(at: float, records: int | None, **more: Any) -> LagSample:
    return LagSample(at, queries={"enrich": QuerySample(records, 1.0, "OK")}, **more)


def test_the_message_says_what_since_when_how_fast_and_how_it_will_end() -> None:
    found = alert(deleted_in=7200.0, links={"Spark UI": "http://spark:4040"})
    assert found.subject == "orders is behind Kafka: 12,000 records, 5 min"
    assert found.text.splitlines() == [
        "It is late.",
        "Since: 2023-11-14 22:01 UTC (12 min ago).",
        "Pace: growing by 1,200 records a minute.",
        "Outlook: Kafka will delete, from 2023-11-15 00:13 UTC on, records that it has not read (2 h left); "
        "make retention.ms longer first.",
        "Spark UI: http://spark:4040",
        "Look: airflow streams lag orders",
        "Incident: orders-1",
    ]


@pytest.mark.parametrize(
    ("more", "pace", "outlook"),
    [
        (
            {"growth": -20.0},
            "shrinking by 1,200 records a minute",
            "caught up at about 2023-11-14 22:23 UTC (10 min left)",
        ),
        ({"growth": -20.0, "deleted_in": 700.0}, "shrinking by 1,200", "caught up at about"),
        ({"growth": -20.0, "deleted_in": 500.0}, "shrinking by 1,200", "Kafka will delete"),
        ({"growth": 20.0}, "growing by 1,200 records a minute", "it does not catch up at this pace"),
        ({"growth": 0.0}, "neither growing nor shrinking", "it does not catch up at this pace"),
        ({"growth": None}, "not known", "not known"),
        ({"growth": 1.0, "deleted_in": 0.0}, "growing by 60 records", "Kafka is deleting"),
    ],
)
def test_the_outlook_is_the_worse_of_the_two(more: dict[str, Any], pace: str, outlook: str) -> None:
    found = alert(**more)
    assert found.pace.startswith(pace)
    assert found.outlook.startswith(outlook)


def test_what_is_not_known_and_what_is_over_are_told_as_such() -> None:
    assert alert(records=None).subject == "orders: how far it is behind Kafka is not known"
    over = alert(open=False)
    assert over.subject == "orders keeps up with Kafka again"
    assert over.text.splitlines() == [
        "It is within its limits again.",
        "Since: 2023-11-14 22:01 UTC (12 min long).",
        "Incident: orders-1",
    ]


def test_the_pace_is_that_of_the_last_quarter_of_an_hour() -> None:
    assert growth([(0.0, 99999), *((2000.0 + 60 * n, 100 + 120 * n) for n in range(10))]) == pytest.approx(2.0)
    assert growth([(0.0, 5), (10.0, None), (20.0, 45)]) == pytest.approx(2.0)
    assert [growth([]), growth([(0.0, 5)]), growth([(0.0, 5), (10.0, None)]), growth([(0.0, 5), (0.0, 6)])] == [
        None
    ] * 4


def test_a_sample_is_judged_as_its_report_would_be() -> None:
    assert health_of(sample(0.0, 10), LIMITS) is Health.PASS
    assert health_of(sample(0.0, 11), LIMITS) is Health.FAIL
    assert health_of(sample(0.0, None), LIMITS) is Health.UNKNOWN
    assert health_of(LagSample(0.0, problem="Kafka is away."), LIMITS) is Health.UNKNOWN
    assert health_of(LagSample(0.0, queries={"a": QuerySample(0, 0.0, "ERR")}), LIMITS) is Health.FAIL
    assert health_of(LagSample(0.0, queries={"a": QuerySample(0, 0.0, "OK", ("LOST_DATA",))}), LIMITS) is Health.FAIL


def test_it_is_bad_since_the_first_sample_of_the_last_run() -> None:
    samples = [sample(0.0, 99), sample(1.0, 0), sample(2.0, 99), LagSample(3.0), sample(4.0, 99), LagSample(5.0)]
    assert bad_since(samples, LIMITS, 9.0) == 2.0
    assert bad_since(samples[:2], LIMITS, 9.0) == 9.0
    assert bad_since([], LIMITS, 9.0) == 9.0


def test_an_alert_is_made_of_the_report_and_of_what_was_before() -> None:
    found = alert_of("orders", report(partition(50), retention_seconds=60.0), "", [sample(940.0, 20)], LIMITS)
    assert (found.since, found.records, found.growth, found.deleted_in) == (940.0, 50, 0.5, 60.0)
    assert len(found.reasons) == 2
    assert found.incident == "orders-19700101T001540Z"
    fine = alert_of("orders", report(partition(1)), "A sensor with other limits failed.", [], LIMITS)
    assert fine.reasons == ("A sensor with other limits failed.",)


class Page(BaseNotifier):
    """A notifier as those of Airflow's providers are."""

    template_fields = ("text",)
    sent: list[str] = []  # noqa: RUF012

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Any) -> None:
        self.sent.append(self.text)

    async def async_notify(self, context: Any) -> None:
        self.sent.append(self.text)


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    log = open_log(f"file://{tmp_path}", "orders", create=True)
    append(log.store, sample(940.0, 20))
    fields = {"name": "orders", "application": "a.py", "version": "2", "cluster": "c", "kafka": "k"}
    return StreamSpec.model_validate(fields | {"control": f"file://{tmp_path}", "lag": {"max_records": 10}})


@pytest.mark.parametrize("in_triggerer", [False, True])
def test_it_is_brought_by_airflows_notifiers_and_by_functions(
    spec: StreamSpec, monkeypatch: pytest.MonkeyPatch, in_triggerer: bool
) -> None:
    async def extra(kafka: str) -> Any:
        return {}

    monkeypatch.setattr(lag, "kafka_extra", lambda kafka: {})
    monkeypatch.setattr(lag, "akafka_extra", extra)
    monkeypatch.setattr(lag, "measure_lag", lambda target, extra: report(partition(50)))
    called: list[LagAlert] = []
    Page.sent = []
    notifier = LagNotifier(stream=spec, to=[Page("{{ alert.subject }}"), called.append])

    async def both() -> None:
        for _ in range(2):
            await notifier

    if in_triggerer:
        asyncio.run(both())
    else:
        notifier({})
        notifier({})
    assert Page.sent == ["orders is behind Kafka: 50 records, 5 s"] * 2
    assert [found.since for found in called] == [940.0] * 2


def test_that_it_cannot_be_measured_is_told_too(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(kafka: str) -> Any:
        raise BrokerUnreachable("Kafka does not answer.", next_step="Check it.")

    monkeypatch.setattr(lag, "kafka_extra", away)
    called: list[LagAlert] = []
    LagNotifier(stream=spec, to=[called.append])({})
    assert called[0].reasons == ("Kafka does not answer. Check it.",)
    assert called[0].records is None
