"""The DAG of what a person does by hand: its order of tasks, its form, and who is skipped."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowSkipException, ParamValidationError

from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.runbook.form import DagOptions
from airflow_stream_provider.runbook.operate import operate_dag
from airflow_stream_provider.spec.shown import read_shown
from airflow_stream_provider.spec.stream import load_spec

PARTS = ["stop", "roll-back", "abort", "fence", "promote", "start", "restart", "retire", "upgrade"]


@pytest.fixture
def dag(streams: Path) -> DAG:
    return operate_dag(load_spec(streams / "orders.yaml"), DagOptions())


def test_its_tasks_have_their_order(dag: DAG) -> None:
    order = ["look", "confirm", *PARTS, "tell"]
    adoption = {"stand_by", "job_ended", "adopt", "discard"}
    assert [task.task_id for task in dag.topological_sort() if task.task_id not in adoption] == order
    for before, after in pairwise(order):
        assert dag.get_task(before).downstream_task_ids - adoption == {after}


def test_the_form_offers_every_operation_and_demands_a_reason(dag: DAG) -> None:
    form = dag.params
    assert form.get_param("operation").schema["enum"] == [operation.value for operation in Operation]
    for name in ("operation", "reason"):
        with pytest.raises(ParamValidationError):
            form.get_param(name).resolve()
    with pytest.raises(ParamValidationError):
        form.get_param("reason").resolve("")
    assert (form["confirmed_by"], form["job"], form["ask"]) == (None, None, True)


@pytest.mark.parametrize(
    ("parts", "run"),
    [
        ([], []),
        (["stop"], ["stop"]),
        (["restart"], ["restart"]),
        (["retire"], ["retire"]),
        (["fence"], ["fence"]),
        (["upgrade"], ["upgrade"]),
    ],
)
def test_only_what_was_asked_for_runs(dag: DAG, parts: list[str], run: list[str]) -> None:
    context: Any = {"ti": SimpleNamespace(xcom_pull=lambda task_ids: {"parts": parts})}
    ran = []
    for part in PARTS:
        task: Any = dag.get_task(part)
        try:
            task._pre_execute_hook(context)
        except AirflowSkipException:
            continue
        ran.append(part)
    assert ran == run


def test_a_person_who_is_asked_sees_every_line_as_text(dag: DAG) -> None:
    task: Any = dag.get_task("confirm")
    looked = {"lines": ["orders is running: driver d holds it.", "It is killed."], "parts": ["fence"]}
    context: Any = {
        "ti": SimpleNamespace(xcom_pull=lambda task_ids: looked),
        "params": {"operation": "fence", "ask": True},
    }
    task.render_template_fields(context, dag.get_template_env())
    assert task.body == "```text\norders is running: driver d holds it.\nIt is killed.\n```"


def test_what_is_of_one_release_is_of_the_one_that_was_shown(dag: DAG) -> None:
    for part in PARTS:
        pinned = "ti.xcom_pull(task_ids='look')['deployment']" in str(getattr(dag.get_task(part), "deployment", ""))
        assert pinned == (part in ("roll-back", "abort", "fence", "promote"))


def test_the_page_finds_the_stream_in_it(dag: DAG, streams: Path) -> None:
    found = read_shown(dag.get_task("look").doc_json or "")
    spec = load_spec(streams / "orders.yaml")
    assert found is not None
    assert found.spec is not None
    assert (found.name, found.spec.control, found.spec.cluster) == (spec.name, spec.control, spec.cluster)


@pytest.mark.parametrize("release", ["", "abcd", "ABCDEF01" * 8])
def test_the_form_takes_the_first_digits_of_a_hash(dag: DAG, release: str) -> None:
    assert dag.params.get_param("release").resolve(release) == release
    for wrong in ("abc", "xyzw", "a" * 65, "abcd "):
        with pytest.raises(ParamValidationError):
            dag.params.get_param("release").resolve(wrong)


def test_a_run_of_an_earlier_version_goes_on(dag: DAG) -> None:
    looked = {"lines": [], "parts": ["stop"], "reason": "why", "confirmed_by": "", "deployment": "", "reads_again": ""}
    pull = lambda task_ids, key="": looked if task_ids == "look" else None  # noqa: E731
    context: Any = {"ti": SimpleNamespace(xcom_pull=pull), "run_id": "1"}
    for name in ("upgrade", "stand_by", "job_ended", "adopt"):
        task: Any = dag.get_task(name)
        task.render_template_fields(context, dag.get_template_env())
    upgrade: Any = dag.get_task("upgrade")
    assert (upgrade.conf["release"], upgrade.conf["rewind"]) == ("", "")


@pytest.mark.parametrize("rewind", [None, {"queries": {"out": {"orders": {"0": 7}}}, "to": 1764000000.0}])
def test_an_upgrade_is_a_run_of_its_own_dag_with_what_was_shown(streams: Path, rewind: dict[str, Any] | None) -> None:
    dag = operate_dag(load_spec(streams / "orders.yaml"), DagOptions(prefix="shop."))
    task: Any = dag.get_task("upgrade")
    looked: dict[str, Any] = {"release": "ab" * 32, "reason": "2 is no good", "rewind": rewind}
    context: Any = {"ti": SimpleNamespace(xcom_pull=lambda task_ids: looked), "run_id": "manual__1"}
    task.render_template_fields(context, dag.get_template_env())
    assert (task.trigger_dag_id, task.trigger_run_id) == ("shop.orders__upgrade", "operate__manual__1")
    assert task.conf == {**looked, "rewind": json.dumps(rewind) if rewind else ""}
    assert task.fail_when_dag_is_paused
    assert task.skip_when_already_exists
    look: Any = dag.get_task("look")
    assert look.upgrade_dag_id == "shop.orders__upgrade"
