from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowSkipException, ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from airflow_stream_provider.control import make_root
from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.operators.soak import SoakOperator
from airflow_stream_provider.runbook.approval import ApproveUpgradeOperator
from airflow_stream_provider.runbook.broken import WatchUnusableStreamOperator
from airflow_stream_provider.runbook.dags import check_stream_dags, stream_dags
from airflow_stream_provider.spec.stream import load_spec
from tests.support.control_root import new_log

ROOT = Path(__file__).parents[3]
SPEC = (
    "name: {name}\napplication: apps/a.py\nversion: v1\ncluster: c\ncontrol: file:///d\nconf: {{spark.cores.max: 2}}\n"
)


@pytest.fixture
def streams(tmp_path: Path) -> Path:
    folder = tmp_path / "streams"
    folder.mkdir()
    (folder / "orders.yaml").write_text(SPEC.format(name="orders"))
    return folder


def test_each_stream_has_its_dags(streams: Path) -> None:
    dags = stream_dags(streams)
    assert set(dags) == {"orders__upgrade", "orders__retire", "orders__watch"}
    upgrade = dags["orders__upgrade"]
    order = ["check", "make_room", "stop_first", "submit", "judge", "hand_over", "soak", "retire", "report"]
    for before, after in pairwise(order):
        assert after in upgrade.get_task(before).downstream_task_ids
    assert upgrade.get_task("roll_back").upstream_task_ids == {"soak"}
    assert upgrade.get_task("discard").upstream_task_ids == {"roll_back"}
    assert upgrade.max_active_runs == 1
    for dag in dags.values():
        dag.validate()
        DagSerialization.to_dict(dag)


def test_a_stream_is_watched_every_minute_unless_it_says_otherwise(streams: Path) -> None:
    (streams / "quiet.yaml").write_text(SPEC.format(name="quiet") + "watch: {schedule: null}\n")
    dags = stream_dags(streams)
    watch = dags["orders__watch"]
    assert watch.schedule == timedelta(minutes=1)
    assert (watch.catchup, watch.is_paused_upon_creation) == (False, False)
    assert watch.get_task("watch").max_active_tis_per_dag == 1
    assert watch.get_task("watch").retries == 3
    assert dags["quiet__watch"].schedule is None


def test_the_form_starts_with_what_the_yaml_says(streams: Path) -> None:
    form = stream_dags(streams)["orders__upgrade"].params
    assert form["version"] == "v1"
    assert form["strategy"] == "handover"
    assert form.get_param("strategy").schema["enum"] == ["handover", "restart"]
    assert form["arguments"] == []


def test_the_form_takes_no_other_arguments_unless_the_yaml_says_so(streams: Path) -> None:
    free = SPEC.format(name="free") + "arguments: [--a]\nupgrade: {free_arguments: true}\n"
    (streams / "free.yaml").write_text(free)
    dags = stream_dags(streams)
    with pytest.raises(ParamValidationError):
        dags["orders__upgrade"].params.get_param("arguments").resolve(["-n1"])
    assert dags["free__upgrade"].params.get_param("arguments").resolve(["-n1"]) == ["-n1"]


@pytest.mark.parametrize("strategy", ["handover", "restart"])
def test_with_an_approval_only_the_yaml_chooses_the_strategy(streams: Path, strategy: str) -> None:
    """`restart` stops the old release before anybody is asked."""
    asked = SPEC.format(name="asked") + f"upgrade: {{approval: true, strategy: {strategy}}}\n"
    (streams / "asked.yaml").write_text(asked)
    dags = stream_dags(streams)
    other = {"handover": "restart", "restart": "handover"}[strategy]
    assert dags["orders__upgrade"].params.get_param("strategy").resolve(other) == other
    chosen = dags["asked__upgrade"].params.get_param("strategy")
    assert chosen.resolve() == strategy
    with pytest.raises(ParamValidationError):
        chosen.resolve(other)


@pytest.mark.parametrize("version", ["1 [payments-2]", 'a"b', "a\nb", ""])
def test_the_form_takes_no_version_that_is_no_label(streams: Path, version: str) -> None:
    with pytest.raises(ParamValidationError):
        stream_dags(streams)["orders__upgrade"].params.get_param("version").resolve(version)


def test_a_dag_says_what_it_does_and_shows_no_docstring(streams: Path) -> None:
    for dag in stream_dags(streams).values():
        assert dag.doc_md is not None
        assert "orders" in dag.doc_md
        assert "Return" not in dag.doc_md
        assert "``" not in dag.doc_md


def test_a_stream_may_come_from_the_default_arguments(streams: Path) -> None:
    spec = load_spec(streams / "orders.yaml")
    with DAG("d", default_args={"stream": spec}):
        assert SoakOperator(task_id="soak", deployment="x").seconds == 600  # type: ignore[call-arg]


def test_an_approval_is_a_task_only_if_wanted(streams: Path) -> None:
    (streams / "asked.yaml").write_text(SPEC.format(name="asked") + "upgrade: {approval: true}\n")
    dags = stream_dags(streams)
    assert "approve" not in dags["orders__upgrade"].task_ids
    approve = dags["asked__upgrade"].get_task("approve")
    assert approve.downstream_task_ids == {"hand_over"}
    assert isinstance(approve, ApproveUpgradeOperator)
    assert approve.response_timeout == timedelta(hours=1)


