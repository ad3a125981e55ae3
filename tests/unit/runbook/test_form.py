"""Every field of every form: the UI keeps its button grey for none that may be left empty, and tasks read nothing."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.sdk.configuration import conf
from airflow.sdk.definitions.param import Param, ParamsDict
from airflow.sdk.exceptions import ParamValidationError

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.runbook.dags import stream_dags
from airflow_stream_provider.runbook.form import REQUIRED, DagOptions
from tests.support.spec_text import SPEC

ROOT = Path(__file__).parents[3]
MORE = """\
arguments: [--a, ""]
kafka: k
py_files: [apps/b.py]
upgrade: {approval: true, approvers: [anna], free_arguments: true, on_change: true, schedule: "0 4 * * 0"}
watch: {schedule: 10s}
"""
# What a person has to fill in; all else may be left as it is.
TO_FILL_IN = {"operate": {"operation", "reason"}, "trial": {"reason"}, "retire": {"deployment"}, "revive": {"stream"}}


@pytest.fixture(params=["examples", "every option", "no schedule"])
def dags(request: pytest.FixtureRequest, streams: Path) -> dict[str, DAG]:
    if request.param == "examples":
        return stream_dags(ROOT / "dags" / "streams")
    more = {"every option": MORE, "no schedule": "watch: {schedule: null}\n"}[request.param]
    (streams / "orders.yaml").write_text(SPEC.format(name="orders") + more)
    return stream_dags(streams, prefix="shop.", tags=["team"], owner="anna", default_args={"retries": 1})


def grey(param: Param) -> bool:
    """Whether Airflow's UI keeps the Trigger button grey (FlexibleForm.tsx, isParamRequired.ts of 3.3)."""
    type = param.schema.get("type")
    return bool(type) and "null" not in (type if isinstance(type, list) else [type]) and param.value in (None, "")


def test_only_what_says_so_has_to_be_filled_in(dags: dict[str, DAG]) -> None:
    assert {dag_id.rpartition("__")[2] for dag_id in dags} == {
        "upgrade",
        "operate",
        "trial",
        "retire",
        "revive",
        "watch",
    }
    for dag_id, dag in dags.items():
        form = {name: dag.params.get_param(name) for name in dag.params}
        to_fill_in = TO_FILL_IN.get(dag_id.rpartition("__")[2], set())
        assert {name for name, param in form.items() if grey(param)} == to_fill_in, dag_id
        for name, param in form.items():
            assert "`" not in (param.description or ""), f"the UI shows the marks of {name} of {dag_id}"
            about = param.description or param.schema.get("description_md") or ""
            assert about.startswith(REQUIRED) == (name in to_fill_in)
            if name in to_fill_in:
                with pytest.raises(ParamValidationError):
                    param.resolve()
            else:
                param.resolve()
                assert param.value != "", f"{name} of {dag_id}"


def test_what_was_emptied_is_taken(dags: dict[str, DAG]) -> None:
    """The UI sends null for a field that was filled in and emptied again, and callers of the REST API may send ""."""
    for dag in dags.values():
        for name in dag.params:
            param = dag.params.get_param(name)
            if param.value is None and not grey(param):
                assert (param.resolve(None), param.resolve("")) == (None, "")


@pytest.mark.parametrize("nothing", [None, "", "  "])
def test_tasks_read_nothing_of_what_was_left_empty(dags: dict[str, DAG], nothing: str | None) -> None:
    for dag_id, dag in dags.items():
        form = {name: dag.params.get_param(name) for name in dag.params}
        values = {name: nothing if param.value is None else param.value for name, param in form.items()}
        values |= {name: "x" for name, param in form.items() if grey(param)}
        looked = {"lines": [], "parts": [], "deployment": "", "reason": "", "confirmed_by": "", "reads_again": ""}
        pull = lambda task_ids=None, looked=looked, **more: looked if task_ids == "look" else None  # noqa: E731
        run = SimpleNamespace(run_type="manual", run_id="manual__1")
        context: Any = {"params": values, "ti": SimpleNamespace(xcom_pull=pull), "dag_run": run, "run_id": "manual__1"}
        for task in dag.tasks:
            if task.is_mapped:
                continue
            written = {name: getattr(task, name) for name in task.template_fields}
            task.render_template_fields(context, dag.get_template_env())
            for name, template in written.items():
                if "params." in str(template):
                    assert "None" not in str(getattr(task, name)), f"{name} of {dag_id}.{task.task_id}"


@pytest.mark.parametrize(("said", "yes"), [(None, False), ("", False), (" ", False), ("abcd", True)])
def test_only_a_form_that_names_a_release_redeploys_one(streams: Path, said: str | None, yes: bool) -> None:
    dag = stream_dags(streams)["orders__upgrade"]
    submit: Any = dag.get_task("submit")
    approve: Any = dag.get_task("approve")
    params = {**dag.params.dump(), "release": said, "rewind": said}
    ti = SimpleNamespace(xcom_pull=lambda task_ids=None, key="": None)
    run = SimpleNamespace(run_type="manual", run_id="manual__1")
    context: Any = {"params": params, "ti": ti, "dag_run": run, "run_id": "manual__1"}
    for task in (submit, approve):
        task.render_template_fields(context, dag.get_template_env())
    assert submit.redeployed == str(yes)
    assert ("read records again" in approve.subject) is yes


def test_texts_that_were_emptied_are_none(streams: Path) -> None:
    (streams / "orders.yaml").write_text(SPEC.format(name="orders") + MORE)
    dag = stream_dags(streams)["orders__upgrade"]
    check: Any = dag.get_task("check")
    template = check.arguments
    for value, read in ((["--a", ""], ["--a", ""]), ([], []), (None, [])):
        dag.params.get_param("arguments").resolve(value)
        assert json.loads(check.render_template(template, {"params": {"arguments": value}})) == read


def test_a_form_of_plain_texts_would_be_caught() -> None:
    """The forms of before: what this file looks for is there to be found."""
    assert grey(ParamsDict({"release": Param("", type="string")}).get_param("release"))
    assert not grey(ParamsDict({"release": Param(None, type=["null", "string"])}).get_param("release"))


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
    first = options.dag("a", "upgrade", tags=[])
    assert {"max_active_tasks_per_dag", "disable_bundle_versioning"} <= set(read)
    once = list(read)  # How often Airflow asks itself for one value is its own affair: with some configurations, twice.
    dags = [first, *(options.dag(name, "upgrade", tags=[]) for name in ("b", "c"))]
    assert {dag.max_active_tasks for dag in dags} == {7}
    assert read == once
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
