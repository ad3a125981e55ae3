from __future__ import annotations

from typing import Any

from airflow_stream_provider.lag.limits import Health, LagLimits, LagLook
from airflow_stream_provider.lag.report import PartitionLag
from airflow_stream_provider.monitoring.alert import lag_alert
from airflow_stream_provider.monitoring.incidents import Incident, IncidentKind
from airflow_stream_provider.monitoring.samples import LagSample, QuerySample
from tests.support.lag_reports import partition, report

LIMITS = LagLimits(max_records=10)


def look(*partitions: PartitionLag, **more: Any) -> LagLook:
    found = report(*partitions, **more)
    return LagLook(found.at, found)


def sample(at: float, records: int) -> LagSample:
    return LagSample(at, queries={"enrich": QuerySample(records, 1.0, "OK")}, health=Health.FAIL)


def test_an_alert_is_made_of_the_report_and_of_what_was_before() -> None:
    found = lag_alert("orders", look(partition(50), retention_seconds=60.0), [sample(940.0, 20)], LIMITS)
    assert (found.since, found.records, found.growth, found.deleted_in) == (940.0, 50, 0.5, 60.0)
    assert len(found.reasons) == 2
    assert found.incident == "orders-19700101T001540Z"
    fine = lag_alert("orders", look(partition(1)), [], LIMITS, reason="A sensor with other limits failed.")
    assert fine.reasons == ("A sensor with other limits failed.",)


def test_an_alert_without_a_report_says_why_and_keeps_the_incident_of_its_caller() -> None:
    away = LagLook(1000.0, None, "Kafka does not answer.")
    found = lag_alert("orders", away, [], LIMITS, open=False, incident=Incident("orders-lag-1", 900.0))
    assert (found.kind, found.open, found.incident, found.since) == (IncidentKind.LAG, False, "orders-lag-1", 900.0)
    assert (found.reasons, found.records, found.deleted_in) == (("Kafka does not answer.",), None, None)


def test_an_incident_that_is_over_still_says_what_was_lost() -> None:
    kept = [LagSample(at, queries={"enrich": QuerySample(lost_ever=ever)}) for at, ever in [(1.0, 4), (20.0, 11)]]
    look, incident = LagLook.of(report(partition(0))), Incident("i", 10.0)
    closed = lag_alert("orders", look, kept, LagLimits(), open=False, incident=incident)
    assert closed.reasons == ("enrich: Kafka has deleted 7 records before they were read; they are lost.",)
    assert closed.reasons[0] in closed.text
    assert lag_alert("orders", look, kept[:1], LagLimits(), open=False, incident=incident).reasons == ()
