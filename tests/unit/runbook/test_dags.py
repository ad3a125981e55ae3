"""The DAGs of a folder: which there are, and that a task's process builds the one that it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.runbook.dags import check_stream_dags, stream_dags
from airflow_stream_provider.spec import folder as folder_module
from tests.support.cells import LEFT_OUT, ROWS
from tests.support.spec_text import SPEC

ROOT = Path(__file__).parents[3]
ORDERS = {"orders__upgrade", "orders__operate", "orders__retire", "orders__trial"}
WATCH, REVIVE = "streams__watch", "streams__revive"


@contextmanager
def parsing_for(dag_id: str) -> Iterator[None]:
    """What Airflow sets in the process of a task, and `airflow.sdk.get_parsing_context` tells."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", dag_id)
        yield


def test_each_stream_has_its_dags_and_all_have_one_watch_and_one_revive(streams: Path) -> None:
    (streams / "payments.yaml").write_text(SPEC.format(name="payments"))
    dags = stream_dags(streams)
    payments = {each.replace("orders", "payments") for each in ORDERS}
    assert set(dags) == {*ORDERS, *payments, WATCH, REVIVE}
    for dag in dags.values():
        dag.validate()
        DagSerialization.to_dict(dag)


@pytest.mark.parametrize(
    ("schedules", "seconds"),
    [([], 60), (["5m"], 60), (["5m", "2m"], 60), (["10s"], 10), (["null"], 60), (["1h", "null"], 60)],
)
def test_the_watch_is_scheduled_for_who_is_looked_at_most_often(
    streams: Path, schedules: list[str], seconds: float
) -> None:
    for number, schedule in enumerate(schedules):
        (streams / f"s{number}.yaml").write_text(SPEC.format(name=f"s{number}") + f"watch: {{schedule: {schedule}}}\n")
    assert stream_dags(streams)[WATCH].schedule == timedelta(seconds=seconds)
    (streams / "orders.yaml").unlink()
    wanted = {"5m": 300, "2m": 120, "10s": 10, "1h": 3600}
    said = [wanted[each] for each in schedules if each != "null"]
    alone = stream_dags(streams)[WATCH].schedule
    assert alone == (timedelta(seconds=min(said)) if said else None if schedules else timedelta(minutes=1))


def test_a_dag_says_what_it_does_and_shows_no_docstring(streams: Path) -> None:
    for dag in stream_dags(streams).values():
        assert dag.doc_md is not None
        assert "orders" in dag.doc_md or "folder streams" in dag.doc_md
        assert "Return" not in dag.doc_md
        assert "``" not in dag.doc_md


def test_a_broken_yaml_has_no_dag_of_its_own_and_leaves_the_others(streams: Path) -> None:
    (streams / "broken.yaml").write_text("name: broken\nversoin: 1\n")
    (streams / f"{'x' * 240}.yaml").write_text("name: [")
    (streams / "a.yaml").write_text(SPEC.format(name="orders") + "versoin: 1\n")
    assert set(stream_dags(streams)) == {*ORDERS, WATCH, REVIVE}


def test_where_the_folder_is_gone_its_watch_stays_to_say_so_and_brings_streams_back(streams: Path) -> None:
    shutil.rmtree(streams)
    assert set(stream_dags(streams)) == {WATCH, REVIVE}
    with pytest.raises(SpecError, match="There is no folder"):
        check_stream_dags(streams)
    for dag_id in (WATCH, REVIVE):
        with parsing_for(dag_id):
            assert set(stream_dags(streams)) == {dag_id}
    with parsing_for("orders__upgrade"):
        assert stream_dags(streams) == {}


