from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, AirflowSkipException, TaskDeferred

from airflow_stream_provider.lag.limits import LagLimits, LagLook
from airflow_stream_provider.lag.report import Ceilings
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.operators.lag import KafkaLagOperator
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.sensors import lag as sensors
from airflow_stream_provider.sensors.lag import KafkaLagSensor, StreamCaughtUpSensor
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.triggers.grace import TRIGGER_GRACE_SECONDS
from tests.support.lag_reports import partition, report


class Ti:
    def __init__(self) -> None:
        self.xcoms: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = value


def context(ti: Ti | None = None) -> Any:
    return {"ti": ti or Ti()}


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    lag = {"max_records": 10, "max_seconds": "1m", "commit_age": "5m", "retention": "2h"}
    return StreamSpec.model_validate(
        {
            "name": "orders",
            "application": "a.py",
            "version": "2",
            "cluster": "c",
            "kafka": "kafka_default",
            "control": f"file://{tmp_path}",
            "lag": lag,
        }
    )


def deferred(task: Any) -> dict[str, Any]:
    with pytest.raises(TaskDeferred) as found:
        task.execute(context())
    assert found.value.method_name == "resume"
    kwargs: dict[str, Any] = found.value.trigger.serialize()[1]
    return kwargs


def test_it_judges_by_the_streams_yaml_unless_told_otherwise(spec: StreamSpec) -> None:
    ceilings = Ceilings(300.0, 7200.0)
    assert KafkaLagSensor(task_id="t", stream=spec).limits == LagLimits(10, 60.0, ceilings=ceilings)
    own = KafkaLagSensor(task_id="t", stream=spec, max_records=0, max_seconds=5, verdicts=["WARN"], alarms=[])
    assert own.limits == LagLimits(0, 5, False, ("WARN",), (), ceilings)  # type: ignore[arg-type]
    assert KafkaLagSensor(task_id="t", group="g", kafka="k").limits == LagLimits(verdicts=())


def test_it_defers_without_a_connection_of_its_own(spec: StreamSpec) -> None:
    sensor = KafkaLagSensor(
        task_id="t", stream=spec, timeout=100, poke_interval=7, for_at_least=timedelta(minutes=2), unknown="skip"
    )
    kwargs = deferred(sensor)
    assert kwargs["target"] == {
        "kafka": "kafka_default",
        "stream": "orders",
        "control": spec.control,
        "group": "",
    }
    assert kwargs["condition"] == {
        "condition": "WithinLimits",
        "limits": sensor.limits.to_json(),
        "seconds": 120.0,
        "unknown": "skip",
    }
    assert kwargs["interval"] == 7
    assert 90 < kwargs["deadline"] - time.time() <= 100


@pytest.mark.parametrize("sensor", [KafkaLagSensor, StreamCaughtUpSensor])
def test_without_a_triggerer_airflow_itself_ends_the_wait(spec: StreamSpec, sensor: Any) -> None:
    with pytest.raises(TaskDeferred) as found:
        sensor(task_id="t", stream=spec, timeout=100).execute(context())
    assert found.value.timeout == timedelta(seconds=100 + TRIGGER_GRACE_SECONDS)
    for soft_fail, error in ((False, AirflowSensorTimeout), (True, AirflowSkipException)):
        waited = sensor(task_id="t", stream=spec, soft_fail=soft_fail)
        with pytest.raises(error):
            waited.resume_execution("__fail__", {"error": "Trigger timeout"}, context())


def test_what_was_found_is_the_xcom_whatever_it_was(spec: StreamSpec) -> None:
    sensor, evidence = KafkaLagSensor(task_id="t", stream=spec), {"records": 5}
    assert sensor.resume(context(), WaitOutcome(Ended.REACHED, evidence=evidence).to_event()) == evidence
    ti = Ti()
    with pytest.raises(
        AirflowFailException, match=r"^orders: enrich is behind by 50 records\. Clear the task to measure again\.$"
    ):
        sensor.resume(context(ti), WaitOutcome(Ended.BAD, "", "enrich is behind by 50 records.", evidence).to_event())
    assert ti.xcoms == {"return_value": evidence}


