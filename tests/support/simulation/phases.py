"""An upgrade that is brought as far as a phase, for whatever comes then."""

from __future__ import annotations

from collections.abc import Callable

from airflow_stream_provider.lifecycle.state import Deployment, RequestStage
from airflow_stream_provider.planning.steps import TaskIdentity
from tests.support.simulation.airflow import Task, hand_over, stand_by
from tests.support.simulation.people import SCHEDULER_SECONDS, Run
from tests.support.simulation.seeds import Simulation
from tests.support.simulation.watching import Runs
from tests.support.simulation.wishes import Plan

# Longer than any of it takes: requests expire, and a watch looks.
ENOUGH = 300.0
FIRST, SECOND, NEW, LATER = "release-0", "release-1", "release-2", "release-3"
# How far the hand-over from SECOND to NEW has come.
PHASES: dict[str, Callable[[Upgrade], bool]] = {
    "submitted": lambda self: self.coming and self.new_driver is None,
    "rehearsing": lambda self: self.coming and self.new_driver == "rehearse",
    "ready": lambda self: self.stands_by and not self.is_wished,
    "wished": lambda self: self.is_wished and self.stage is None,
    "requested": lambda self: self.stage is RequestStage.REQUESTED,
    "answered": lambda self: self.stage is RequestStage.READY,
    "released": lambda self: self.stage is RequestStage.RELEASED,
    "acquired": lambda self: self.holds(NEW) and not self.commits,
    "soak": lambda self: self.holds(NEW) and self.commits,
}


class Upgrade(Simulation):
    """FIRST and SECOND have held, one after the other, and an upgrade to NEW is under way; no fault comes."""

    def __init__(self) -> None:
        super().__init__(0)
        self.later(SCHEDULER_SECONDS, self._schedule)
        self.new = ""

    def to(self, phase: str) -> None:
        """Go on to a phase of the upgrade."""
        Runs(self.world, "watch")
        for release in (FIRST, SECOND):
            self.upgrade(release)
            self.reach(lambda: self.holds(release) and self.commits and self.idle)  # noqa: B023 - called at once
        self.new = self.upgrade(NEW)
        self.reach(lambda: PHASES[phase](self))

    def reach(self, reached: Callable[[], bool]) -> None:
        """Go on, step by step, until this is so."""
        end = self.world.now + ENOUGH
        while not reached() and self.world.now < end:
            self.go_a_step(end)
        assert reached(), f"it stands still: {self.oracle.state}"

    def upgrade(self, release: str, *, hands_over: bool = True) -> str:
        """Begin a run that brings a release up, and lets it take over; return the family of its wishes."""
        run = f"run-{len(self.people.tasks) + 1}"
        family = TaskIdentity("orders__upgrade", run, "stand_by").wish
        takes_over = [("take_over", hand_over(family, approved="somebody"))] if hands_over else []
        self.run_of("upgrade", ("stand_by", stand_by(release)), *takes_over)
        return family

    def run_of(self, dag: str, *plans: tuple[str, Plan]) -> None:
        """Begin a run of a DAG."""
        self.people.runs.append(Run(self, f"orders__{dag}", list(plans)))

    def tasks_of(self, run: str) -> list[Task]:
        """The tries of a run's tasks so far."""
        return [task for task in self.people.tasks if task.identity.run_id == run]

    # -- how far it is ---------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether no run is under way, and all that is wished for is so."""
        return not self.people.runs and self.liveness.settled()

    @property
    def stage(self) -> RequestStage | None:
        request = self.oracle.state.open_request
        return None if request is None else request.stage

    @property
    def is_wished(self) -> bool:
        wish = self.oracle.state.wish
        return wish is not None and wish.family == self.new

    @property
    def coming(self) -> bool:
        """Whether a driver of NEW is submitted, and not up."""
        known = self.oracle.state.family(self.new)
        return bool(known) and bool(known[-1].submission) and not self.oracle.state.of_deployment(known[-1].id)

    @property
    def new_driver(self) -> str | None:
        """What the driver of NEW does next; None: its agent is not there yet."""
        drivers = [d for d in self.world.drivers.values() if d.deployment in {e.id for e in self._of(self.new)}]
        if not drivers or drivers[-1].agent is None:
            return None
        return next((thread.doing for thread in drivers[-1].threads if thread.doing == "rehearse"), "")

    @property
    def stands_by(self) -> bool:
        return any(self.oracle.state.of_deployment(each.id) for each in self._of(self.new))

    def _of(self, family: str) -> tuple[Deployment, ...]:
        return self.oracle.state.family(family)

    def holds(self, release: str) -> bool:
        held = self.oracle.state.holding_deployment
        return held is not None and held.release.version == release

    @property
    def commits(self) -> bool:
        """Whether the holder has committed a batch."""
        data, driver = self.world.data, self.world.drivers[self.oracle.state.holder or ""]
        assert data is not None
        return any(batch.committed_at and batch.runs[-1].driver is driver for batch in data.batches)