def test_all_dags_have_the_prefix_and_the_options(streams: Path) -> None:
    dags = stream_dags(
        streams, prefix="shop.", queue="q", pool="p", owner="anna", tags=["eu"], default_args={"retries": 7}
    )
    assert set(dags) == {f"shop.{name}" for name in (*ORDERS, WATCH, REVIVE)}
    for dag in dags.values():
        assert "eu" in dag.tags
        for task in dag.tasks:
            assert (task.queue, task.pool, task.owner) == ("q", "p", "anna"), task.task_id
            assert task.retries == (0 if task.task_id in ("look", "check") else 7), task.task_id
    look: Any = dags["shop.streams__watch"].get_task("look")
    assert look.prefix == "shop."


@pytest.mark.parametrize("dag_id", [*sorted(ORDERS), "late__retire", WATCH, REVIVE])
def test_a_tasks_process_builds_the_dag_that_it_needs_as_all_are_built(streams: Path, dag_id: str) -> None:
    (streams / "10-late.yaml").write_text(SPEC.format(name="late"))
    whole = stream_dags(streams)[dag_id]
    with parsing_for(dag_id):
        alone = stream_dags(streams)
    assert set(alone) == {dag_id}
    assert stored(alone[dag_id]) == stored(whole)


def stored(dag: DAG) -> Any:
    return DagSerialization.to_dict(dag)


@pytest.mark.parametrize(
    "dag_id",
    ["mine", "orders__nightly", "nobody__upgrade", "other__watch", "orders__revive", "__watch", "x.orders__upgrade"],
)
def test_in_the_process_of_another_dags_task_nothing_is_built(streams: Path, dag_id: str) -> None:
    with parsing_for(dag_id):
        assert stream_dags(streams) == {}


def test_a_tasks_process_reads_no_more_files_for_more_streams(streams: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (streams / f"s{number}.yaml").write_text(SPEC.format(name=f"s{number}"))
    read: list[Path] = []
    original = folder_module._read
    monkeypatch.setattr(folder_module, "_read", lambda path: read.append(path) or original(path))
    with parsing_for("orders__upgrade"):
        stream_dags(streams)
    assert read == [streams / "orders.yaml"]
    for dag_id in (WATCH, REVIVE):
        with parsing_for(dag_id):
            stream_dags(streams)
    assert len(read) == 1


def test_a_folder_without_a_name_of_its_own_is_named_like_the_dag_file(streams: Path) -> None:
    """The folder of a bundle is named after its version: the watch would be another DAG after every change."""
    code = "from airflow_stream_provider import stream_dags\nfound = stream_dags('.')\n"
    made: dict[str, Any] = {"__file__": str(streams / "shop.py")}
    exec(compile(code, "shop.py", "exec"), made)
    assert set(made["found"]) == {*ORDERS, "shop__watch", "shop__revive"}


def test_a_file_that_checks_fails_where_one_cannot_be_used(streams: Path) -> None:
    check_stream_dags(streams)
    (streams / "a.yaml").write_text("versoin: 1\n")
    (streams / "b.yaml").write_text("[")
    with pytest.raises(SpecError, match=r"(?s)a\.yaml, line 1, versoin.*b\.yaml, line"):
        check_stream_dags(streams)


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
        timeout=600,
    )
    new = set(run.stdout.splitlines()[-1].split())  # before it are messages of Airflow 3.2
    assert not new & {"pyspark", "py4j", "kafka", "jgo", "matplotlib", "requests", "urllib3", "psutil"}
    # Airflow itself imports more of its own for a mapped task.
    assert new <= {"airflow", "airflow_stream_provider"} | set(sys.stdlib_module_names)


def test_every_task_has_a_row_or_is_left_out_by_name(streams: Path) -> None:
    (streams / "orders.yaml").write_text(SPEC.format(name="orders") + "upgrade: {approval: true}\n")
    dags = stream_dags(streams)
    tasks = {f"{name.rpartition('__')[2]}-{task}" for name, dag in dags.items() for task in dag.task_ids}
    rows = [row.name for row in ROWS]
    assert len(rows) == len(set(rows))
    assert {*rows, *LEFT_OUT} == tasks
    assert not {*rows} & {*LEFT_OUT}
