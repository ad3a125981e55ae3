"""The DAGs of a file that cannot be used: an upgrade that says why, and a revival by what is known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_stream_provider.control import make_root
from airflow_stream_provider.runbook.broken import (
    ReviveUnusableStreamOperator,
    UnusableStreamOperator,
    revive_unusable_dag,
    unusable_dag,
)
from airflow_stream_provider.runbook.options import DagOptions
from airflow_stream_provider.spec.folder import StreamFile, read_folder
from tests.support.control_root import new_log
from tests.support.story import STOPPED, write

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


def test_the_upgrades_one_task_fails_with_the_error(file: StreamFile) -> None:
    dag = unusable_dag(file, DagOptions())
    says = r"orders\.yaml, line 4, clutser: there is no such field\. Did you mean `cluster`\?"
    task: Any
    (task,) = dag.tasks
    assert (dag.dag_id, type(task)) == ("orders__upgrade", UnusableStreamOperator)
    with pytest.raises(AirflowFailException, match=says):
        task.execute({})
    assert str(file.error) in str(dag.doc_md)


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
    write(new_log(f"file://{tmp_path}/control"), *STOPPED)
    with pytest.raises(AirflowSkipException, match="Nobody is to run it"):
        revive(file, look)


def test_where_nothing_is_known_it_fails_with_the_error(file: StreamFile) -> None:
    file.path.write_text("[")
    with pytest.raises(AirflowFailException, match="there is no such field"):
        revive(file)
