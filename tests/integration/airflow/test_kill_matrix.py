"""Every task of every DAG of a stream x who is killed while it runs: same outcome, one holder, nothing lost.

The cells of one victim run side by side, some streams at a time in one whole Airflow; each is a test of its own. What
is killed is real: Airflow's processes, and driver processes in which Spark is replaced. `make test-chaos` runs all of
them, and `make test-integration` a sample. The look of the watch is killed in `test_scheduled_watch.py`.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.ids import deployment_of
from devstack.airflow_api import FINAL
from tests.support.cells import CELLS, Cell, Victim
from tests.support.fleet import Fleet, Member, Task, fleet_of

pytestmark = pytest.mark.matrix
# Those that `make test-integration` runs, all in one Airflow: one for each victim but the holder, whom the faults there kill.
SAMPLE = (
    "upgrade-hand_over-worker",
    "upgrade-submit-triggerer",
    "upgrade-soak-scheduler",
    "upgrade-judge-standby",
)
# Streams at a time: each has two or three drivers, and they share two cores with Airflow.
WIDTH = 10
# For all runs of as many; what is killed is made good after a minute or two.
SECONDS = 1500.0
# A part of Airflow is killed so long after a task was seen to run, drawn for each cell: while it starts, plans, or
# acts. Drivers are killed at once: what the task does to them takes less.
DELAY = 1.5
# States of tasks that a person clears; those that ask a person, and in which states they do.
LOST = ("failed", "upstream_failed")
QUESTIONS = ("approve", "confirm", "job_ended")
ASKS = ("deferred", "awaiting_input")
# A task whose trigger fires at once loses a try: Airflow takes it for killed (apache/airflow#71580). People are slower.
ANSWER_AFTER = 6.0
States = Mapping[tuple[str, str, str], Task]


class Strike:
    """One cell while it runs, and what was found wrong of it."""

    def __init__(self, cell: Cell, member: Member) -> None:
        self.cell = cell
        self.member = member
        self.hit = False
        self.problems: list[str] = []
        self._seen: float | None = None
        self._states = cell.states
        self._asked: dict[tuple[str, str, int], float] = {}
        self._delay = random.Random(cell.name).uniform(0, DELAY) if cell.victim.of_airflow else 0.0

    def begin(self, fleet: Fleet) -> None:
        """Trigger the run in which the task has something to do."""
        row, conf = self.cell.row, dict(self.cell.row.conf)
        if row.verb == "revive":
            for pid in self.member.victims(holder=True):
                os.kill(pid, signal.SIGKILL)
        if row.verb == "retire":
            [conf["deployment"]] = set(self.member.world.drivers().values()) - {
                deployment_of(self.member.world.state.holder or "")
            }
        fleet.trigger(self.member, row.verb, **conf)

    def again(self, fleet: Fleet) -> None:
        """Clear the task, which had ended before it was struck, and strike at once, whether it waits or runs."""
        self._delay, self._seen, self._states = 0.0, None, self._states | {"running"}
        fleet.api.clear(self.member.dag, self.member.run, [self.cell.row.task])

    def may_fail(self, fleet: Fleet) -> bool:
        """Whether its run has failed, and may have, as what it needs was killed."""
        return self.cell.victim in self.cell.row.lost and fleet.state(self.member) == "failed"

    def look(self, fleet: Fleet, tasks: States) -> None:
        """Kill when the task is in the state that is meant, and answer what the run asks."""
        row, member = self.cell.row, self.member
        task = tasks.get((member.dag, member.run, row.task))
        if task is not None and not self.hit and task.state in self._states:
            self._seen = self._seen or time.monotonic()
            if task.state != "running" or time.monotonic() >= self._seen + self._delay:
                self.hit = kill(fleet, self.cell.victim, member, task)
        for name in QUESTIONS:
            asks = tasks.get((member.dag, member.run, name))
            # The question that is to be struck while it waits is answered after that.
            early = name == row.task and not self.hit and asks is not None and asks.state in self._states
            if asks is None or asks.state not in ASKS or early:
                continue
            asked = self._asked.setdefault((member.run, name, asks.tries), time.monotonic())
            if time.monotonic() > asked + ANSWER_AFTER:
                self._asked[member.run, name, asks.tries] = time.monotonic()
                fleet.answer(member, name, row.answer)


def kill(fleet: Fleet, victim: Victim, member: Member, task: Task) -> bool:
    """Kill the victim; return whether there was one. Airflow's processes are started again, as by systemd."""
    if victim is Victim.WORKER:
        found = [process.pid for process in fleet.workers(task)]
    elif victim.of_airflow:
        found = [fleet.airflow.parts[victim.value].pid]
    else:
        found = member.victims(holder=victim is Victim.HOLDER)
    killed = 0
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    if killed and victim in (Victim.TRIGGERER, Victim.SCHEDULER):
        fleet.airflow.parts[victim.value].popen.wait()
        fleet.airflow.start_part(victim.value)
    return killed > 0