def test_a_broken_yaml_shows_itself_and_leaves_the_others(streams: Path) -> None:
    (streams / "broken.yaml").write_text("name: broken\nversoin: 1\n")
    dags = stream_dags(streams)
    assert set(dags) == {"orders__upgrade", "orders__retire", "orders__watch", "broken__upgrade"}
    broken = dags["broken__upgrade"]
    assert isinstance(broken, DAG)
    assert "line 2, versoin: there is no such field. Did you mean `version`?" in str(broken.description)
    task = broken.get_task("read_yaml")
    assert isinstance(task, BaseOperator)
    with pytest.raises(Exception, match="line 2, versoin"):
        task.execute({})
    DagSerialization.to_dict(broken)


def test_a_broken_yaml_keeps_the_watch(streams: Path, tmp_path: Path) -> None:
    good = (streams / "orders.yaml").read_text()
    (streams / "orders.yaml").write_text(good.replace("version: v1", "version: 1.0") + "watch: {schedule: 5m}\n")
    dags = stream_dags(streams)
    assert set(dags) == {"orders__upgrade", "orders__watch"}
    watch = dags["orders__watch"]
    assert watch.schedule == timedelta(minutes=5)
    assert "It is still watched." in str(dags["orders__upgrade"].doc_md)
    for dag in dags.values():
        dag.validate()
        DagSerialization.to_dict(dag)


def test_a_broken_yaml_takes_no_name_from_a_good_one(streams: Path) -> None:
    (streams / "a.yaml").write_text(SPEC.format(name="orders") + "versoin: 1\n")
    (streams / f"{'x' * 240}.yaml").write_text("name: [")
    dags = stream_dags(streams)
    assert {"orders__upgrade", "orders__retire", "orders__watch", "a__upgrade"} < set(dags)
    assert "read_yaml" not in dags["orders__upgrade"].task_ids
    assert len(dags) == 5


def test_the_watch_of_a_broken_yaml_finds_the_cluster_in_the_log(streams: Path, tmp_path: Path) -> None:
    good = (streams / "orders.yaml").read_text().replace("file:///d", f"file://{tmp_path}/control")
    (streams / "orders.yaml").write_text(good.replace("cluster:", "clutser:"))
    task = stream_dags(streams)["orders__watch"].get_task("watch")
    assert isinstance(task, WatchUnusableStreamOperator)
    log = new_log(f"file://{tmp_path}/control")
    release = {"version": "1", "hash": "0" * 64, "application": "a.py"}
    log.append(make_record("declared", "t", deployment="orders-1-1", release=release, policy={}, reason=""), 0)
    log.append(make_record("submitted", "t", deployment="orders-1-1", submission="s", cluster="spark_there"), 1)
    assert task.hook.address["cluster"] == "spark_there"


def test_the_watch_of_a_broken_yaml_skips_a_stream_that_was_never_deployed(streams: Path, tmp_path: Path) -> None:
    good = (streams / "orders.yaml").read_text().replace("file:///d", f"file://{tmp_path}")
    (streams / "orders.yaml").write_text(good.replace("cluster:", "clutser:"))
    task = stream_dags(streams)["orders__watch"].get_task("watch")
    assert isinstance(task, WatchUnusableStreamOperator)
    make_root(f"file://{tmp_path}")
    with pytest.raises(AirflowSkipException, match="never been deployed"):
        task.begin(cast("Any", {"ti": SimpleNamespace(xcom_pull=lambda **_: None)}))


def test_a_file_that_checks_fails_where_one_cannot_be_used(streams: Path) -> None:
    check_stream_dags(streams)
    (streams / "a.yaml").write_text("versoin: 1\n")
    (streams / "b.yaml").write_text("[")
    with pytest.raises(SpecError, match=r"(?s)a\.yaml, line 1, versoin.*b\.yaml, line"):
        check_stream_dags(streams)


def test_a_second_file_of_one_stream_does_not_take_the_first_ones_dag(streams: Path) -> None:
    (streams / "orders.yml").write_text(SPEC.format(name="orders"))
    dags = stream_dags(streams)
    assert set(dags) == {"orders__upgrade", "orders__retire", "orders__watch", "orders.yml__upgrade"}


def test_a_relative_folder_starts_at_the_file_that_calls(streams: Path, tmp_path: Path) -> None:
    code = "from airflow_stream_provider import stream_dags\nfound = stream_dags('streams/')\n"
    made: dict[str, object] = {"__file__": str(tmp_path / "dag_file.py")}
    exec(compile(code, "dag_file.py", "exec"), made)
    assert "orders__upgrade" in made["found"]  # type: ignore[operator]


def test_parsing_imports_neither_spark_nor_kafka_nor_http_clients(streams: Path) -> None:
    code = (
        "import sys; import airflow.sdk; from airflow.triggers.base import BaseTrigger\n"
        "from airflow.providers.standard.operators.hitl import ApprovalOperator\n"
        "from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator\n"
        "before = set(sys.modules)\n"
        f"from airflow_stream_provider import stream_dags; stream_dags({str(streams)!r})\n"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    new = set(run.stdout.split())
    assert not new & {"pyspark", "py4j", "kafka", "jgo", "matplotlib", "requests", "urllib3", "psutil"}
    assert new <= {"airflow_stream_provider", "difflib"} | set(sys.stdlib_module_names)
