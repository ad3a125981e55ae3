"""What people and DAGs ask for in the simulation: runs of tasks, one after the other, that are retried and cleared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_stream_provider.planning.steps import Done, TaskIdentity
from tests.support.simulation.airflow import (
    GiveUp,
    Task,
    hand_over,
    newest,
    promote,
    restart,
    retire,
    roll_back,
    stand_by,
    stop,
    take_over,
    undo,
    withdraw,
)
from tests.support.simulation.oracle import RESTART
from tests.support.simulation.queries import BAD
from tests.support.simulation.wishes import Plan

if TYPE_CHECKING:
    from tests.support.simulation.seeds import Simulation

RETRIES = 2
SCHEDULER_SECONDS = 1.0


class Run:
    """A DAG run: its tasks one after the other; when one gives up, `at_last` follows."""

    def __init__(
        self,
        sim: Simulation,
        dag: str,
        plans: list[tuple[str, Plan]],
        at_last: Plan | None = None,
    ) -> None:
        self._sim = sim
        self._dag = dag
        self._id = f"run-{len(sim.people.tasks) + 1}"
        self._plans = plans
        self._at_last = at_last
        self._tries = 0
        self.over = False
        self._task = self._next()

    def _next(self) -> Task:
        name, plan = self._plans.pop(0)
        identity = TaskIdentity(self._dag, self._id, name)
        task = Task(self._sim.world, identity, plan)
        self._sim.people.tasks.append(task)
        return task

    def schedule(self) -> None:
        """Look what the scheduler has to do now."""
        task = self._task
        if not task.over:
            return
        self._tries += 1
        if task.ended is None and self._tries <= RETRIES:
            self._task = task.again()
            return
        self._tries = 0
        if not isinstance(task.ended, Done):
            self._plans = [("roll_back", self._at_last)] if self._at_last is not None else []
            self._at_last = None
        if self._plans:
            self._task = self._next()
        else:
            self.over = True


class People:
    """Whoever starts runs of DAGs."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self.tasks: list[Task] = []
        self.runs: list[Run] = []
        self.families: list[str] = []

    def schedule(self) -> None:
        """Go on with all runs."""
        for run in self.runs:
            run.schedule()
        self.runs = [run for run in self.runs if not run.over]

    def act(self, what: str) -> None:
        """Do one of ACTS."""
        getattr(self, what.replace(" ", "_"))()

    def upgrade(self, *, approves: bool = False) -> None:
        """`approves`: a person is there who approves it, if that is asked for."""
        bad = self._sim.rng.random() < 0.15 and self._sim.oracle.state.epoch
        release = BAD if bad else f"release-{self._sim.rng.randrange(3)}"
        unapproved = bool(self._sim.oracle.state.epoch) and not approves and self._sim.rng.random() < 0.15
        family = TaskIdentity("orders__upgrade", f"run-{len(self.tasks) + 1}", "stand_by").wish
        self.families.append(family)
        takes_over = hand_over(family) if unapproved else take_over(family)
        plans = [("stand_by", stand_by(release, approval=unapproved)), ("take_over", takes_over)]
        held = self._sim.oracle.state.holding_deployment
        if held is not None and self._sim.rng.random() < 0.5:
            plans.append(("retire", retire(lambda state: held.id)))
        self.runs.append(Run(self._sim, "orders__upgrade", plans, undo()))

    def two_upgrades(self) -> None:
        self.upgrade()
        self.upgrade()

    def roll_back(self) -> None:
        self.runs.append(Run(self._sim, "orders__back", [("roll_back", roll_back())]))

    def roll_back_cold(self) -> None:
        """What holds fails, and nothing is warm that it could be rolled back to."""
        held = self._sim.oracle.state.holder
        for name, driver in self._sim.world.drivers.items():
            if name != held:
                driver.crash()
        if held is not None:
            self.runs.append(Run(self._sim, "orders__back", [("roll_back", roll_back())]))
            driver = self._sim.world.drivers[held]
            self._sim.later(self._sim.rng.uniform(0.0, 6.0), driver.crash)

    def stop(self) -> None:
        self.runs.append(Run(self._sim, "orders__stop", [("stop", stop())]))

    def leave(self) -> None:
        self.runs.append(Run(self._sim, "orders__stop", [("stop", stop(for_good=True))]))

    def promote(self) -> None:
        self.runs.append(Run(self._sim, "orders__promote", [("promote", promote())]))

    def call_off(self) -> None:
        self.runs.append(Run(self._sim, "orders__abort", [("abort", withdraw())]))

    def restart(self) -> None:
        """Not one of ACTS, but a phase of its own."""
        self.runs.append(Run(self._sim, RESTART, [("restart", restart(f"release-{len(self.tasks) % 3}"))]))

    def hand_over(self) -> None:
        family = self._sim.pick(self.families) or "none"
        self.runs.append(Run(self._sim, "orders__hand_over", [("take_over", take_over(family))]))

    def retire(self) -> None:
        self.runs.append(Run(self._sim, "orders__retire", [("retire", retire(newest))]))

    def clear_a_task(self) -> None:
        """A task that is over is cleared, or tried again though its last try still runs somewhere."""
        task = self._sim.pick(self.tasks)
        if task is not None and (task.over or task.frozen):
            self.tasks.append(task.again())

    def give_up(self) -> None:
        GiveUp(self._sim.world, "somebody")


ACTS = (
    "upgrade",
    "two upgrades",
    "roll back",
    "roll back cold",
    "stop",
    "leave",
    "promote",
    "hand over",
    "retire",
    "call off",
    "clear a task",
    "give up",
)
