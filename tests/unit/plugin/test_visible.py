"""Which streams are visible, of serialized DAGs; with a real database and real users in tests/integration/plugin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from airflow_stream_provider.plugin.looks import visible_of
from airflow_stream_provider.runbook.dags import stream_dags
from tests.support.spec_text import SPEC


@pytest.fixture
def dags(tmp_path: Path) -> dict[str, DAG]:
    (tmp_path / "streams").mkdir()
    for name in ("orders", "totals"):
        (tmp_path / "streams" / f"{name}.yaml").write_text(SPEC.format(name=name))
    return stream_dags(tmp_path / "streams", prefix="pay.")


def serialized(dags: dict[str, DAG]) -> dict[str, Any]:
    return {name: json.loads(json.dumps(DagSerialization.to_dict(dag))) for name, dag in dags.items()}


def test_a_stream_is_found_in_its_form_with_its_other_dags(dags: dict[str, DAG]) -> None:
    forms = {name: data for name, data in serialized(dags).items() if name.endswith("__operate")}
    files = {**dict.fromkeys(dags, ("bundle", "streams.py")), "else__watch": ("bundle", "else.py")}
    found = visible_of(forms, files)
    assert [each.form for each in found] == ["pay.orders__operate", "pay.totals__operate"]
    assert [each.stream.name for each in found] == ["orders", "totals"]
    assert found[0].upgrade == "pay.orders__upgrade"
    assert found[0].upgrade in dags
    assert found[0].watches == ("pay.streams__watch",)
    assert found[0].stream.spec is not None
    assert found[0].stream.spec.control


def test_a_watch_that_may_not_be_read_is_not_named(dags: dict[str, DAG]) -> None:
    form = "pay.orders__operate"
    (found,) = visible_of({form: serialized(dags)[form]}, {form: ("bundle", "streams.py")})
    assert found.watches == ()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"dag": {"tasks": []}},
        {"dag": {"tasks": [{"__var": {"task_id": "look"}}]}},
        {"dag": {"tasks": [{"__var": {"task_id": "look", "doc_json": "mine"}}]}},
        {"dag": {"tasks": [{"task_id": "other", "doc_json": '{"stream": {"name": "a"}, "problem": ""}'}]}},
    ],
)
def test_a_dag_of_the_users_own_is_no_stream(data: dict[str, Any]) -> None:
    assert visible_of({"mine__operate": data}, {"mine__operate": ("bundle", "mine.py")}) == []
