"""People are told how an upgrade or a roll-back ended, and that an upgrade waits for them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.monitoring.alert import Alert
from airflow_stream_provider.monitoring.recipients import takes_alerts
from airflow_stream_provider.notifications.upgrade import UpgradeNotifier
from airflow_stream_provider.runbook.form import DagOptions
from airflow_stream_provider.runbook.operate import operate_dag
from airflow_stream_provider.runbook.upgrade import upgrade_dag
from airflow_stream_provider.spec.stream import NotifySpec, StreamSpec
from tests.support.tasks import spec_in

TOLD: list[Alert] = []


@takes_alerts
def tell(alert: Alert) -> None:
    TOLD.append(alert)


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    TOLD.clear()
    return spec_in(tmp_path).model_copy(update={"notify": (NotifySpec(call=f"{__name__}.tell"),)})


def failed(error: str) -> Any:
    return {"ti": SimpleNamespace(run_id="manual__1"), "exception": RuntimeError(error)}


def ended(**pulled: Any) -> Any:
    """The context of a task `t` that ended well; `line` and `value` are its XCom."""

    def pull(task_ids: str, key: str = "value") -> Any:
        assert task_ids == "t"
        return pulled.get(key)

    return {"ti": SimpleNamespace(run_id="manual__1", task_id="t", xcom_pull=pull)}


def called(dag: DAG, task_id: str, name: str, context: Any) -> Alert:
    callbacks: Any = getattr(dag.get_task(task_id), name)
    (callback,) = callbacks
    callback(context)
    (alert,) = TOLD
    return alert


def test_the_last_task_of_the_upgrade_tells_whom_the_yaml_names(spec: StreamSpec) -> None:
    dag: DAG = upgrade_dag(spec, DagOptions())
    why = "Release 2 took over and did not stay. It is late. Rolled back."
    alert = called(dag, "report", "on_failure_callback", failed(why))
    assert (alert.kind, alert.open, alert.incident) == ("upgrade", True, "orders-upgrade-manual__1")
    assert alert.subject == f"orders: {why}"
    assert alert.text.startswith("Release 2 took over and did not stay.")
    for name in ("on_failure_callback", "on_success_callback"):
        assert [task for task in dag.task_ids if getattr(dag.get_task(task), name)] == ["report"]


def test_they_are_told_of_an_upgrade_that_went_well_too(spec: StreamSpec) -> None:
    line = "Release 2 has taken over from release 1."
    alert = called(upgrade_dag(spec, DagOptions()), "report", "on_success_callback", ended(line=line))
    assert (alert.open, alert.incident, alert.subject) == (False, "orders-upgrade-manual__1", f"orders: {line}")
    assert alert.text.startswith(line)


def test_they_are_told_of_a_roll_back_by_hand(spec: StreamSpec) -> None:
    value = {"version": "1", "request": "r", "boundary": "completed", "gap_seconds": {"a": 1.0}}
    alert = called(operate_dag(spec, DagOptions()), "roll-back", "on_success_callback", ended(value=value))
    assert alert.subject.startswith("orders: Rolled back to release 1. Gap: a 1.0 s. Nothing lost, nothing doubled")
    TOLD.clear()
    alert = called(operate_dag(spec, DagOptions()), "roll-back", "on_failure_callback", failed("It cannot."))
    assert (alert.open, alert.subject) == (True, "orders: It cannot.")


def test_they_are_told_that_an_upgrade_waits_for_them(spec: StreamSpec) -> None:
    asked = spec.model_copy(update={"upgrade": spec.upgrade.model_copy(update={"approval": True})})
    task: Any = upgrade_dag(asked, DagOptions()).get_task("approve")
    (notifier,) = task.notifiers
    task.subject = "Hand orders over to release 2?"
    ti = SimpleNamespace(dag_id="orders__upgrade", run_id="manual__1", task_id="approve", map_index=-1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example.org")
        notifier({"ti": ti, "task_instance": ti, "task": task})
    (alert,) = TOLD
    assert (alert.open, alert.incident) == (True, "orders-upgrade-manual__1")
    assert "waits for a yes. Hand orders over to release 2? Answer within 1:00:00." in alert.subject
    assert "/dags/orders__upgrade/runs/manual__1/tasks/approve/required_actions" in alert.links["Answer"]


def test_one_who_is_not_reached_is_an_error_and_the_others_are_told(spec: StreamSpec) -> None:
    def broken(alert: Alert) -> None:
        raise ConnectionError("no line today")

    with pytest.raises(StreamError, match=r"could not be delivered to .*broken"):
        UpgradeNotifier(stream=spec, to=[broken, tell]).notify(failed("Why."))
    assert len(TOLD) == 1
