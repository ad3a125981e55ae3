"""Tries of a stream operator's task, against a real control log and without a database."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_stream_provider.control import make_root
from airflow_stream_provider.operators.base import StreamOperator
from airflow_stream_provider.planning.signs_of_life import SignsOfLife
from airflow_stream_provider.planning.steps import TaskIdentity
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.spec.stream import StreamSpec

# The task that `run` runs.
IDENTITY = TaskIdentity("dag", "run", "t")


def spec_in(folder: Path) -> StreamSpec:
    """A stream whose control log is in this folder, and whose connections do not exist."""
    make_root(f"file://{folder}")
    return StreamSpec.model_validate(
        {
            "name": "orders",
            "application": "a.py",
            "version": "2",
            "cluster": "no_such_connection",
            "control": f"file://{folder}",
            "kafka": "no_such_kafka",
            "lag": {"max_seconds": 10},
        }
    )


def context(pushed: dict[str, Any] | None = None) -> Any:
    """The context of a try; what it pushes as XCom is in `pushed`."""

    def push(key: str, value: Any) -> None:
        if pushed is not None:
            pushed[key] = value

    ti = SimpleNamespace(dag_id="dag", run_id="run", task_id="t", map_index=-1, xcom_push=push)
    return {"ti": ti}


def run(operator: StreamOperator, event: WaitOutcome | None = None) -> Any:
    """Begin a try; with an event, continue it after its wait."""
    if event is None:
        return operator.execute(context())
    return operator.resume(context(), event.to_event())


def waits(operator: StreamOperator, event: WaitOutcome | None = None) -> dict[str, Any]:
    """Run a try until it defers, as `run`; return the condition that its trigger waits for."""
    with pytest.raises(TaskDeferred) as deferred:
        run(operator, event)
    condition: dict[str, Any] = deferred.value.trigger.serialize()[1]["condition"]
    return condition


def lives(*drivers: str) -> WaitOutcome:
    """These have given a sign of life."""
    return WaitOutcome(Ended.REACHED, SignsOfLife.SUBJECT, evidence=dict.fromkeys(drivers, True), deadline=4e9)