@pytest.mark.parametrize(
    ("settings", "ended", "error"),
    [
        ({}, Ended.UNKNOWN, AirflowFailException),
        ({"unknown": "skip"}, Ended.UNKNOWN, AirflowSkipException),
        ({"unknown": "skip"}, Ended.BAD, AirflowFailException),
        ({}, Ended.TIMEOUT, AirflowFailException),
        ({"soft_fail": True}, Ended.TIMEOUT, AirflowSkipException),
    ],
)
def test_it_ends_as_was_asked_for(
    spec: StreamSpec, settings: dict[str, Any], ended: Ended, error: type[Exception]
) -> None:
    sensor = KafkaLagSensor(task_id="t", stream=spec, **settings)
    with pytest.raises(error, match="no leader"):
        sensor.resume(context(), WaitOutcome(ended, reason="There is no leader").to_event())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"group": "g"}, "No Kafka connection is given"),
        ({}, "Neither a stream nor a consumer group"),
        ({"group": "g", "kafka": "k", "verdicts": ["STOP"]}, "cannot be judged by Burrow"),
        ({"group": "g", "kafka": "k", "mode": "reschedule", "deferrable": False}, "would forget"),
    ],
)
def test_what_cannot_work_is_refused_when_the_dag_is_parsed(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        KafkaLagSensor(task_id="t", **settings)


@pytest.mark.parametrize("settings", [{"verdicts": ["SLOW"]}, {"alarms": ["FIRE"]}, {"unknown": "guess"}])
def test_words_that_do_not_exist_are_refused_when_the_dag_is_parsed(spec: StreamSpec, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"SLOW|FIRE|guess"):
        KafkaLagSensor(task_id="t", stream=spec, **settings)


def test_the_gate_waits_for_what_was_there_when_it_began_or_at_a_moment(spec: StreamSpec) -> None:
    began = time.time()
    condition = deferred(StreamCaughtUpSensor(task_id="t", stream=spec))["condition"]
    assert began <= condition["moment"] <= time.time()
    for moment in ("2026-01-31T12:00:00+00:00", "2026-01-31T12:00Z", "2026-01-31 12:00"):
        condition = deferred(StreamCaughtUpSensor(task_id="t", stream=spec, moment=moment))["condition"]
        assert condition == {"condition": "CaughtUp", "limits": spec.lag.limits.to_json(), "moment": 1769860800.0}


def test_a_moment_that_is_none_fails_without_retries(spec: StreamSpec) -> None:
    with pytest.raises(AirflowFailException, match="not a moment in ISO 8601"):
        StreamCaughtUpSensor(task_id="t", stream=spec, moment="tomorrow").execute(context())


def test_the_operator_returns_whatever_was_measured(spec: StreamSpec) -> None:
    operator = KafkaLagOperator(task_id="t", stream=spec)
    kwargs = deferred(operator)
    assert kwargs["condition"]["condition"] == "Measured"
    assert kwargs["condition"]["limits"]["ceilings"]["retention"] == 7200.0
    assert kwargs["partitions"] is True
    evidence = {"records": None, "verdict": "UNKNOWN"}
    assert operator.resume({}, WaitOutcome(Ended.REACHED, evidence=evidence).to_event()) == evidence


@pytest.mark.parametrize(("soft_fail", "error"), [(False, StreamError), (True, AirflowSkipException)])
def test_a_connection_that_cannot_be_read_is_left_to_the_retries(
    spec: StreamSpec, soft_fail: bool, error: type[Exception]
) -> None:
    sensor = KafkaLagSensor(task_id="t", stream=spec, soft_fail=soft_fail)
    with pytest.raises(error, match="no connection"):
        sensor.resume(context(), WaitOutcome(Ended.CANNOT_LOOK, reason="There is no connection.").to_event())


def test_the_operator_is_tried_again_when_kafka_does_not_answer_or_its_connection_cannot_be_read(
    spec: StreamSpec,
) -> None:
    operator = KafkaLagOperator(task_id="t", stream=spec)
    with pytest.raises(StreamError, match="no connection"):
        operator.resume({}, WaitOutcome(Ended.CANNOT_LOOK, reason="There is no connection.").to_event())
    with pytest.raises(
        Exception, match=r"Timed out waiting for Kafka to answer\. The task waited .* s\. .* wait_seconds"
    ) as found:
        operator.resume({}, WaitOutcome(Ended.TIMEOUT, "orders", "Timed out waiting for Kafka to answer.").to_event())
    assert not isinstance(found.value, AirflowFailException)


def looking(monkeypatch: pytest.MonkeyPatch, *looks: LagLook) -> None:
    left = list(looks)
    monkeypatch.setattr(sensors, "look_at_lag", lambda target, moments: left.pop(0) if len(left) > 1 else left[0])


def at_once(spec: StreamSpec, **settings: Any) -> KafkaLagSensor:
    return KafkaLagSensor(task_id="t", stream=spec, deferrable=False, poke_interval=0.01, **settings)


BEHIND, WELL = LagLook(1000.0, report(partition(11))), LagLook(1030.0, report(partition(10)))


def test_without_deferring_it_looks_from_the_worker(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    away = LagLook(1010.0, None, "Kafka is away.")
    looking(monkeypatch, BEHIND, away, WELL)
    assert at_once(spec, for_at_least=60).execute(context())["records"] == 10
    looking(monkeypatch, BEHIND, replace(BEHIND, at=1090.0))
    ti = Ti()
    with pytest.raises(AirflowFailException, match=r"11 records; 10 are allowed\. This has lasted for 1 min 30 s\."):
        at_once(spec, for_at_least=60).execute(context(ti))
    assert ti.xcoms["return_value"]["records"] == 11


def test_the_gate_shows_alarms_by_the_streams_own_ceilings(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    found = report(partition(5), seconds=350.0, commit_age=350.0, unread_before={600.0: False})
    looking(monkeypatch, LagLook(1000.0, found))
    gate = StreamCaughtUpSensor(task_id="t", stream=spec, moment="1970-01-01T00:10Z", deferrable=False)
    assert gate.execute(context())["queries"][0]["alarms"] == ["COMMIT_AGE"]
    gate = StreamCaughtUpSensor(task_id="t", group="g", kafka="k", moment="1970-01-01T00:10Z", deferrable=False)
    assert gate.execute(context())["queries"][0]["alarms"] == []


@pytest.mark.parametrize(("soft_fail", "error"), [(False, AirflowSensorTimeout), (True, AirflowSkipException)])
def test_without_deferring_its_timeout_is_that_of_every_sensor(
    spec: StreamSpec, monkeypatch: pytest.MonkeyPatch, soft_fail: bool, error: type[Exception]
) -> None:
    looking(monkeypatch, BEHIND)
    with pytest.raises(error, match="Sensor has timed out"):
        at_once(spec, for_at_least=60, timeout=0.05, soft_fail=soft_fail).execute(context())
