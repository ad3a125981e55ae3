"""Upgrades, redeployments and promotions by hand, under a real scheduler: by the command line, and by the form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_stream_provider.lifecycle.record import Kind
from devstack.airflow_api import AirflowApi
from devstack.drivers import wait_for
from devstack.stack import LocalStack
from tests.support.airflow_world import Airflow, World

pytestmark = pytest.mark.system  # it takes some minutes
ROOT = Path(__file__).parents[3]
NAME = "byhand"
DAG_FILE = """\
from pathlib import Path

from airflow_stream_provider import stream_dags
from tests.integration.airflow.worker import without_spark
from tests.support.by_hand import by_hand_dags

without_spark()
globals().update(stream_dags("streams/"))
globals().update(by_hand_dags(Path(__file__).parent / "streams"))
"""


class Site:
    """A stream, the whole Airflow that operates it, and a shell beside that."""

    def __init__(self, world: World, api: AirflowApi, environment: Mapping[str, str]) -> None:
        self.world = world
        self.api = api
        self.environment = dict(environment)

    def release(self, version: str, queries: tuple[str, ...] = ("enrich", "totals")) -> None:
        """Let the YAML ask for another release."""
        was = self.world.yaml.read_text()
        self.world.write(f"release-{version}", queries)
        lines = [f'version: "{version}"' if each.startswith("version:") else each for each in was.splitlines()]
        self.world.yaml.write_text("\n".join([*lines, ""]))

    def begin(self, *words: str, reason: str = "by hand") -> subprocess.Popen[str]:
        """Give a command."""
        command = [sys.executable, str(Path(__file__).with_name("worker.py")), "streams", *words]
        folder = str(self.world.yaml.parent)
        return subprocess.Popen(
            [*command, "--reason", reason, "--json", "--folder", folder],
            env=self.environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ends(self, command: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
        """Return its exit code, and the JSON that it has printed."""
        out, err = command.communicate(timeout=900)
        assert out, err
        return command.returncode, json.loads(out.splitlines()[-1])

    def call(self, *words: str, reason: str = "by hand") -> tuple[int, dict[str, Any]]:
        """Give a command, and wait for its end."""
        return self.ends(self.begin(*words, reason=reason))

    def form(self, **conf: Any) -> str:
        """Trigger the form, wait for the end of its run, and return the run."""
        run = self.api.trigger(f"{NAME}__operate", {"reason": "by the form", "ask": False, **conf})
        assert self.api.wait_for_run(f"{NAME}__operate", run) == "success", self.api.task_log(
            f"{NAME}__operate", run, "look"
        )
        return run

    def hash_of(self, version: str) -> str:
        """The hash of the release of a version."""
        found = (d.release for d in self.world.state.deployments.values())
        return next(release.hash for release in found if release.version == version)

    def reasons(self, kind: str) -> list[str]:
        """The reasons in the history, of records of one kind."""
        return [record["reason"] for record in self.world.log.records() if record.kind == kind]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    dags = tmp_path / "dags"
    for name in ("streams", "apps"):
        (dags / name).mkdir(parents=True)
    (dags / "by_hand.py").write_text(DAG_FILE)
    world = World(cast(Airflow, SimpleNamespace(home=tmp_path)), tmp_path, NAME)
    variables = {
        "AIRFLOW_CONN_SPARK_HERE": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "PYTHONPATH": str(ROOT),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    try:
        with LocalStack(tmp_path / "stack", kafka=False, spark=False, dags_folder=dags, variables=variables) as stack:
            said = {**os.environ, **stack.airflow.environment}
            api = stack.airflow.api
            for dag in (f"{NAME}__upgrade", f"{NAME}__operate", f"{NAME}__retire", f"{NAME}__submit"):
                api.wait_for_dag(dag)
            yield Site(world, api, {name: value for name, value in said.items() if value is not None})
    finally:
        world.end()


def test_upgrades_redeployments_and_promotions_by_hand(site: Site) -> None:
    world, api = site.world, site.api
    code, found = site.call("upgrade", NAME, "--dry-run")
    assert (code, found["outcome"]) == (1, "refused"), "it is paused, as every new DAG"
    assert "is paused, and a run of it would wait" in found["said"]
    for dag in ("upgrade", "retire", "submit"):
        api.unpause(f"{NAME}__{dag}")

    # The first release of all, for which somebody asks twice at the same moment.
    for each in [site.begin("upgrade", NAME, "--yes", reason="the first") for _ in range(2)]:
        code, found = site.ends(each)
        assert (code, found["outcome"]) == (0, "done"), found
    assert len(_runs(api, "upgrade")) == 1
    assert world.version == "1"
    assert site.reasons(Kind.DECLARED) == ["the first"]
    assert site.reasons(Kind.REQUESTED) == ["the first"]
    first = site.hash_of("1")
    code, found = site.call("upgrade", NAME, "--yes")
    assert (code, found["outcome"]) == (0, "done_already"), found

    # Two at once: another one is refused, and the same command goes on with its own run.
    site.release("2")
    begun = site.begin("upgrade", NAME, "--yes", reason="the second")
    wait_for("its run", lambda: "2" in [d.release.version for d in world.state.deployments.values()], 300)
    begun.kill()
    begun.wait()
    code, found = site.call("upgrade", NAME, "--yes", reason="something else")
    if world.version != "2":
        assert (code, found["outcome"]) == (1, "refused"), found
        assert "is under way already" in found["said"]
    code, found = site.call("upgrade", NAME, "--yes", reason="the second")
    assert (code, found["outcome"]) in ((0, "done"), (0, "done_already")), found
    wait_for("its end", lambda: {r["state"] for r in _runs(api, "upgrade")} == {"success"}, 300)
    assert world.version == "2"
    assert len(_runs(api, "upgrade")) == 2

    # A stored release: its files are gone.
    world.application.unlink()
    code, found = site.call("redeploy", NAME, "--release", "ffff0000", "--yes")
    assert (code, found["outcome"]) == (1, "refused"), found
    assert f"1 ({first[:12]})" in found["said"]
    assert f"2 ({site.hash_of('2')[:12]})" in found["said"]
    code, found = site.call("redeploy", NAME, "--release", first[:9], "--yes", reason="2 is no good")
    assert (code, found["outcome"]) == (0, "done"), found
    assert world.version == "1"
    assert site.reasons(Kind.DECLARED)[-1] == "2 is no good"
    redeployed = world.state.deployments[found["results"]["upgrade"]["deployment"]]
    assert world.state.wishes[redeployed.family].option("redeployed") is True
    code, found = site.call("redeploy", NAME, "--release", first[:9], "--yes", reason="2 is no good")
    assert (code, found["outcome"]) == (0, "done_already"), found

    # By the form, which starts the same run and lets it go on.
    run = site.form(operation="redeploy", release=site.hash_of("2")[:8])
    assert api.wait_for_run(f"{NAME}__upgrade", f"operate__{run}") == "success"
    assert world.version == "2"
    assert site.reasons(Kind.DECLARED)[-1] == "by the form"

    # Roll back from what was redeployed, to what held before it; that is warm.
    code, found = site.call("roll-back", NAME, "--yes")
    assert (code, found["outcome"]) == (0, "done"), found
    assert world.version == "1"

    # A standby whose run ends before the hand-over.
    site.release("3")
    api.wait_for_run(f"{NAME}__submit", api.trigger(f"{NAME}__submit", {"version": "3"}))
    code, found = site.call("promote", NAME, "--dry-run")
    assert (code, found["outcome"]) == (0, "dry_run"), found
    assert world.version == "1"
    code, found = site.call("promote", NAME, "--yes", reason="Airflow died")
    assert (code, found["outcome"]) == (0, "done"), found
    assert world.version == "3"
    assert site.reasons(Kind.REQUESTED)[-1] == "Airflow died"
    code, found = site.call("promote", NAME, "--yes", reason="Airflow died")
    assert (code, found["outcome"]) == (0, "done_already"), found
    api.wait_for_run(f"{NAME}__submit", api.trigger(f"{NAME}__submit", {"version": "4"}))
    site.form(operation="promote")
    assert world.version == "4"
    world.assert_sound()


def _runs(api: AirflowApi, verb: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.call("GET", f"dags/{NAME}__{verb}/dagRuns", limit=100)["dag_runs"]
    return found
