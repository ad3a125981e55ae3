"""Many streams side by side in one whole Airflow: started, upgraded, killed at a chosen moment, and looked at.

Drivers are those of `tests/integration/airflow/driver_without_spark.py`: real processes with Spark replaced.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest
import requests

from airflow_stream_provider.cli.run_here import Exit, run_here
from airflow_stream_provider.clusters import processes
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.state import StreamPhase
from airflow_stream_provider.operators.stream import HandOverOperator, StartStreamOperator
from airflow_stream_provider.operators.upgrade import SubmitStandbyOperator
from airflow_stream_provider.planning.steps import TaskIdentity
from airflow_stream_provider.runbook.by_hand import upgrade_run
from airflow_stream_provider.spec.stream import load_spec
from devstack.airflow import DATABASE, Airflow
from devstack.airflow_api import FINAL
from devstack.errors import StackError
from tests.support import airflow_world
from tests.support.airflow_world import World
from tests.support.whole_airflow import ROOT, connections, running_airflow

DAG_FILE = """\
from airflow_stream_provider import stream_dags
from tests.integration.airflow.worker import without_spark

without_spark()
globals().update(stream_dags("streams/"))
"""
# A person's, or a fault's, whose runs nobody looks after here.
ALONE = "watch: {schedule: null}\n"


@dataclass
class Task:
    """A task instance, as Airflow's database has it."""

    id: str
    state: str | None
    tries: int


@dataclass
class Member:
    """One stream of the fleet, and the run that a test looks at.

    :param more: added to its YAML.
    :param first: behaviour of its first releases; see `driver_without_spark`.
    :param behaviour: of the release that is written then.
    :param releases: that it has run before Airflow begins: 1; 2 for one that is warm beside the holder; 0 for none.
    :param standby: whether another one stands by then, that nobody has handed over to.
    :param wanted: the version that its YAML asks for then.
    """

    name: str
    more: str = ""
    first: str = ""
    behaviour: str = ""
    strategy: str = "handover"
    soak: str = "2s"
    releases: int = 1
    standby: bool = False
    wanted: str = "1"
    world: World = field(init=False)
    dag: str = field(init=False, default="")
    run: str = field(init=False, default="")

    def make(self, folder: Path) -> None:
        """Write its YAML and its script."""
        home = cast("airflow_world.Airflow", SimpleNamespace(home=folder))
        place = folder / self.name
        place.mkdir()
        self.world = World(home, place, self.name, strategy=self.strategy)
        text = self.world.yaml.read_text().replace("soak: 2s", f"soak: {self.soak}")
        self.world.yaml.write_text(f"{text}{self.more}{ALONE}")
        self.world.write(self.first)

    def deploy(self) -> None:
        """Run its first releases, without Airflow."""
        spec = load_spec(self.world.yaml)
        # A start asks nobody for an approval, so it refuses a release that needs one.
        spec = spec.model_copy(update={"upgrade": spec.upgrade.model_copy(update={"approval": False})})
        start = StartStreamOperator(task_id="start", stream=spec, version="0" if self.releases == 2 else "1")
        start.hook.create()
        if self.releases == 0:
            return
        ran = run_here(start, TaskIdentity("test", "run", "start"))
        assert ran.code is Exit.DONE, ran.said
        if self.releases == 2:
            self._hand_over("1")
        if self.standby:
            self._submit("s")
        self.world.write(self.behaviour)
        text = self.world.yaml.read_text()
        self.world.yaml.write_text(text.replace('version: "1"', f'version: "{self.wanted}"'))

    def _submit(self, version: str) -> str:
        spec, identity = load_spec(self.world.yaml), TaskIdentity("test", version, "submit")
        ran = run_here(SubmitStandbyOperator(task_id="submit", stream=spec, version=version), identity)
        assert ran.code is Exit.DONE, ran.said
        return str(ran.result["family"])

    def _hand_over(self, version: str) -> None:
        spec, family = load_spec(self.world.yaml), self._submit(version)
        operator = HandOverOperator(task_id="hand_over", stream=spec, family=family, approved="the test")
        assert run_here(operator, TaskIdentity("test", version, "hand_over")).code is Exit.DONE

    def victims(self, *, holder: bool) -> list[int]:
        """Process ids of the drivers that hold, or that do not."""
        held = deployment_of(self.world.state.holder or "")
        return [pid for pid, deployment in self.world.drivers().items() if (deployment == held) is holder]

    def is_lost(self) -> bool:
        """Whether the driver that should hold by the log is no process that lives, as the watch sees it."""
        left_alone = (StreamPhase.EMPTY, StreamPhase.STOPPED)
        return self.world.state.phase not in left_alone and not self.victims(holder=True)