def run_all(fleet: Fleet, strikes: Sequence[Strike]) -> None:
    """Look until each run has ended."""
    until = time.monotonic() + SECONDS
    while True:
        left = [each for each in strikes if fleet.state(each.member) not in FINAL]
        tasks = fleet.tasks()
        for each in strikes:
            each.look(fleet, tasks)
        if not left:
            return
        if time.monotonic() > until:
            for each in left:
                each.problems.append(f"its run has not ended: {task_states(fleet, each)}")
            return
        time.sleep(0.1)


def task_states(fleet: Fleet, strike: Strike) -> dict[str, dict[str, str | None]]:
    """Return the states of the tasks, by DAG."""
    return {dag: fleet.api.task_states(dag, run) for dag, run in fleet.runs(strike.member)}


def make_good(fleet: Fleet, strikes: Sequence[Strike]) -> None:
    """Do what people do whose runs have failed by the kill, and the watch whose streams have lost their drivers."""
    cleared = []
    for each in strikes:
        # A task without retries, or one that Airflow has given up: it is cleared.
        if each.cell.victim.of_airflow and fleet.state(each.member) != each.cell.row.ends:
            for dag, run in fleet.runs(each.member):
                states = fleet.api.task_states(dag, run)
                if lost := [name for name, state in states.items() if state in LOST]:
                    fleet.api.clear(dag, run, lost)
                    cleared.append(each)
    run_all(fleet, cleared)
    fleet.revive(each.member for each in strikes)
    again = [each for each in strikes if each.may_fail(fleet) and each.member.world.version != each.cell.row.version]
    for each in again:
        verb, conf = each.cell.row.cure or (each.cell.row.verb, each.cell.row.conf)
        fleet.trigger(each.member, verb, **conf)
    run_all(fleet, again)
    fleet.revive(each.member for each in again)


def judge(fleet: Fleet, strike: Strike) -> None:
    """Look whether the outcome is the same, one driver holds, and nothing is lost."""
    row, member, world = strike.cell.row, strike.member, strike.member.world
    if fleet.state(member) != row.ends and not (strike.may_fail(fleet) and world.version == row.version):
        strike.problems.append(f"its run is {fleet.state(member)}: {task_states(fleet, strike)}")
    if world.version != row.version:
        strike.problems.append(f"release {world.version!r} holds, and {row.version!r} was expected: {world.kinds()}")
    if world.state.illegal:
        strike.problems.append(f"the log has illegal records: {world.state.illegal}")
    for query in ("enrich", "totals"):
        batches = world.batches(query)
        doubled = len(batches) - len(set(batches))
        allowed = row.cuts + (strike.cell.victim is Victim.HOLDER)
        if sorted(set(batches)) != list(range(len(set(batches)))) or doubled > allowed:
            strike.problems.append(f"{query} has the batches {batches}")
    most = 2 if row.version else 0
    world.until(
        "one driver that holds, and one beside it at most" if row.version else "the end of the driver",
        lambda: len(member.victims(holder=True)) == bool(row.version) and len(world.drivers()) <= most,
    )


def strike_all(cells: Sequence[Cell], folder: Path) -> dict[str, Strike]:
    """Run cells side by side; return what was found, by the cell's name."""
    folder.mkdir()
    strikes = [Strike(cell, cell.member(number)) for number, cell in enumerate(cells)]
    with fleet_of([each.member for each in strikes], folder) as fleet:
        for each in strikes:
            each.begin(fleet)
        run_all(fleet, strikes)
        # A run whose drivers are others by now is not the one that was meant.
        missed = [each for each in strikes if each.cell.victim.of_airflow and not each.hit and not each.problems]
        for each in missed:
            each.again(fleet)
        run_all(fleet, missed)
        make_good(fleet, strikes)
        for each in strikes:
            if not each.hit:
                each.problems.append("nobody was killed: the task was not seen in the state that was meant")
            try:
                judge(fleet, each)
            except Exception as error:  # noqa: BLE001 - it is one cell's
                each.problems.append(repr(error))
    return {each.cell.name: each for each in strikes}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Callable[[str], Strike]:
    """Return what was found of a cell; those that are asked for are run with the others of their victim."""
    mine = [item for item in request.session.items if item.path == request.path]
    chosen = {item.callspec.params["name"] for item in mine if isinstance(item, pytest.Function)}
    cells = [cell for cell in CELLS if cell.name in chosen]
    known: dict[str, Strike] = {}

    def find(name: str) -> Strike:
        if name not in known:
            victim = next(cell.victim for cell in cells if cell.name == name)
            left = [cell for cell in cells if cell.name not in known and (cell.victim is victim or len(cells) <= WIDTH)]
            left.sort(key=lambda cell: cell.name != name)
            known.update(strike_all(left[:WIDTH], tmp_path_factory.mktemp("matrix") / "fleet"))
        return known[name]

    return find


@pytest.mark.parametrize(
    "name", [pytest.param(cell.name, marks=pytest.mark.demo if cell.name in SAMPLE else ()) for cell in CELLS]
)
def test_whoever_is_killed_the_outcome_is_the_same(found: Callable[[str], Strike], name: str) -> None:
    assert found(name).problems == []
