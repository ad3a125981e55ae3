"""What a user may say of all DAGs, and what is refused before any is built."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk.configuration import conf

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.runbook.form import DagOptions


def test_without_any_a_dag_has_what_we_say() -> None:
    with DagOptions().dag("orders", "upgrade", tags=["stream"]) as dag:
        task = EmptyOperator(task_id="t")
    schedule: Any = dag.schedule
    assert (dag.dag_id, schedule, dag.catchup, dag.tags) == ("orders__upgrade", None, False, {"stream"})
    assert (task.retries, task.retry_delay) == (3, timedelta(seconds=10))


def test_what_airflow_is_configured_to_holds_for_each_dag_and_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To read it takes a tenth of the time in which a DAG is made, and there are four for each stream."""
    monkeypatch.setenv("AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG", "7")
    read: list[str] = []
    plain = type(conf).get

    def get(self: Any, section: str, key: str, *more: Any, **named: Any) -> Any:
        read.append(key)
        return plain(self, section, key, *more, **named)

    monkeypatch.setattr(type(conf), "get", get)
    options = DagOptions()
    dags = [options.dag(name, "upgrade", tags=[]) for name in ("a", "b", "c")]
    assert {dag.max_active_tasks for dag in dags} == {7}
    assert read.count("max_active_tasks_per_dag") == read.count("disable_bundle_versioning") == 1
    assert options.dag("d", "upgrade", tags=[], max_active_runs=1).max_active_runs == 1


def test_all_of_them_reach_dag_and_tasks() -> None:
    options = DagOptions(
        {
            "retries": 5,
            "queue": "less",
            "execution_timeout": timedelta(hours=2),
            "depends_on_past": False,
            "do_xcom_push": True,
        },
        queue="streams",
        pool="slots",
        executor_config={"pod_override": 1},
        access_control={"Op": {"can_read"}},
        owner="payments",
        tags=["eu"],
        prefix="shop.",
    )
    with options.dag("orders", "upgrade", tags=["stream"]) as dag:
        task = EmptyOperator(task_id="t")
        ours = EmptyOperator(task_id="ours", retries=0)
    assert (dag.dag_id, dag.tags) == ("shop.orders__upgrade", {"stream", "eu"})
    assert dag.access_control == {"Op": {"DAGs": {"can_read"}}}
    assert (task.retries, task.queue, task.pool, task.owner) == (5, "streams", "slots", "payments")
    assert task.executor_config == {"pod_override": 1}
    assert task.execution_timeout == timedelta(hours=2)
    assert ours.retries == 0, "what we say of a task counts more"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"prefix": "shop/"}, "`prefix` cannot be used: 'shop/' cannot begin a DAG id."),
        ({"prefix": "a" * 101}, "cannot begin a DAG id"),
        ({"prefix": 7}, "7 cannot begin a DAG id"),
        ({"queue": ""}, "`queue` cannot be used: '' is not a name"),
        ({"pool": 3}, "`pool` cannot be used: 3 is not a name"),
        ({"owner": ["anna"]}, "`owner` cannot be used"),
        ({"tags": "eu"}, "`tags` cannot be used: 'eu' is no list of texts"),
        ({"tags": ["x" * 101]}, "is no list of texts"),
        ({"tags": 7}, "`tags` cannot be used"),
        ({"executor_config": ["pod"]}, "`executor_config` cannot be used: list is not a dict"),
        ({"access_control": {1: {"can_read"}}}, "`access_control` cannot be used"),
        ({"default_args": [("retries", 3)]}, "`default_args` cannot be used: list is not a dict"),
        ({"default_args": {"retires": 3}}, "no task has an argument 'retires'. Perhaps 'retries' is meant."),
        ({"default_args": {"trigger_rule": "always"}}, "'trigger_rule' would change what the tasks do"),
        ({"default_args": {"do_xcom_push": False}}, "'do_xcom_push' would change what the tasks do"),
        ({"default_args": {"multiple_outputs": True}}, "'multiple_outputs' would change what the tasks do"),
        ({"default_args": {"depends_on_past": True}}, "'depends_on_past' would change"),
    ],
)
def test_what_cannot_be_used_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError) as error:
        DagOptions(**options)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("prefix", "dag_id", "parts"),
    [
        ("", "orders__upgrade", ("orders", "upgrade")),
        ("", "a__b__upgrade", ("a__b", "upgrade")),
        ("p.", "p.orders__watch", ("orders", "watch")),
        ("p.", "orders__watch", None),
        ("", "mine", None),
    ],
)
def test_an_id_is_split_as_it_was_made(prefix: str, dag_id: str, parts: tuple[str, str] | None) -> None:
    options = DagOptions(prefix=prefix)
    assert options.split(dag_id) == parts
    assert parts is None or options.dag_id(*parts) == dag_id
