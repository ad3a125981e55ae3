"""DAGs of single operators, as a user would write them beside the runbook."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.operators.stream import RollBackOperator, StartStreamOperator, StopStreamOperator
from airflow_stream_provider.operators.upgrade import SubmitStandbyOperator
from airflow_stream_provider.sensors.stream import StreamSensor
from airflow_stream_provider.spec.stream import load_spec


def by_hand_dags(folder: Path) -> dict[str, DAG]:
    found = {}
    for path in sorted(folder.glob("*.yaml")):
        try:
            spec = load_spec(path)
        except SpecError:
            continue
        bad = "{{ dag_run.conf['deployment'] }}"
        for name, operator, settings in (
            ("stop", StopStreamOperator, {}),
            ("start", StartStreamOperator, {"version": "{{ dag_run.conf['version'] }}"}),
            ("submit", SubmitStandbyOperator, {"version": "{{ dag_run.conf['version'] }}"}),
            ("back", RollBackOperator, {"deployment": bad, "reason": "a person says so"}),
            ("sense", StreamSensor, {"phases": "running", "version": "{{ dag_run.conf['version'] }}", "timeout": 20}),
        ):
            with DAG(f"{spec.name}__{name}", schedule=None, default_args={"retries": 3}) as dag:
                operator(task_id=name, stream=spec, **settings)
            found[dag.dag_id] = dag
    return found
