"""The DAG of the watch, and the one that brings a stream back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.exceptions import AirflowFailException, DagRunTriggerException
from airflow.serialization.serialized_objects import DagSerialization

from airflow_stream_provider.operators.watch import ReviveStreamOperator
from airflow_stream_provider.runbook.form import DagOptions
from airflow_stream_provider.runbook.watch import TriggerStreamRunOperator, revive_dag, watch_dag
from tests.support.spec_text import SPEC


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
    assert revive.operator_class is TriggerStreamRunOperator
    assert revive.upstream_task_ids == {"look"}
    sent = DagSerialization.to_dict(dag)["dag"]["tasks"][1]["__var"]["partial_kwargs"]
    assert (sent["streams"], sent["prefix"]) == (str(tmp_path), "p."), "the scheduler reads it"
    assert revive.retries == 3


def test_one_dag_brings_all_streams_of_a_folder_back(tmp_path: Path) -> None:
    dag = revive_dag("streams", DagOptions(prefix="p."))
    schedule: Any = dag.schedule
    assert (dag.dag_id, schedule) == ("p.streams__revive", None)
    # As many as streams may be down, with another run beside each.
    assert dag.max_active_runs >= 2000
    # Longer than any wait that goes on; a run that hangs does not keep the next ones from theirs.
    assert dag.dagrun_timeout == timedelta(minutes=45)
    assert dag.is_paused_upon_creation is False
    task = dag.get_task("revive")
    assert isinstance(task, ReviveStreamOperator)
    assert (task.given, task.watch) == (False, "p.streams__watch")
    assert "params.stream" in task.name
    assert list(dag.params) == ["stream", "control"]
    assert "Paused, it means: bring no stream of this folder back." in str(dag.doc_md)


@pytest.fixture
def streams(tmp_path: Path) -> Path:
    (tmp_path / "orders.yaml").write_text(SPEC.format(name="orders"))
    (tmp_path / "payments.yaml").write_text(SPEC.format(name="payments") + "upgrade: {on_change: true}\n")
    return tmp_path


def triggered(streams: Path, **found: Any) -> tuple[str, str | None, Any]:
    """Return what is triggered for what a look has left in XCom: DAG, run and form."""
    task = TriggerStreamRunOperator(
        task_id="t", streams=streams, prefix="p.", revive_dag_id="p.streams__revive", **found
    )
    context: Any = {"run_id": "scheduled__1", "ti": None}
    with pytest.raises(DagRunTriggerException) as said:
        task.execute(context)
    return said.value.trigger_dag_id, said.value.dag_run_id, said.value.conf


def test_the_watch_triggers_what_a_look_has_found_with_a_form_of_its_own(streams: Path) -> None:
    other: dict[str, Any] = {"trigger_run_id": "any", "conf": {"stream": "orders", "confirmed_by": "me"}}
    back = ("p.streams__revive", "any", {"stream": "orders", "control": ""})
    assert triggered(streams, trigger_dag_id="p.streams__revive", **other) == back
    upgrade: tuple[str, str, dict[str, Any]] = ("p.payments__upgrade", "change__2b__payments-1", {})
    assert triggered(streams, trigger_dag_id=upgrade[0], trigger_run_id=upgrade[1], conf={"version": "9"}) == upgrade
    assert triggered(streams, trigger_dag_id=upgrade[0], trigger_run_id="any")[1:] == ("change__any", {})
    fresh = {"release": "0" * 64, "reason": "Refresh 1: The heap is full in 5 h."}
    forged: dict[str, Any] = {"trigger_run_id": "refresh__r-1", "conf": {**fresh, "rewind": "a year"}}
    (streams / "refreshed.yaml").write_text(SPEC.format(name="refreshed") + "upgrade: {refresh: auto}\n")
    assert triggered(streams, trigger_dag_id="p.refreshed__upgrade", **forged)[1:] == ("refresh__r-1", fresh)
    with pytest.raises(AirflowFailException, match="is not triggered"):
        triggered(streams, trigger_dag_id="p.refreshed__upgrade", trigger_run_id="refresh__r-2", conf={"release": ""})
    assert triggered(streams, trigger_dag_id=upgrade[0], **forged)[1:] == ("change__refresh__r-1", {}), (
        "not in its YAML"
    )


@pytest.mark.parametrize(
    "dag_id",
    [
        "streams__revive",
        "p.orders__operate",
        "p.orders__upgrade",
        "p.gone__upgrade",
        "p.payroll",
        "p.",
        "",
        "p.__upgrade",
    ],
)
def test_the_watch_triggers_no_other_dag_whatever_is_in_its_xcom(streams: Path, dag_id: str) -> None:
    task = TriggerStreamRunOperator(
        task_id="t", streams=streams, prefix="p.", revive_dag_id="p.streams__revive", trigger_dag_id=dag_id
    )
    context: Any = {"run_id": "scheduled__1"}
    with pytest.raises(AirflowFailException, match="is not triggered"):
        task.execute(context)
