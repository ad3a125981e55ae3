"""Liveness: from whatever state, what the drivers, the watch and the DAG do by themselves brings the stream to run."""

from __future__ import annotations

from collections.abc import Callable

from airflow_stream_provider.lag.limits import Health
from airflow_stream_provider.lifecycle.rules import live_standby
from airflow_stream_provider.lifecycle.state import RequestStage, StreamPhase, StreamState
from airflow_stream_provider.planning.job import follows_job
from airflow_stream_provider.planning.reconcile import reconcile
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import AskPerson, GiveUp, TaskIdentity
from airflow_stream_provider.planning.stream_health import judge_run
from tests.support.simulation.airflow import Task, stand_by, take_over
from tests.support.simulation.driver import Driver
from tests.support.simulation.invariants import expect
from tests.support.simulation.oracle import Oracle
from tests.support.simulation.queries import Luck
from tests.support.simulation.watching import Runs, Watch, as_it_is
from tests.support.simulation.world import World

# Far more turns, and seconds, than any recovery needs.
ENOUGH = 400
# The runs of the watch wait between two tries, for longer each time.
PATIENT = 4000


class Recovery:
    """Lets everything go on without further trouble, and says what should have come of it."""

    def __init__(self, world: World, oracle: Oracle) -> None:
        self.world = world
        self.oracle = oracle

    def settle(self, turns: int, luck: Luck = Luck.GOOD) -> None:
        """Let everybody take a step, so many times."""
        for _ in range(turns):
            for actor in self.world.awake():
                if not actor.over:
                    actor.step(choice=luck)
            self.oracle.look()

    def until(self, reached: Callable[[], bool], luck: Luck = Luck.GOOD, turns: int = ENOUGH) -> None:
        """Let everybody go on, and time pass, until this is so."""
        for _ in range(turns):
            if reached():
                return
            self.world.tick(1.0)
            self.settle(1, luck)
        raise AssertionError(f"it stands still: {self.oracle.state}")

    def reconnect(self) -> None:
        """Store, cluster and network are well again, and a person has restored the log."""
        self.world.restore()
        self.world.store_down = self.world.cluster_down = False
        for actor in self.world.actors:
            actor.cut = False

    def heal(self) -> None:
        """No more trouble; what is frozen stays so, and every Airflow process dies.

        The one thing that the docs leave to a person is done: a driver ends that hangs before it announces itself.
        """
        self.reconnect()
        self.world.late.clear()
        for name, driver in self.world.drivers.items():
            if driver.frozen and not driver.over and name not in self.oracle.state.incarnations:
                driver.kill()
        for actor in self.world.living():
            if not isinstance(actor.process, Driver):
                actor.crash()

    def drivers_alone(self) -> None:
        """Airflow is not on the hot path: what was begun ends without it, if those who are needed live."""
        for _ in range(30):
            self.world.tick(1.0)
            self.settle(1)
        state = self.oracle.state
        request = state.open_request
        if state.holder is not None and self._well(state.holder):
            assert self.world.drivers[state.holder].running
            expect(not self.world.drivers[state.holder].queries.paused, "goes-on", state.holder)
            if request is not None:
                assert request.to is not None, "a living holder did not stop"
                assert not self._able(request.to), "a hand-over stands still"
        elif state.holder is None and request is not None and not state.must_fence:
            assert not self._able(request.to), f"{request.to} is appointed and does not acquire"
            taken_back = request.stage is not RequestStage.RELEASED or not self._able(request.source)
            assert taken_back, f"{request.source} does not take back"

    def watch(self, runs: bool) -> None:
        """The watch brings back what died, and leaves alone what a person stopped; `runs`: as the DAG does it."""
        _ = Runs(self.world, "last") if runs else Watch(self.world, "watch")
        self.until(lambda: self.runs() or self._rests(), turns=PATIENT if runs else ENOUGH)
        for actor in self.world.living():
            if not isinstance(actor.process, Driver):
                actor.crash()

    def upgrade(self, run: str) -> None:
        """A new run of the DAG: standby, hand-over."""
        up = TaskIdentity("orders__upgrade", run, "stand_by")
        self.finish(Task(self.world, up, stand_by("release-0")))
        self.finish(Task(self.world, TaskIdentity("orders__upgrade", run, "take_over"), take_over(up.wish)))
        self.settle(6)  # from `acquired` to running queries

    def finish(self, task: Task) -> None:
        self.until(lambda: task.over)

    def runs(self) -> bool:
        """Whether a driver holds the stream, lives, and really runs the queries."""
        holder = self.oracle.state.holder
        return holder is not None and self._well(holder) and self.world.drivers[holder].writing

    def _rests(self) -> bool:
        """Nobody runs the stream, and nobody wants it to run."""
        state = self.oracle.state
        resting = state.phase in (StreamPhase.STOPPED, StreamPhase.FINISHED, StreamPhase.EMPTY)
        resting = (resting and not self.oracle.wanted) or self._is_told_a_person(state)
        return resting and not state.must_fence and state.open_request is None

    def _is_told_a_person(self, state: StreamState) -> bool:
        """Whether only a person can go on with an adoption, and the watch tells people so."""
        snapshot = Snapshot("orders", self.world.now, state)
        scene = as_it_is(self.world, snapshot, TaskIdentity("orders__watch", "last", "look"))
        adopts = state.job is not None or (state.wish is not None and follows_job(state, state.wish))
        if state.holder is not None or not adopts or not isinstance(reconcile(scene), (GiveUp, AskPerson)):
            return False
        return judge_run(snapshot, None).health is Health.FAIL

    def _able(self, incarnation: str | None) -> bool:
        return live_standby(self.oracle.state, incarnation) and self._well(str(incarnation))

    def _well(self, incarnation: str) -> bool:
        driver = self.world.drivers[incarnation]
        return driver.lives and not driver.terminating
