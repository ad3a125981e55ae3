"""Every task and group says in a sentence what it does, and its id is what it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from airflow_stream_provider.runbook import words
from airflow_stream_provider.runbook.dags import stream_dags
from tests.support.spec_text import SPEC

BOOKS = {
    "upgrade": words.UPGRADE,
    "operate": words.OPERATE,
    "retire": words.RETIRE,
    "trial": words.TRIAL,
    "revive": words.REVIVE,
    "watch": words.WATCH,
}


@pytest.fixture
def dags(streams: Path) -> dict[str, DAG]:
    """Of a stream with everything that makes a task, of one whose YAML cannot be used, and of their watch."""
    (streams / "orders.yaml").write_text(SPEC.format(name="orders") + "upgrade: {approval: true}\n")
    (streams / "broken.yaml").write_text("[")
    return stream_dags(streams)


def test_a_person_reads_a_sentence_where_the_id_was(dags: dict[str, DAG]) -> None:
    for dag in dags.values():
        said = BOOKS[dag.dag_id.rpartition("__")[2]]
        for task in dag.tasks:
            name, about = task.task_display_name, task.doc_md
            assert (name, about) == said[task.task_id], dag.dag_id
            assert name[0].isupper(), name
            assert " " in name
            assert not name.endswith(".")
            assert about is not None
            assert about.endswith(".")


def test_no_words_are_left_over(dags: dict[str, DAG]) -> None:
    for verb, said in BOOKS.items():
        dag = dags[f"{'streams' if verb in ('watch', 'revive') else 'orders'}__{verb}"]
        assert said.keys() == set(dag.task_ids) | (dag.task_group.get_task_group_dict().keys() - {None})


def test_a_group_adds_nothing_to_the_ids_of_its_tasks(dags: dict[str, DAG]) -> None:
    groups = dags["orders__upgrade"].task_group.get_task_group_dict()
    found = {name: [*group.children] for name, group in groups.items() if name is not None}
    assert found == {
        "new_release": ["submit", "judge", "approve"],
        "take_over": ["hand_over", "soak"],
        "way_back": ["roll_back"],
        "afterwards": ["retire", "report"],
    }
    assert dags["orders__upgrade"].task_ids[0] == "check"


def test_the_words_are_there_after_airflow_has_stored_the_dag(dags: dict[str, DAG]) -> None:
    """What the UI shows."""
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dags["orders__upgrade"]))
    for task_id in stored.task_ids:
        task = stored.get_task(task_id)
        assert (task.task_display_name, task.doc_md) == words.UPGRADE[task_id]
    group = stored.task_group.get_task_group_dict()["take_over"]
    assert (group.label, group.tooltip) == words.UPGRADE["take_over"]
