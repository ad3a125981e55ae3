"""The watch: its looks and the runs that bring the stream back, as their DAGs make them; and one that knows at once."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping

from airflow_stream_provider.lifecycle.errors import ClusterError, ControlUnavailable, RuleBroken, SeqTaken
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning.conditions import Needs
from airflow_stream_provider.planning.recover import drivers_of_interest, recover
from airflow_stream_provider.planning.recovery_decision import RecoveryStep, recovery_step
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Done, Skip, Step
from airflow_stream_provider.planning.steps import GiveUp as GivenUp
from airflow_stream_provider.planning.task_identity import TaskIdentity
from airflow_stream_provider.planning.wait_outcome import WaitOutcome
from tests.support.simulation.airflow import Airflow, Task
from tests.support.simulation.oracle import REVIVE
from tests.support.simulation.world import World

REQUEST_SECONDS = 60.0
LOOK_SECONDS = 20.0  # a minute in Airflow


class Revive(Task):
    """A run of NAME__revive: what a look found to be due is carried out."""

    def __init__(self, world: World, name: str, before: Mapping[str, int]) -> None:
        def plan(snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
            # Another process goes on after each wait, and does not know what the look has seen.
            return recover(snapshot, identity, outcome, before if outcome is None else {})

        super().__init__(world, TaskIdentity(REVIVE, name, "revive"), plan)
        self._name, self._before = name, before

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        return Needs(drivers=drivers_of_interest(snapshot))

    def again(self) -> Revive:
        return Revive(self.world, self._name, self._before)


class Runs(Airflow):
    """The watch as its DAG makes it: a look after the other, and a run of NAME__revive when something is due."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, "airflow:streams__watch/look")
        self._name = name

    def run(self) -> None:
        before: dict[str, int] = {}
        for number in itertools.count():
            self.point(LOOK_SECONDS, "look")
            with contextlib.suppress(ControlUnavailable):
                state, beats = self.log.refresh(), self.log.heartbeats()
                name = f"{self._name}-{number}"
                snapshot = Snapshot("orders", self.now, state, self.log.history(), beats)
                step = recover(snapshot, TaskIdentity(REVIVE, name, "revive"), None, before)
                running = any(isinstance(actor, Revive) and not actor.over for actor in self.world.actors)
                if not running and not isinstance(step, (Done, Skip, GivenUp)):
                    Revive(self.world, name, before)
                before = {name: beat.counter for name, beat in beats.items()}


class Watch(Airflow):
    """Looks, asks `recovery_step`, does it, and knows at once who lives; two of them may run at a time."""

    def run(self) -> None:
        while True:
            self.point()
            try:
                state = self.log.refresh()
                step = recovery_step(state, self.alive(state), self.now)
                self.point()
                getattr(self, f"_{step.action.value}")(state, step)
            except (ControlUnavailable, ClusterError, SeqTaken, RuleBroken):
                continue  # look again

    def alive(self, state: StreamState) -> dict[str, bool | None]:
        if self.world.cluster_down or self.cut:
            return {}
        drivers = {name: self.world.drivers[name].lives for name in state.incarnations}
        return {**drivers, **{name: self._any_lives(name) for name in state.deployments}}

    def _any_lives(self, deployment: str) -> bool:
        return any(d.lives for name, d in self.world.drivers.items() if deployment_of(name) == deployment)

    def _wait(self, state: StreamState, step: RecoveryStep) -> None:
        return

    def _fence(self, state: StreamState, step: RecoveryStep) -> None:
        if not state.incarnations[step.subject].fencing:
            self.log.append(self.record(Kind.FENCING, incarnation=step.subject, reason=step.reason), state.seq)
        self.point()
        self.world.drivers[step.subject].kill()
        self.point()
        fenced = self.record(Kind.FENCED, incarnation=step.subject, reason=step.reason, evidence="gone")

        def build(now: StreamState) -> Record | None:
            found = now.incarnations[step.subject].state
            return None if found.terminal and step.subject not in now.must_fence else fenced

        self.log.propose(build)

    def _abort(self, state: StreamState, step: RecoveryStep) -> None:
        self.log.append(self.record(Kind.ABORTED, request=step.subject, reason=step.reason), state.seq)

    def _request(self, state: StreamState, step: RecoveryStep) -> None:
        expires = self.now + REQUEST_SECONDS
        wanted = self.record(Kind.REQUESTED, request=f"watch-{state.seq}", to=step.subject, expires=expires)
        self.log.append(wanted, state.seq)

    def _fail(self, state: StreamState, step: RecoveryStep) -> None:
        self.log.append(self.record(Kind.FAILED, deployment=step.subject, reason=step.reason), state.seq)

    def _declare(self, state: StreamState, step: RecoveryStep) -> None:
        new, release = f"watch-{state.seq}", state.deployments[step.subject].release.to_json()
        self.log.append(self.record(Kind.DECLARED, deployment=new, release=release), state.seq)
        self.submit(new, self.by, first=False)
