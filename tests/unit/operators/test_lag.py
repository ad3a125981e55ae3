"""The lag as a task's result: measured in the triggerer or here, and what a wait in vain says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_stream_provider.kafka.connect import BrokerUnreachable
from airflow_stream_provider.lag.report import LagReport
from airflow_stream_provider.lag.summary import summary
from airflow_stream_provider.lag.targets import LagTarget
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.operators import lag
from airflow_stream_provider.operators.lag import KafkaLagOperator
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.spec.stream import StreamSpec
from airflow_stream_provider.triggers.grace import TRIGGER_GRACE_SECONDS
from tests.support.lag_reports import partition, report
from tests.support.tasks import context


def here(monkeypatch: pytest.MonkeyPatch, found: LagReport | Exception) -> list[LagTarget]:
    """Let a measurement in the worker find this; return the list of what is measured."""
    measured: list[LagTarget] = []

    def measure(target: LagTarget, moments: Any) -> LagReport:
        measured.append(target)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(lag, "measure_now", measure)
    return measured


@pytest.mark.parametrize(("wait_seconds", "interval"), [(120.0, 10.0), (3.0, 3.0)])
def test_it_waits_for_one_look_with_its_partitions(spec: StreamSpec, wait_seconds: float, interval: float) -> None:
    operator = KafkaLagOperator(task_id="t", stream=spec, wait_seconds=wait_seconds)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context())
    assert deferred.value.timeout == timedelta(seconds=wait_seconds + TRIGGER_GRACE_SECONDS)
    trigger = deferred.value.trigger.serialize()[1]
    assert (trigger["partitions"], trigger["interval"]) == (True, interval)
    assert (trigger["condition"]["condition"], trigger["condition"]["limits"]["max_seconds"]) == ("Measured", 10)
    assert (trigger["target"]["stream"], trigger["target"]["kafka"]) == ("orders", "no_such_kafka")


def test_a_lag_beyond_its_limits_is_no_failure(monkeypatch: pytest.MonkeyPatch, spec: StreamSpec) -> None:
    measured = here(monkeypatch, report(partition(5000), seconds=900.0))
    found = KafkaLagOperator(task_id="t", stream=spec, deferrable=False).execute(context())
    assert (found["records"], found["seconds"], found["complete"]) == (5000, 900.0, True)
    assert found["queries"][0]["partitions"][0]["lag"] == 5000
    assert measured == [LagTarget("no_such_kafka", "orders", spec.control)]


@pytest.mark.parametrize(
    ("found", "error"),
    [(SpecError("There is no connection."), AirflowFailException), (BrokerUnreachable("Away."), BrokerUnreachable)],
    ids=["a person must act first", "retried"],
)
def test_what_cannot_be_measured_here(
    monkeypatch: pytest.MonkeyPatch, spec: StreamSpec, found: Exception, error: type[Exception]
) -> None:
    here(monkeypatch, found)
    with pytest.raises(error):
        KafkaLagOperator(task_id="t", stream=spec, deferrable=False).execute(context())


def resumed(spec: StreamSpec, outcome: WaitOutcome) -> dict[str, Any]:
    return KafkaLagOperator(task_id="t", stream=spec).resume(context(), outcome.to_event())


def test_what_the_triggerer_measured_is_the_result(spec: StreamSpec) -> None:
    assert resumed(spec, WaitOutcome(Ended.REACHED, "orders", evidence={"records": 5})) == {"records": 5}


def test_a_kafka_that_did_not_answer_is_tried_again(spec: StreamSpec) -> None:
    timeout = WaitOutcome(Ended.TIMEOUT, "orders", "Timed out. Last problem: Away.")
    with pytest.raises(StreamError, match=r"orders: Timed out\. Last problem: Away\. The task waited 120 s\."):
        resumed(spec, timeout)


def test_so_is_a_connection_that_stayed_unreadable(spec: StreamSpec) -> None:
    with pytest.raises(StreamError, match="There is no connection"):
        resumed(spec, WaitOutcome(Ended.CANNOT_LOOK, "orders", "There is no connection."))


@pytest.mark.parametrize("given", [{}, {"group": "g"}, {"kafka": "k"}])
def test_a_target_that_is_none_is_refused_while_the_dag_is_parsed(given: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        KafkaLagOperator(task_id="t", **given)


def test_the_docstring_names_all_that_is_returned() -> None:
    found = summary(report(partition(5)))
    (query,) = found["queries"]
    names = {*found, *query, *query["partitions"][0]}
    assert {"ages_known", "held_by", "raw_lag"} <= names
    assert {name for name in names if f"`{name}`" not in (KafkaLagOperator.__doc__ or "")} == set()
