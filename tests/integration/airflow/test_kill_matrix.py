"""Every task of every DAG of a stream x who is killed while it runs: same outcome, one holder, nothing lost.

The cells of one victim run side by side, some streams at a time in one whole Airflow; each is a test of its own. What
is killed is real: Airflow's processes, and driver processes in which Spark is replaced. `make test-chaos` runs all of
them. The look of the watch is killed in `test_scheduled_watch.py`.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil
import pytest

from airflow_stream_provider.lifecycle.ids import deployment_of
from devstack.airflow_api import FINAL
from tests.support.cells import CELLS, Cell, Victim
from tests.support.fleet import Fleet, Member, Task, fleet_of

pytestmark = pytest.mark.matrix
# Streams at a time: each has two or three drivers, and they share two cores with Airflow.
WIDTH = 8
# For all runs of as many; what is killed is made good after a minute or two.
SECONDS = 1500.0
# A task is killed so long after it was seen to run, drawn for each cell: while it starts, plans, or acts.
DELAY = 1.5
# States of tasks that a person clears.
LOST = ("failed", "upstream_failed")
States = Mapping[tuple[str, str, str], Task]


class Strike:
    """One cell while it runs, and what was found wrong of it."""

    def __init__(self, cell: Cell, member: Member) -> None:
        self.cell = cell
        self.member = member
        self.hit = False
        self.problems: list[str] = []
        self._seen: float | None = None
        self._delay = random.Random(cell.name).uniform(0, DELAY)

    def begin(self, fleet: Fleet) -> None:
        """Trigger the run in which the task has something to do."""
        row, conf = self.cell.row, dict(self.cell.row.conf)
        if row.verb == "revive":
            for pid in self.member.victims(holder=True):
                psutil.Process(pid).kill()
        if row.verb == "retire":
            [conf["deployment"]] = set(self.member.world.drivers().values()) - {
                deployment_of(self.member.world.state.holder or "")
            }
        fleet.trigger(self.member, row.verb, **conf)

    def again(self, fleet: Fleet) -> None:
        """Clear the task, which had ended before it was struck, and strike at once."""
        self._delay, self._seen = 0.0, None
        fleet.api.clear(self.member.dag, self.member.run, [self.cell.row.task])

    def look(self, fleet: Fleet, tasks: States) -> None:
        """Kill when the task is in the state that is meant, and answer what it asks."""
        task = tasks.get((self.member.dag, self.member.run, self.cell.row.task))
        if task is None:
            return
        if not self.hit and task.state in self.cell.states:
            self._seen = self._seen or time.monotonic()
            if task.state != "running" or time.monotonic() >= self._seen + self._delay:
                self.hit = kill(fleet, self.cell.victim, self.member, task)
        if self.hit and self.cell.row.task in ("approve", "confirm") and task.state in ("deferred", "awaiting_input"):
            fleet.answer(self.member, self.cell.row.task)


def kill(fleet: Fleet, victim: Victim, member: Member, task: Task) -> bool:
    """Kill the victim; return whether there was one. Airflow's processes are started again, as by systemd."""
    if victim is Victim.WORKER:
        found = fleet.workers(task)
    elif victim.of_airflow:
        found = [psutil.Process(fleet.airflow.parts[victim.value].pid)]
    else:
        found = [psutil.Process(pid) for pid in member.victims(holder=victim is Victim.HOLDER)]
    killed = 0
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
            killed += 1
    if killed and victim in (Victim.TRIGGERER, Victim.SCHEDULER):
        fleet.airflow.parts[victim.value].popen.wait(30)
        fleet.airflow.start_part(victim.value)
    return killed > 0


def run_all(fleet: Fleet, strikes: Sequence[Strike]) -> None:
    """Look until each run has ended."""
    until = time.monotonic() + SECONDS
    while True:
        tasks, states = fleet.tasks(), fleet.run_states()
        left = [each for each in strikes if states[each.member.dag, each.member.run] not in FINAL]
        for each in strikes:
            each.look(fleet, tasks)
        if not left:
            return
        if time.monotonic() > until:
            for each in left:
                each.problems.append(
                    f"its run has not ended: {fleet.api.task_states(each.member.dag, each.member.run)}"
                )
            return
        time.sleep(0.1)


def make_good(fleet: Fleet, strike: Strike) -> None:
    """Do what a person does whose run has failed by the kill, and the watch whose stream has lost its driver."""
    cell, member = strike.cell, strike.member
    row = cell.row
    if cell.victim.of_airflow and fleet.state(member) != row.ends:
        # A task without retries, or one that Airflow has given up: it is cleared.
        states = fleet.api.task_states(member.dag, member.run)
        if lost := [name for name, state in states.items() if state in LOST]:
            fleet.api.clear(member.dag, member.run, lost)
            fleet.wait_for_runs([member])
    if cell.victim in row.lost and fleet.state(member) == "failed" and member.world.version != row.version:
        fleet.revive(member)
        fleet.trigger(member, row.verb, **row.conf)
        fleet.wait_for_runs([member])
    elif fleet.state(member) != row.ends and cell.victim in row.lost:
        return
    if fleet.state(member) != row.ends:
        strike.problems.append(f"its run is {fleet.state(member)}: {fleet.api.task_states(member.dag, member.run)}")


def judge(fleet: Fleet, strike: Strike) -> None:
    """Look whether the outcome is the same, one driver holds, and nothing is lost."""
    cell, world = strike.cell, strike.member.world
    fleet.revive(strike.member)
    if world.version != cell.row.version:
        strike.problems.append(f"release {world.version!r} holds, and {cell.row.version} was expected: {world.kinds()}")
    if len(strike.member.victims(holder=True)) != 1 or len(world.drivers()) > 2:
        strike.problems.append(f"{world.state.holder} holds, and these run: {world.drivers()}")
    if world.state.illegal:
        strike.problems.append(f"the log has illegal records: {world.state.illegal}")
    for query in ("enrich", "totals"):
        batches = world.batches(query)
        doubled = len(batches) - len(set(batches))
        if sorted(set(batches)) != list(range(len(set(batches)))) or doubled > (cell.victim is Victim.HOLDER):
            strike.problems.append(f"{query} has the batches {batches}")


def strike_all(cells: Sequence[Cell], folder: Path) -> dict[str, Strike]:
    """Run cells side by side; return what was found, by the cell's name."""
    folder.mkdir()
    strikes = [Strike(cell, cell.member(number)) for number, cell in enumerate(cells)]
    with fleet_of([each.member for each in strikes], folder) as fleet:
        for each in strikes:
            each.begin(fleet)
        run_all(fleet, strikes)
        missed = [each for each in strikes if not each.hit and not each.problems]
        for each in missed:
            each.again(fleet)
        run_all(fleet, missed)
        for each in strikes:
            try:
                if not each.hit:
                    each.problems.append("nobody was killed: the task was not seen in the state that was meant")
                make_good(fleet, each)
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


@pytest.mark.parametrize("name", [cell.name for cell in CELLS])
def test_whoever_is_killed_the_outcome_is_the_same(found: Callable[[str], Strike], name: str) -> None:
    assert found(name).problems == []
