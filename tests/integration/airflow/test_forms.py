"""Every form of every DAG, submitted with the mouse under a real Airflow: the run does what was meant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import expect

from devstack.airflow import Airflow
from devstack.airflow_api import AirflowApi
from devstack.drivers import wait_for
from tests.support.airflow_world import World
from tests.support.browser import Person, asks_for, needs_chromium, person_at
from tests.support.whole_airflow import running_airflow

# A whole Airflow, and minutes.
pytestmark = [
    pytest.mark.system,
    needs_chromium("the forms of NAME__upgrade, NAME__operate, NAME__retire, FOLDER__revive and FOLDER__watch"),
]

DAG_FILE = """\
from airflow_stream_provider import stream_dags
from tests.integration.airflow.worker import without_spark

without_spark()
globals().update(stream_dags("streams/"))
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A stream that was never deployed; its watch looks when a person wants it to."""
    dags = tmp_path / "dags"
    for name in ("streams", "apps"):
        (dags / name).mkdir(parents=True)
    (dags / "streams.py").write_text(DAG_FILE)
    airflow: Any = SimpleNamespace(home=tmp_path)
    made = World(airflow, tmp_path, "orders")
    made.yaml.write_text(f"{made.yaml.read_text()}watch: {{schedule: null}}\n")
    yield made
    made.end()


@pytest.fixture
def airflow(world: World, tmp_path: Path) -> Iterator[Airflow]:
    with running_airflow(tmp_path / "dags", tmp_path) as running:
        for dag_id in ("orders__operate", "orders__upgrade", "orders__retire", "streams__revive", "streams__watch"):
            running.api.wait_for_dag(dag_id)
        running.api.unpause("orders__upgrade")
        yield running


def ended(api: AirflowApi, run: dict[str, Any], **fields: str | bool) -> dict[str, str | None]:
    """Return the states of a run's tasks, once it has ended well, with what a person has filled in."""
    dag_id, run_id = run["dag_id"], run["dag_run_id"]
    assert asks_for(api, run, **fields), run["conf"]
    found = api.wait_for_run(dag_id, run_id)
    states = api.task_states(dag_id, run_id)
    failed = [api.task_log(dag_id, run_id, task)[-3000:] for task, state in states.items() if state == "failed"]
    assert found == "success", (states, failed)
    return states


def looked(api: AirflowApi, run: dict[str, Any]) -> dict[str, Any]:
    """Return what `look` made of the form."""
    path = f"dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}/taskInstances/look/xcomEntries/return_value"
    found: dict[str, Any] = api.call("GET", path)["value"]
    return found


def say_yes(api: AirflowApi, person: Person, run: dict[str, Any], task: str) -> None:
    ids = run["dag_id"], run["dag_run_id"]
    asks = ("awaiting_input", "deferred", "failed", "skipped")
    wait_for(f"{task} to ask", lambda: api.task_states(*ids).get(task) in asks, 600.0)
    person.answer(*ids, task, "Approve")


def test_every_form_is_submitted_with_the_mouse(world: World, airflow: Airflow) -> None:
    api = airflow.api
    with person_at(airflow) as person:

        def operate(operation: str, *asked: str, **more: str | bool) -> tuple[dict[str, str | None], dict[str, Any]]:
            fields: dict[str, str | bool] = {"operation": operation, "reason": f"to {operation}", **more}
            run = person.trigger("orders__operate", **fields)
            for task in asked:
                say_yes(api, person, run, task)
            return ended(api, run, **fields), looked(api, run)

        # What has to be filled in is said by the form itself, and nothing else keeps its button grey.
        button = person.open_form("orders__operate")
        person.fill_in({"operation": "stop"})
        assert button.is_disabled()
        person.fill_in({"reason": "why"})
        expect(button).to_be_enabled()

        states, _ = operate("adopt", "confirm", "job_ended")
        assert states["adopt"] == "success"
        assert world.version == "1"

        fields: dict[str, str | bool] = {"version": "2", "reason": "faster"}
        states = ended(api, person.trigger("orders__upgrade", **fields), **fields)
        assert (states["check"], world.version) == ("success", "2")
        second = world.state.holding_deployment
        assert second is not None

        states, _ = operate("roll-back", "confirm")
        assert (states["roll-back"], world.version) == ("success", "1")

        ended(api, person.trigger("orders__retire", deployment=second.id), deployment=second.id)
        assert world.state.deployments[second.id].ended

        states, _ = operate("stop", "confirm")
        assert (states["stop"], world.state.phase.value) == ("success", "stopped")
        states, _ = operate("start", "confirm")
        assert (states["start"], world.version) == ("success", "1")

        # Nobody gives his word: the cluster is asked. Nobody is asked, either: the switch is turned off.
        states, found = operate("fence", ask=False)
        assert (states["confirm"], states["fence"]) == ("skipped", "success")
        assert found["confirmed_by"] == ""
        fenced = next(record for record in reversed(world.log.records()) if record.kind == "fenced")
        assert "person" not in fenced["evidence"]
        assert not world.drivers()

        ended(api, person.trigger("streams__watch"))  # by which its control root is known
        ended(api, person.trigger("streams__revive", stream="orders"), stream="orders")
        assert world.version == "1"

        states, _ = operate("retire", "confirm")
        assert states["retire"] == "success"
        assert not world.drivers()
    world.assert_sound()
