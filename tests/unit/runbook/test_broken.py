"""The DAGs of a file that cannot be used: an upgrade that says why, and a revival by what is known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from airflow_stream_provider.control import make_root, open_log
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from airflow_stream_provider.planning.waits import Ended, WaitOutcome
from airflow_stream_provider.runbook.dags import ReviveUnusableStreamOperator, revive_unusable_dag, unusable_dag
from airflow_stream_provider.runbook.form import DagOptions
from airflow_stream_provider.runbook.upgrade import retire_dag, upgrade_dag
from airflow_stream_provider.spec.folder import StreamFile, read_folder
from tests.support.control_root import log_of, new_log
from tests.support.snapshots import UPGRADED
from tests.support.story import NEW_DEPLOYMENT, STOPPED, write
from tests.support.tasks import context

GOOD = "name: orders\napplication: a.py\ncluster: c\ncontrol: file://{0}/control\nversion: '1'\n"
BROKEN = "name: orders\napplication: a.py\nversion: 1.0\nclutser: c\ncontrol: file://{0}/control\n"


@pytest.fixture
def file(tmp_path: Path) -> StreamFile:
    (tmp_path / "orders.yaml").write_text(BROKEN.format(tmp_path))
    [file] = read_folder(tmp_path)
    return file


def revive(file: StreamFile, look: str = "", **kept: Any) -> Any:
    def pull(**where: Any) -> Any:
        assert where == {"dag_id": "w", "task_ids": "look", "run_id": look, "key": "last_good", "map_indexes": -1}
        return kept or None

    dag = revive_unusable_dag(file, DagOptions(), "w")
    task = dag.get_task("revive")
    assert isinstance(task, ReviveUnusableStreamOperator)
    ti = SimpleNamespace(dag_id=dag.dag_id, run_id="r", task_id="revive", map_index=-1, xcom_pull=pull, xcom_push=None)
    context: Any = {"ti": ti, "params": {"look": look}}
    return task.execute(context)


def upgrade(file: StreamFile) -> DAG:
    return unusable_dag(file, DagOptions())


def test_a_new_upgrade_fails_with_the_error(file: StreamFile) -> None:
    make_root(f"file://{file.path.parent}/control")
    dag = upgrade(file)
    says = r"orders\.yaml, line 4, clutser: there is no such field\. Did you mean `cluster`\?"
    for task_id in ("check", "submit"):
        task: Any = dag.get_task(task_id)
        # What a form would say makes no release of it.
        task.version, task.application, task.arguments, task.changed_checkpoints = "2", "b.py", "[]", "[]"
        task.checked, task.rewind = "null", ""
        with pytest.raises(AirflowFailException, match=says):
            task.execute(context())
    assert open_log(f"file://{file.path.parent}/control", "orders").records() == []
    assert str(file.error) in str(dag.doc_md)
    assert "unusable" in dag.tags


@pytest.mark.parametrize("more", ["", "upgrade: {soak: 1h}\n", "upgrade: {approval: true, approvers: [anna]}\n"])
@pytest.mark.parametrize("fault", ["versoin: 1\n", "conf: [\n", "kafka: h:7\n", "\t\n", "}\n"])
def test_its_dags_have_the_tasks_that_they_have_with_a_good_file(tmp_path: Path, more: str, fault: str) -> None:
    """Airflow removes the tasks that are gone from the runs that have begun."""
    path = tmp_path / "orders.yaml"
    path.write_text(GOOD.format(tmp_path) + more)
    [good] = read_folder(tmp_path)
    assert good.spec is not None
    path.write_text(GOOD.format(tmp_path) + more + fault)
    [broken] = read_folder(tmp_path)
    assert broken.spec is None
    was, now = upgrade_dag(good.spec, DagOptions()), upgrade(broken)
    assert [relations(task) for task in now.tasks] == [relations(task) for task in was.tasks]
    assert retire_dag(broken.known, DagOptions()).task_ids == retire_dag(good.spec, DagOptions()).task_ids


def relations(task: Any) -> tuple[Any, ...]:
    return task.task_id, type(task), task.downstream_task_ids, task.trigger_rule, task.is_teardown


@pytest.mark.parametrize("text", ["", "[", "name: orders\ncontrol: s3://x\n"])
def test_of_a_file_that_says_nothing_the_tasks_stay_and_may_be_retried(tmp_path: Path, text: str) -> None:
    """An editor writes a file in two steps, and a parse may come between."""
    (tmp_path / "orders.yaml").write_text(GOOD.format(tmp_path) + "upgrade: {approval: true}\n")
    [good] = read_folder(tmp_path)
    assert good.spec is not None
    (tmp_path / "orders.yaml").write_text(text)
    [broken] = read_folder(tmp_path)
    dag = upgrade(broken)
    assert dag.task_ids == upgrade_dag(good.spec, DagOptions()).task_ids
    event: Any = WaitOutcome(Ended.REACHED, deadline=4e9).to_event()
    for task_id in ("make_room", "hand_over", "soak", "roll_back", "discard", "report"):
        task: Any = dag.get_task(task_id)
        with pytest.raises(StreamError, match=r"orders\.yaml, line \d") as caught:
            task.resume(context(), event)
        assert not isinstance(caught.value, SpecError)


@pytest.mark.parametrize("task_id", ["approve", "stop_first"])
def test_nobody_is_asked_and_nothing_stopped_for_a_release_that_cannot_be_submitted(
    file: StreamFile, task_id: str
) -> None:
    file.path.write_text(file.path.read_text() + "upgrade: {approval: true}\n")
    task: Any = upgrade(file).get_task(task_id)
    task.strategy, task.rehearsal = "restart", "null"
    with pytest.raises(StreamError, match="clutser") as caught:
        task.execute(context())
    assert not isinstance(caught.value, SpecError)


def test_a_run_that_has_begun_keeps_what_was_said_when_it_began(file: StreamFile) -> None:
    said = {"version": "2", "application": "apps/b.py", "arguments": ["--x"], "strategy": "restart"}
    dag = upgrade(file)
    for task in dag.tasks:
        found = process_params(dag, task, {**said, "changed_checkpoints": []}, suppress_exception=False)
        assert found.items() >= said.items()


def test_what_has_begun_goes_on_from_the_control_log(file: StreamFile) -> None:
    make_root(f"file://{file.path.parent}/control")
    log_of(f"file://{file.path.parent}/control", *UPGRADED)
    dag = upgrade(file)
    hand_over: Any = dag.get_task("hand_over")
    soak: Any = dag.get_task("soak")
    hand_over.deployment = soak.deployment = NEW_DEPLOYMENT
    assert hand_over.execute(context())["holder"] == NEW_DEPLOYMENT
    with pytest.raises(TaskDeferred):
        soak.execute(context())
    assert soak.hook.cluster_conn_id == "spark_default"


def test_it_is_brought_back_by_the_last_good_declaration_that_the_look_has_left(
    file: StreamFile, tmp_path: Path
) -> None:
    file.path.write_text("[")
    elsewhere = f"file://{tmp_path}/elsewhere"
    write(new_log(elsewhere, "payments"), *STOPPED)
    good = {"name": "payments", "control": elsewhere, "cluster": "c"}
    with pytest.raises(AirflowSkipException, match="Nobody is to run it"):
        revive(file, "scheduled__1", orders=good)


@pytest.mark.parametrize("look", ["", "scheduled__1"])
def test_where_nothing_was_left_it_is_done_by_what_is_right_in_the_yaml(
    file: StreamFile, tmp_path: Path, look: str
) -> None:
    make_root(f"file://{tmp_path}/control")
    with pytest.raises(AirflowSkipException, match="never been deployed"):
        revive(file, look)
    log_of(f"file://{tmp_path}/control", *STOPPED)
    with pytest.raises(AirflowSkipException, match="Nobody is to run it"):
        revive(file, look)


def test_where_nothing_is_known_it_fails_with_the_error(file: StreamFile) -> None:
    file.path.write_text("[")
    with pytest.raises(AirflowFailException, match="there is no such field"):
        revive(file)
