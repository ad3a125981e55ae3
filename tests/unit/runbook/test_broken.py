"""The DAG of a file that cannot be used: its name, and that its task fails with the error."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.runbook.broken import UnusableStreamOperator, broken_dags


def error(file: str | None = "/streams/orders.yaml") -> SpecError:
    given = {} if file is None else {"file": file}
    return SpecError("line 3: this is not YAML.", next_step="Correct it.", **given)


@pytest.mark.parametrize(
    ("file", "taken", "dag_id"),
    [
        ("/streams/orders.yaml", (), "orders__upgrade"),
        ("/streams/orders.yml", ("orders__upgrade",), "orders.yml__upgrade"),
        ("/streams/orders eu (2).yaml", (), "orders-eu--2-__upgrade"),
        ("/streams/orders eu.yml", ("orders-eu__upgrade",), "orders-eu.yml__upgrade"),
        (None, (), "stream__upgrade"),
    ],
)
def test_it_has_the_name_of_its_file_unless_another_has_it(
    file: str | None, taken: tuple[str, ...], dag_id: str
) -> None:
    [dag] = broken_dags(error(file), taken)
    assert dag.dag_id == dag_id
    dag.validate()


def test_its_one_task_fails_with_the_error() -> None:
    [dag] = broken_dags(error(), ())
    schedule: Any = dag.schedule
    assert schedule is None
    assert "line 3: this is not YAML. Correct it." in str(dag.doc_md)
    task: Any
    (task,) = dag.tasks
    assert type(task) is UnusableStreamOperator
    with pytest.raises(AirflowFailException, match=r"line 3: this is not YAML\. Correct it\."):
        task.execute({})
