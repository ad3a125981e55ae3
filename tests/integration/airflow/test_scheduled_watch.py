"""The watch under a real scheduler: looks go on while a stream is brought back, and one that is killed is made good."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devstack.airflow_api import AirflowApi
from devstack.drivers import wait_for
from tests.support.airflow_world import World
from tests.support.whole_airflow import whole_airflow

pytestmark = pytest.mark.system  # a whole Airflow, and minutes

PREFIX = "shop."
WATCH = f"{PREFIX}streams__watch"
# Every process that reads this file writes down for which DAG, and which DAGs it has built.
DAG_FILE = f"""\
import json
from pathlib import Path

from airflow.sdk import get_parsing_context

from airflow_stream_provider import stream_dags
from tests.integration.airflow.worker import without_spark

without_spark()
dags = stream_dags("streams/", prefix={PREFIX!r})
with open(Path(__file__).parent.parent / "built.jsonl", "a") as file:
    file.write(json.dumps([get_parsing_context().dag_id, sorted(dags)]) + "\\n")
globals().update(dags)
"""


@pytest.fixture
def orders(make_world: Callable[..., World], tmp_path: Path) -> World:
    """A stream that runs, and names somebody to be told."""
    world = make_world()
    recipient = {"call": "tests.support.slow_recipient.page", "arguments": {"folder": str(tmp_path)}}
    text = world.yaml.read_text()
    world.yaml.write_text(f"{text}watch: {{schedule: 10s}}\nnotify: [{json.dumps(recipient)}]\n")
    world.deploy("1")
    return world


@pytest.fixture
def api(orders: World, tmp_path: Path) -> Iterator[AirflowApi]:
    """A whole Airflow that watches it, and two streams more that were never deployed."""
    dags = tmp_path / "dags"
    (dags / "streams").mkdir(parents=True)
    text = orders.yaml.read_text()
    for name in (orders.name, "quiet", "idle"):
        (dags / "streams" / f"{name}.yaml").write_text(text.replace(f"name: {orders.name}", f"name: {name}"))
    (dags / "streams.py").write_text(DAG_FILE)
    with whole_airflow(dags, tmp_path) as api:
        yield api


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def runs(api: AirflowApi, dag_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.call("GET", f"dags/{dag_id}/dagRuns", limit=100, order_by="start_date")[
        "dag_runs"
    ]
    return found


def test_a_look_that_is_killed_is_made_good_and_looks_go_on_while_the_stream_is_brought_back(
    orders: World, api: AirflowApi, tmp_path: Path
) -> None:
    revive = f"{PREFIX}streams__revive"
    api.wait_for_dag(WATCH)
    wait_for("a look", lambda: any(run["state"] == "success" for run in runs(api, WATCH)))
    assert runs(api, revive) == []

    for pid in orders.drivers():
        os.kill(pid, signal.SIGKILL)
    # The look that finds it dead is killed while it tells somebody.
    wait_for("somebody to be told", (tmp_path / "hung").exists)
    os.kill(int((tmp_path / "hung").read_text()), signal.SIGKILL)

    wait_for("the stream to run again", lambda: orders.state.holder is not None and len(orders.drivers()) == 1)
    wait_for("its revival to end", lambda: [run["state"] for run in runs(api, revive)][:1] == ["success"])
    # Airflow itself fails a task, before it begins, whose process it cannot start in time on a busy machine.
    failed = [
        (run["dag_run_id"], task["task_id"])
        for run in runs(api, WATCH)
        for task in api.tasks(WATCH, run["dag_run_id"])
        if task["state"] == "failed" and task["start_date"]
    ]
    assert [task for _, task in failed] == ["look"], [api.task_log(WATCH, *each)[-3000:] for each in failed]
    assert orders.version == "1"
    assert orders.kinds().count("submitted") == 2

    revived = runs(api, revive)[0]
    meanwhile = [
        run
        for run in runs(api, WATCH)
        if run["state"] == "success" and revived["start_date"] < (run["end_date"] or "") < revived["end_date"]
    ]
    assert meanwhile, "looks went on"

    def told_of_the_driver() -> list[Any]:
        return [each for each in lines(tmp_path / "told.jsonl") if each["kind"] == "down"]

    wait_for("the end to be told", lambda: any(not each["open"] for each in told_of_the_driver()))
    told = told_of_the_driver()
    assert len({each["incident"] for each in told}) == 1
    # Once by the look that was killed before it could keep that, and once by the next one.
    assert [each["open"] for each in told] == [True, True, False]
    orders.assert_sound()

    built = [(wanted, dags) for wanted, dags in lines(tmp_path / "built.jsonl") if wanted is not None]
    assert {wanted for wanted, _ in built} == {WATCH, revive}
    assert all(dags == [wanted] for wanted, dags in built), "a task's process builds its own DAG and no other"
    whole = max((dags for wanted, dags in lines(tmp_path / "built.jsonl") if wanted is None), key=len)
    assert len(whole) == 3 * 3 + 2