class Fleet:
    """The streams, and the Airflow that runs their DAGs."""

    def __init__(self, airflow: Airflow, members: Iterable[Member]) -> None:
        self.airflow = airflow
        self.api = airflow.api
        self.members = {member.name: member for member in members}
        self._database = f"file:{airflow.folder / DATABASE}?mode=ro"

    def trigger(self, member: Member, verb: str, **conf: Any) -> None:
        """Trigger one of its DAGs, and remember the run."""
        member.dag = f"{member.name}__{verb}"
        if verb == "revive":
            member.dag, conf = "streams__revive", {"stream": member.name, "control": member.world.control}
            # By a look its control root is known; the YAML says that it is not looked at itself.
            self.api.wait_for_dag("streams__watch")
            assert self.api.wait_for_run("streams__watch", self.api.trigger("streams__watch", {})) == "success"
        for dag in {member.dag, f"{member.name}__upgrade"}:  # that is what an operation may start
            self.api.wait_for_dag(dag)
            self.api.unpause(dag)
        member.run = self.api.trigger(member.dag, conf)

    def tasks(self) -> Mapping[tuple[str, str, str], Task]:
        """Return all task instances, by DAG, run and task."""
        query = "SELECT dag_id, run_id, task_id, id, state, try_number FROM task_instance"
        with contextlib.closing(sqlite3.connect(self._database, uri=True, timeout=60)) as database:
            rows = database.execute(query).fetchall()
        return {(dag, run, task): Task(str(uuid.UUID(hex=found)), *more) for dag, run, task, found, *more in rows}

    def run_states(self) -> Mapping[tuple[str, str], str]:
        """Return the state of each run, by DAG and run."""
        with contextlib.closing(sqlite3.connect(self._database, uri=True, timeout=60)) as database:
            return {
                (dag, run): state for dag, run, state in database.execute("SELECT dag_id, run_id, state FROM dag_run")
            }

    def runs(self, member: Member) -> Mapping[tuple[str, str], str]:
        """Return the states of its run, and of the upgrade that this has started."""
        states = self.run_states()
        started = f"{member.name}__upgrade", upgrade_run(member.run)
        return {run: states[run] for run in ((member.dag, member.run), started) if run in states}

    def state(self, member: Member) -> str:
        """Return the state of its run; once that has gone well, of what it has started."""
        return next((state for state in self.runs(member).values() if state != "success"), "success")

    def wait_for_runs(self, members: Iterable[Member], seconds: float = 1500.0) -> None:
        """Wait until the run of each has ended."""
        until, left = time.monotonic() + seconds, list(members)
        while left := [each for each in left if self.state(each) not in FINAL]:
            assert time.monotonic() < until, [self.api.task_states(each.dag, each.run) for each in left]
            time.sleep(1.0)

    def cancel(self, member: Member) -> None:
        """Mark its run as failed, as a person does in the UI."""
        self.api.call("PATCH", f"dags/{member.dag}/dagRuns/{member.run}", json={"state": "failed"})

    def answer(self, member: Member, task: str, answer: str) -> None:
        """Answer what a task asks; one that asks not yet or has its answer is left alone, and so is a busy Airflow."""
        path = f"dags/{member.dag}/dagRuns/{member.run}/taskInstances/{task}/-1/hitlDetails"
        with contextlib.suppress(StackError, requests.RequestException):
            self.api.call("PATCH", path, json={"chosen_options": [answer], "params_input": {}})

    def workers(self, task: Task) -> list[psutil.Process]:
        """Return the processes that run a task: Airflow's supervisor of it, and what that has started."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if task.id in " ".join(process.cmdline()):
                    found += [process, *process.children(recursive=True)]
        return found

    def revive(self, members: Iterable[Member]) -> None:
        """Bring those back whose holder is dead, as the watch does: as often as it takes."""
        until, left = time.monotonic() + 600, [each for each in members if each.is_lost()]
        runs = {each.name: (each.dag, each.run) for each in left}
        while left and time.monotonic() < until:
            for each in left:
                self.trigger(each, "revive")
            self.wait_for_runs(left)
            for each in left:
                each.dag, each.run = runs[each.name]
            if left := [each for each in left if each.is_lost()]:
                time.sleep(20.0)


@contextlib.contextmanager
def fleet_of(members: Iterable[Member], folder: Path, more: Mapping[str, str] | None = None) -> Iterator[Fleet]:
    """Deploy streams, and start an Airflow beside them.

    :param folder: for all that is written.
    :param more: other DAG files, by name.
    """
    members = list(members)
    dags = folder / "dags"
    for name in ("streams", "apps"):
        (dags / name).mkdir(parents=True)
    for name, text in {"streams.py": DAG_FILE, **(more or {})}.items():
        (dags / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in connections(folder).items():
            patch.setenv(name, value)
        (folder / "runtime").mkdir()
        patch.setattr(processes, "home", lambda: ROOT / "tests" / "integration" / "airflow" / "spark_home")
        patch.setattr(processes, "check_java", lambda: None)
        try:
            for member in members:
                member.make(folder)
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(Member.deploy, members))
            with running_airflow(dags, folder) as airflow:
                yield Fleet(airflow, members)
        finally:
            for member in members:
                if hasattr(member, "world"):
                    member.world.end()
