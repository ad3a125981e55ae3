"""The DAG of the watch, and the one that brings a stream back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk.definitions.mappedoperator import MappedOperator

from airflow_stream_provider.operators.revive import ReviveStreamOperator
from airflow_stream_provider.runbook.options import DagOptions
from airflow_stream_provider.runbook.watch import revive_dag, watch_dag
from tests.support.tasks import spec_in


def test_a_look_waits_neither_for_triggers_nor_for_another_look(tmp_path: Path) -> None:
    dag = watch_dag("streams", tmp_path, DagOptions(prefix="p."), 60.0)
    assert dag.dag_id == "p.streams__watch"
    assert dag.schedule == timedelta(minutes=1)
    assert (dag.catchup, dag.is_paused_upon_creation) == (False, False)
    assert dag.max_active_runs > 1
    look: Any = dag.get_task("look")
    assert (look.max_active_tis_per_dag, look.retries, look.streams, look.prefix) == (1, 0, tmp_path, "p.")
    assert look.execution_timeout == timedelta(minutes=5)
    assert dag.dagrun_timeout == timedelta(minutes=15)
    revive: Any = dag.get_task("revive")
    assert isinstance(revive, MappedOperator)
    assert revive.operator_class is TriggerDagRunOperator
    assert revive.upstream_task_ids == {"look"}
    assert revive.retries == 3


def test_a_stream_is_brought_back_by_one_run_or_another_beside_it(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    dag = revive_dag(spec, DagOptions(prefix="p."))
    schedule: Any = dag.schedule
    assert (dag.dag_id, schedule, dag.max_active_runs) == ("p.orders__revive", None, 2)
    # Longer than any wait that goes on; a run that hangs does not keep the next ones from theirs.
    assert dag.dagrun_timeout == timedelta(minutes=45)
    assert dag.is_paused_upon_creation is False
    task = dag.get_task("revive")
    assert isinstance(task, ReviveStreamOperator)
    assert task.stream is spec
    assert dag.params.get_param("look").resolve() is None
    assert "Paused, it means: do not bring this stream back." in str(dag.doc_md)
