"""The examples in the wheel, as Airflow finds them where `[core] load_examples` is on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.bundles import manager
from airflow.dag_processing.dagbag import DagBag

from airflow_stream_provider import example_dags
from airflow_stream_provider.spec.folder import load_specs
from airflow_stream_provider.spec.stream import StreamSpec

FOLDER = Path(example_dags.__path__[0])


@pytest.fixture(scope="module")
def bag() -> DagBag:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")  # Airflow 3.2 adds its own
        return DagBag(str(FOLDER))


@pytest.mark.skipif(
    not hasattr(manager, "_add_provider_example_dags_to_bundle"),
    reason="Airflow 3.2 does not look for examples of providers",
)
def test_airflow_takes_the_folder_for_a_bundle() -> None:
    found: list[Any] = []
    manager._add_provider_example_dags_to_bundle(found)
    assert {each.name: each.kwargs for each in found}["airflow-stream-provider-example-dags"] == {"path": str(FOLDER)}


def test_all_load_and_none_runs_before_a_person_switches_it_on(bag: DagBag) -> None:
    assert bag.import_errors == {}
    verbs = {f"example.orders__{verb}" for verb in ("upgrade", "operate", "trial", "retire")}
    watches = {"example.streams__watch", "example.streams__revive"}
    assert set(bag.dags) == verbs | watches | {"example.after_a_hand_over"}
    assert {dag.is_paused_upon_creation for dag in bag.dags.values()} == {True}


def test_the_stream_of_the_examples_has_its_script_beside_it() -> None:
    [spec] = load_specs(FOLDER / "streams")
    assert isinstance(spec, StreamSpec)
    script = FOLDER / "orders_app.py"
    assert spec.application == script.name
    compile(script.read_text(), str(script), "exec")
