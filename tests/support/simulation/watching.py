"""The watch: its looks and the runs that bring the stream back, as their DAGs make them; and one that knows at once."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from typing import cast

from airflow_stream_provider.clusters import Cluster, DriverState, status_of
from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lifecycle.errors import ClusterError, ControlUnavailable, RuleBroken, SeqTaken
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.monitoring import health
from airflow_stream_provider.monitoring.health import sample_of
from airflow_stream_provider.planning.due import due_without_cluster, is_due, needs
from airflow_stream_provider.planning.reconcile import reconcile
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.signs_of_life import Dead
from airflow_stream_provider.planning.snapshot import DriverFacts, Snapshot
from airflow_stream_provider.planning.steps import Append, Declare, EndJob, Kill, Step, Submit, TaskIdentity
from airflow_stream_provider.planning.waits import WaitOutcome
from tests.support.simulation.airflow import Airflow, Task
from tests.support.simulation.oracle import REVIVE
from tests.support.simulation.world import World

LOOK_SECONDS = 20.0  # a minute in Airflow
LIMITS = LagLimits()


class Revive(Task):
    """A run of the watch's: what a look found to be due is carried out."""

    def __init__(self, world: World, name: str) -> None:
        sample = world.sample

        def plan(snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
            # Another process goes on after each wait, and does not know what the look has seen.
            before = sample.counters if sample and outcome is None else {}
            return reconcile(Scene(snapshot, identity, outcome, before=before))

        super().__init__(world, TaskIdentity(REVIVE, name, "revive"), plan)
        self._name = name

    def again(self) -> Revive:
        return Revive(self.world, self._name)


class Runs(Airflow):
    """The watch as its DAG makes it: a look after the other, and a run of FOLDER__revive when something is due."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, "airflow:streams__watch/look")
        self._name = name

    def run(self) -> None:
        for number in itertools.count():
            self.point(LOOK_SECONDS, "look")
            with contextlib.suppress(ControlUnavailable):
                due, beside = self._look()
                running = sum(isinstance(actor, Revive) and not actor.over for actor in self.world.actors)
                if (due and not running) or (beside and running == 1):
                    Revive(self.world, f"{self._name}-{number}")

    def _look(self) -> tuple[bool, bool]:
        """As `monitoring/folder_look.py`: read, read the doubtful again, ask the cluster, decide, keep the sample."""
        before = self.world.sample
        state, beats, _ = self.read()
        snapshot = Snapshot("orders", self.now, state, (), beats)
        beaten = self._again(snapshot)
        drivers = self._ask(snapshot)
        alive = health.alive(snapshot, before, beaten, drivers or {})
        self.world.sample = sample_of(snapshot, None, before, LIMITS, {})
        scene = Scene(snapshot, TaskIdentity("orders__watch", self._name, "look"), lives=alive)
        due = is_due(scene, cluster_answers=drivers is not None)
        return due, due and due_without_cluster(reconcile(scene))

    def _again(self, snapshot: Snapshot) -> dict[str, bool]:
        """Whether those beat of which it is doubtful; nothing when that cannot be read in time."""
        doubtful = health.doubtful(snapshot)
        if not doubtful:
            return {}
        self.point(health.AGAIN_SECONDS, "look again")
        try:
            if self.world.second_reads_hang:
                raise ControlUnavailable("It has not answered.")
            beats = {name: self.log.heartbeat(name) for name in doubtful}
        except ControlUnavailable:
            return {}
        return {name: beat is not None and beat.counter > snapshot.counter(name) for name, beat in beats.items()}

    def _ask(self, snapshot: Snapshot) -> dict[str, DriverState] | None:
        """What the cluster says of the drivers that matter; None when it does not answer."""
        if self.world.cluster_down or self.cut:
            return None
        state = snapshot.state
        wanted = {deployment_of(state.last_holder or ""), *needs(snapshot).drivers}
        known = {name: snapshot.submission(name) for name in sorted(wanted) if name in state.deployments}
        return {
            name: status_of(cast("Cluster", self.cluster), submission)
            for name, submission in known.items()
            if submission
        }


def as_it_is(world: World, snapshot: Snapshot, me: TaskIdentity) -> Scene:
    """What a snapshot shows, with the truth about who lives and what the cluster runs."""
    state = snapshot.state
    living = {deployment_of(name) for name, driver in world.drivers.items() if driver.lives}
    facts = {
        each.id: DriverFacts(
            each.submission,
            DriverState.RUNNING if each.id in living else DriverState.FAILED,
            gone=each.id not in living,
        )
        for each in state.deployments.values()
        if each.submission
    }
    job = None if world.old_job is None else world.old_job.view
    lives = {name: world.drivers[name].lives for name in state.incarnations}
    return Scene(replace(snapshot, drivers=facts, job=job), me, lives=lives)


class Watch(Airflow):
    """Takes the steps of `reconcile`, and knows at once who lives; two of them may run at a time."""

    def run(self) -> None:
        me = TaskIdentity(REVIVE, self.by, "revive")
        self.by = me.by
        while True:
            self.point()
            try:
                state = self.log.refresh()
                reached = not (self.world.cluster_down or self.cut)
                snapshot = Snapshot("orders", self.now, state, self.log.history(), self.log.heartbeats())
                scene = as_it_is(self.world, snapshot, me) if reached else Scene(snapshot, me)
                step = reconcile(scene)
                self.point()
                self._take(state, step)
            except (ControlUnavailable, ClusterError, SeqTaken, RuleBroken):
                continue  # look again

    def _take(self, state: StreamState, step: Step) -> None:
        if isinstance(step, Append):
            self.log.append(self.record(step.kind, **step.fields), state.seq)
        elif isinstance(step, Declare):
            self.log.append(self.record(Kind.DECLARED, deployment=step.deployment, **step.fields), state.seq)
        elif isinstance(step, Submit):
            self.submit(step.deployment, self.by, first=False)
        elif isinstance(step, EndJob):
            self.end_job(step.job)
        elif isinstance(step, Kill) and isinstance(step.then, Dead):
            self._fence(step.then.incarnation)
        elif isinstance(step, Kill):
            for name in [n for n in self.world.drivers if deployment_of(n) == step.deployment]:
                self.world.drivers[name].kill()

    def _fence(self, incarnation: str) -> None:
        self.world.drivers[incarnation].kill()
        self.point()
        fenced = self.record(Kind.FENCED, incarnation=incarnation, reason="It is dead.", evidence="gone")

        def build(now: StreamState) -> Record | None:
            found = now.incarnations[incarnation].state
            return None if found.terminal and incarnation not in now.must_fence else fenced

        self.log.propose(build)
