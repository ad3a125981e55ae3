"""A typo that is saved in a YAML while its upgrade runs, under a real scheduler, which then reads the DAG anew."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.airflow_api import AirflowApi
from devstack.drivers import wait_for
from tests.support.airflow_world import World
from tests.support.whole_airflow import whole_airflow

pytestmark = pytest.mark.system  # a whole Airflow, and minutes

DAG_FILE = """\
from airflow_stream_provider import stream_dags
from tests.integration.airflow.worker import without_spark

without_spark()
globals().update(stream_dags("streams/"))
"""


@pytest.fixture
def dags(world: World, tmp_path: Path) -> Path:
    """The folder of the DAGs of a whole Airflow, with a stream that runs; nobody else watches it."""
    world.deploy("1")
    folder = tmp_path / "dags"
    for name in ("streams", "apps"):
        (folder / name).mkdir(parents=True)
    (folder / "streams.py").write_text(DAG_FILE)
    (folder / "apps" / world.application.name).write_text(world.application.read_text())
    text = world.yaml.read_text().replace("soak: 2s", "soak: 30m")
    (folder / "streams" / world.yaml.name).write_text(f"{text}watch: {{schedule: null}}\n")
    return folder


@pytest.fixture
def api(dags: Path, tmp_path: Path) -> Iterator[AirflowApi]:
    with whole_airflow(dags, tmp_path) as api:
        yield api


def test_a_bad_release_is_taken_back_though_the_yaml_broke_in_its_soak(
    world: World, dags: Path, api: AirflowApi
) -> None:
    dag = f"{world.name}__upgrade"
    api.wait_for_dag(dag)
    api.unpause(dag)
    run = api.trigger(dag, {"version": "2"})
    wait_for("the soak", lambda: api.task_states(dag, run).get("soak") not in (None, "scheduled", "queued", "running"))
    assert api.task_states(dag, run)["soak"] == "deferred", api.task_states(dag, run)
    assert world.version == "2"

    yaml = dags / "streams" / world.yaml.name
    yaml.write_text(yaml.read_text() + "versoin: 3\n")
    wait_for(
        "Airflow to see it", lambda: "unusable" in {each["name"] for each in api.call("GET", f"dags/{dag}")["tags"]}
    )
    bad = world.state.holding_deployment
    assert bad is not None
    for pid, deployment in world.drivers().items():
        if deployment == bad.id:
            os.kill(pid, signal.SIGKILL)

    assert api.wait_for_run(dag, run) == "failed"
    states = api.task_states(dag, run)
    assert (states["soak"], states["roll_back"], states["report"]) == ("failed", "success", "failed")
    assert states["discard"] in ("success", "skipped")
    assert "removed" not in states.values()
    assert world.version == "1"
    assert "Rolled back." in api.task_log(dag, run, "report")
    world.assert_sound()

    again = api.trigger(dag, {"version": "2"})
    assert api.wait_for_run(dag, again) == "failed"
    assert api.task_states(dag, again)["check"] == "failed"
    log = api.call("GET", f"dags/{dag}/dagRuns/{again}/taskInstances/check/logs/1", full_content=True)
    assert "versoin: there is no such field" in str(log)
    assert world.version == "1"
