"""People are told that an upgrade has failed or was rolled back."""

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
from airflow_stream_provider.runbook.options import DagOptions
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


def test_the_last_task_of_the_upgrade_tells_whom_the_yaml_names(spec: StreamSpec) -> None:
    dag: DAG = upgrade_dag(spec, DagOptions())
    callbacks: Any = dag.get_task("report").on_failure_callback
    (callback,) = callbacks
    callback(failed("Release 2 took over and did not stay. It is late. Rolled back."))
    (alert,) = TOLD
    assert (alert.kind, alert.open, alert.incident) == ("upgrade", True, "orders-upgrade-manual__1")
    assert alert.subject == "orders: Release 2 took over and did not stay. It is late. Rolled back."
    assert alert.text.startswith("Release 2 took over and did not stay.")
    assert [task for task in dag.task_ids if dag.get_task(task).on_failure_callback] == ["report"]


def test_one_who_is_not_reached_is_an_error_and_the_others_are_told(spec: StreamSpec) -> None:
    def broken(alert: Alert) -> None:
        raise ConnectionError("no line today")

    with pytest.raises(StreamError, match=r"could not be delivered to .*broken"):
        UpgradeNotifier(stream=spec, to=[broken, tell]).notify(failed("Why."))
    assert len(TOLD) == 1
