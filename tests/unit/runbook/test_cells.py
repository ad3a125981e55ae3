"""The kill matrix has a row for every task of every DAG, or says which it leaves out."""

from __future__ import annotations

from pathlib import Path

from airflow_stream_provider.runbook.dags import stream_dags
from tests.support.cells import LEFT_OUT, ROWS
from tests.support.spec_text import SPEC


def test_every_task_has_a_row_or_is_left_out_by_name(streams: Path) -> None:
    (streams / "orders.yaml").write_text(SPEC.format(name="orders") + "upgrade: {approval: true}\n")
    dags = stream_dags(streams)
    tasks = {f"{name.rpartition('__')[2]}-{task}" for name, dag in dags.items() for task in dag.task_ids}
    rows = [row.name for row in ROWS]
    assert len(rows) == len(set(rows))
    assert {*rows, *LEFT_OUT} == tasks
    assert not {*rows} & {*LEFT_OUT}
