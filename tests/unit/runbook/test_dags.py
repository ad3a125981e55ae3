from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.serialization.serialized_objects import DagSerialization

from airflow_stream_provider.runbook.dags import stream_dags

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
    assert dags["quiet__watch"].schedule is None


def test_the_form_starts_with_what_the_yaml_says(streams: Path) -> None:
    form = stream_dags(streams)["orders__upgrade"].params
    assert form["version"] == "v1"
    assert form["strategy"] == "handover"
    assert form.get_param("strategy").schema["enum"] == ["handover", "restart"]
    assert form["arguments"] == []


def test_an_approval_is_a_task_only_if_wanted(streams: Path) -> None:
    (streams / "asked.yaml").write_text(SPEC.format(name="asked") + "upgrade: {approval: true}\n")
    dags = stream_dags(streams)
    assert "approve" not in dags["orders__upgrade"].task_ids
    assert dags["asked__upgrade"].get_task("approve").downstream_task_ids == {"hand_over"}


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
