"""What a person asks for in a scenario. Airflow and the nemesis only say what they are told to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.state import StreamPhase
from chaos import scenario as module
from chaos.events import Events
from chaos.journal import Journal
from chaos.plan import (
    ABORT,
    FOUR_IN_A_ROW,
    GOOD,
    NEXT_IN_ROW,
    REDEPLOY,
    RESTART,
    ROLL_BACK,
    STOP,
    TWO_AT_ONCE,
    Cell,
    Scenario,
)
from chaos.scenario import Person
from chaos.upgrades import EITHER
from chaos.world import OPERATE_DAG, UPGRADE_DAG
from devstack.errors import StackError
from tests.support.control_root import new_log
from tests.support.story import HANDED_OVER, NEW_DEPLOYMENT, OLD, OLD_DEPLOYMENT, RUNNING, play

MISSED = {Cell("ready", "holder", "kill")}


class SaidByAirflow:
    def __init__(self) -> None:
        self.triggered: list[tuple[str, Mapping[str, Any]]] = []
        self.cleared: list[list[str]] = []
        self.cancelled: list[str] = []
        self.states: dict[str, str] = {}
        self.tasks: dict[str, str | None] = {"check": "success", "submit": None}

    def trigger(self, dag: str, conf: Mapping[str, Any]) -> str:
        self.triggered.append((dag, conf))
        return f"run-{len(self.triggered)}"

    def run_state(self, dag: str, run: str) -> str:
        return self.states.get(run, "success")

    def task_states(self, dag: str, run: str) -> dict[str, str | None]:
        return self.tasks

    def clear(self, dag: str, run: str, tasks: list[str]) -> None:
        self.cleared.append(tasks)

    def call(self, method: str, path: str, **query: object) -> None:
        self.cancelled.append(path.rpartition("/")[2])


class SaidByTheNemesis:
    def __init__(self, events: Events) -> None:
        self.events, self.missed, self.excused = events, MISSED, ()
        self.waiting = self.lasting = 0
        self.last_healed = 0.0
        self.last_fault = ""
        self.skipped: list[str] = []

    def arm(self, number: int, faults: object) -> None:
        pass

    def skip(self, why: str) -> None:
        self.skipped.append(why)
        self.waiting = 0

    @contextlib.contextmanager
    def quiet(self) -> Iterator[Events]:
        yield self.events


class Site:
    def __init__(self, folder: Path) -> None:
        events = Events(new_log((folder / "control").as_uri()))
        events.state = play(RUNNING)
        self.api, self.nemesis = SaidByAirflow(), SaidByTheNemesis(events)
        self.journal = Journal(folder / "journal.jsonl")
        self.said: list[str] = []
        spec = SimpleNamespace(spec=SimpleNamespace(arguments=()))
        world: Any = SimpleNamespace(api=self.api, checkpoints={}, site=spec, folder=folder)
        nemesis: Any = self.nemesis
        self.person = Person(world, nemesis, self.journal, self.said.append, lambda: None)

    def ended(self, what: str = "upgrade") -> list[dict[str, Any]]:
        return [entry for entry in self.journal.entries() if entry["what"] == what]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(module, "AFTERMATH_SECONDS", 0.0)
    return Site(tmp_path)


def test_what_was_missed_is_said(site: Site) -> None:
    assert site.person.carry_out(Scenario(1, GOOD, ())) == MISSED


def test_two_at_once_are_of_two_dags_and_either_may_win(site: Site) -> None:
    site.person.carry_out(Scenario(1, TWO_AT_ONCE, ()))
    assert [dag for dag, _ in site.api.triggered] == [OPERATE_DAG, UPGRADE_DAG]
    [back], [upgrade] = site.ended("operation"), site.ended()
    assert (back["kind"], back["holder"], back["expected"]) == (ROLL_BACK, OLD_DEPLOYMENT, EITHER)
    assert (upgrade["expected"], "holder" in upgrade) == (EITHER, False)


@pytest.mark.parametrize("by", ["run-1", "another"])
def test_what_was_stopped_is_started_until_it_runs(site: Site, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    stop = SimpleNamespace(to=None, by=f"airflow:{OPERATE_DAG}/{by}/stop")
    state = SimpleNamespace(phase=StreamPhase.RUNNING, holding_deployment=None, requests={"stop": stop})
    monkeypatch.setattr(site.nemesis, "events", SimpleNamespace(state=state))
    asked: list[str] = []

    def trigger(dag: str, conf: Mapping[str, Any]) -> str:
        asked.append(conf["operation"])
        state.phase = StreamPhase.RUNNING if asked == ["stop", "start", "start"] else StreamPhase.STOPPED
        return f"run-{len(asked)}"

    monkeypatch.setattr(site.api, "trigger", trigger)
    site.api.states = {"run-2": "failed"}
    site.person.carry_out(Scenario(1, STOP, ()))
    assert asked == ["stop", "start", "start"]
    assert [entry["ended"] for entry in site.ended("operation")] == ["success", "failed", "success"]
    assert len(site.person._taken_down()) == 3
    rests = {entry["says"] for entry in site.ended("problem")}
    assert any("rests though nobody has asked for that" in each for each in rests) is (by != "run-1")


def test_a_redeployment_is_of_the_release_that_held_before_and_its_run_is_awaited(site: Site) -> None:
    site.nemesis.events.state = play(HANDED_OVER)
    site.api.tasks = {"look": "success", "stop": "skipped", "upgrade": "success"}
    site.person.carry_out(Scenario(1, REDEPLOY, ()))
    [(dag, conf)] = site.api.triggered
    old = site.nemesis.events.state.deployments[OLD_DEPLOYMENT].release.hash
    assert (dag, conf["operation"], conf["release"]) == (OPERATE_DAG, "redeploy", old)
    [operation], [upgrade] = site.ended("operation"), site.ended()
    assert (operation["did"], operation["holder"]) == (["upgrade"], NEW_DEPLOYMENT)
    assert (upgrade["kind"], upgrade["run"], upgrade["ended"]) == (REDEPLOY, "operate__run-1", "success")


def test_a_restart_is_of_the_version_that_runs(site: Site, tmp_path: Path) -> None:
    yaml = tmp_path / "dags" / "streams" / "orders.yaml"
    yaml.parent.mkdir(parents=True)
    yaml.write_text('name: orders\nversion: "1"\nconf: {}\n')
    site.nemesis.events.state = play(HANDED_OVER)
    site.person.carry_out(Scenario(1, RESTART, ()))
    version = site.nemesis.events.state.deployments[NEW_DEPLOYMENT].release.version
    assert yaml.read_text() == f'name: orders\nversion: "{version}"\nconf: {{}}\n'
    assert [conf["operation"] for _, conf in site.api.triggered] == ["restart"]


def test_an_upgrade_is_called_off_in_the_middle(site: Site) -> None:
    site.person.carry_out(Scenario(1, ABORT, (), meddles_after=0.001))
    assert [(dag, conf.get("operation")) for dag, conf in site.api.triggered] == [
        (UPGRADE_DAG, None),
        (OPERATE_DAG, "abort"),
    ]
    assert [entry["kind"] for entry in (*site.ended(), *site.ended("operation"))] == [ABORT, ABORT]


def test_the_next_of_a_row_has_its_faults_as_soon_as_the_one_before_has_ended(site: Site) -> None:
    site.nemesis.waiting = site.nemesis.lasting = 1
    site.person.carry_out(Scenario(1, FOUR_IN_A_ROW, ()))
    assert len(site.api.triggered) == 4
    assert [entry["run"] for entry in site.ended()] == ["run-1"]
    assert site.nemesis.skipped == ["the upgrade is over"]
    site.person.carry_out(Scenario(2, NEXT_IN_ROW, ()))
    assert [entry["run"] for entry in site.ended()] == ["run-1", "run-2"]


def test_the_recovery_is_awaited_when_the_time_is_over_in_the_middle_of_a_row(site: Site) -> None:
    """Found by three runs: nobody looked whether the stream ran again after the last faults."""
    site.nemesis.waiting = site.nemesis.lasting = 1
    site.person.carry_out(Scenario(1, FOUR_IN_A_ROW, ()))
    site.nemesis.lasting, site.nemesis.last_healed, site.nemesis.last_fault = 0, 1.0, "1.1"
    site.nemesis.events.beats = {OLD: Heartbeat()}
    site.person.finish()
    assert site.api.cancelled == ["run-3", "run-4"]
    assert [entry["fault"] for entry in site.journal.entries() if entry["what"] == "recovered"] == ["1.1"]


def test_an_upgrade_that_cannot_be_cancelled_is_waited_for_and_ends_no_run(site: Site) -> None:
    """Found by a review: an API server that was busy at the end would have cost the report of an hour."""
    site.nemesis.waiting = site.nemesis.lasting = 1
    site.person.carry_out(Scenario(1, FOUR_IN_A_ROW, ()))
    site.nemesis.lasting = 0

    def call(method: str, path: str, **query: object) -> None:
        if path.endswith("run-3"):
            raise requests.ConnectionError("busy")
        site.api.cancelled.append(path.rpartition("/")[2])

    site.api.call = call  # type: ignore[method-assign]  # an API server that is busy
    site.person.finish()
    assert site.api.cancelled == ["run-4"]
    assert {entry["run"]: entry["ended"] for entry in site.ended()} == {
        **dict.fromkeys(("run-1", "run-2", "run-3"), "success"),
        "run-4": "cancelled",
    }


BUSY = StackError("Airflow refused GET /runs (500): database is locked.", status=500)


def test_an_answer_that_is_an_error_ends_no_run(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([BUSY, requests.ConnectionError("busy")])

    def run_state(dag: str, run: str) -> str:
        for error in answers:
            raise error
        return "success"

    monkeypatch.setattr(site.api, "run_state", run_state)
    assert site.person.carry_out(Scenario(1, GOOD, ())) == MISSED
    assert [entry["ended"] for entry in site.ended()] == ["success"]


def test_an_upgrade_that_airflow_refuses_is_a_problem_and_ends_no_run(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trigger(dag: str, conf: Mapping[str, Any]) -> str:
        raise BUSY

    monkeypatch.setattr(site.api, "trigger", trigger)
    assert site.person.carry_out(Scenario(1, GOOD, ())) == MISSED
    [problem] = [entry["says"] for entry in site.journal.entries() if entry["what"] == "problem"]
    assert problem.startswith("good could not be asked for: Airflow refused")
    assert site.ended() == []


@pytest.mark.parametrize(("task", "cleared"), [("check", [["check"]]), ("submit", [])])
def test_only_a_task_that_has_begun_is_cleared(site: Site, task: str, cleared: list[list[str]]) -> None:
    site.api.states = {"run-1": "running"}
    site.person._upgrade(GOOD)
    site.person._clear(task)
    assert site.api.cleared == cleared
    assert site.said == [f"    {task} is cleared" if cleared else f"    {task} is not cleared: it has not begun"]


def test_nothing_is_cleared_when_no_run_is_under_way(site: Site) -> None:
    site.person._clear("check")
    assert site.api.cleared == []
    assert site.said == ["    check is not cleared: its run has ended"]
