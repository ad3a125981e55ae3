"""The watch: its looks and the runs that bring the stream back, as their DAGs make them; and one that knows at once."""

from __future__ import annotations

import contextlib
import itertools

from airflow_stream_provider.clusters import DriverState
from airflow_stream_provider.lag.limits import LagLimits
from airflow_stream_provider.lifecycle.errors import ClusterError, ControlUnavailable, RuleBroken, SeqTaken
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.monitoring import health
from airflow_stream_provider.monitoring.health import sample_of
from airflow_stream_provider.planning.recover import (
    drivers_of_interest,
    due_beside_another,
    job_of_interest,
    recover,
    revival_is_due,
)
from airflow_stream_provider.planning.recovery_decision import RecoveryStep, coming_up, recovery_step
from airflow_stream_provider.planning.snapshot import Snapshot
from airflow_stream_provider.planning.steps import Step, TaskIdentity
from airflow_stream_provider.planning.waits import Needs, WaitOutcome
from tests.support.simulation.airflow import Airflow, Task
from tests.support.simulation.oracle import REVIVE
from tests.support.simulation.world import World

REQUEST_SECONDS = 60.0
LOOK_SECONDS = 20.0  # a minute in Airflow
LIMITS = LagLimits()


class Revive(Task):
    """A run of NAME__revive: what a look found to be due is carried out."""

    def __init__(self, world: World, name: str) -> None:
        sample = world.sample

        def plan(snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
            # Another process goes on after each wait, and does not know what the look has seen.
            return recover(snapshot, identity, outcome, sample.counters if sample and outcome is None else {})

        super().__init__(world, TaskIdentity(REVIVE, name, "revive"), plan)
        self._name = name

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        return Needs(drivers=drivers_of_interest(snapshot), job=job_of_interest(snapshot))

    def again(self) -> Revive:
        return Revive(self.world, self._name)


class Runs(Airflow):
    """The watch as its DAG makes it: a look after the other, and a run of NAME__revive when something is due."""

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
        return revival_is_due(snapshot, alive, cluster_answers=drivers is not None), due_beside_another(snapshot, alive)

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
        wanted = {deployment_of(state.last_holder or ""), *(() if state.holder else (d.id for d in coming_up(state)))}
        known = {name: snapshot.submission(name) for name in sorted(wanted) if name in state.deployments}
        return {name: self.cluster.status(submission) for name, submission in known.items() if submission}


class Watch(Airflow):
    """Looks, asks `recovery_step`, does it, and knows at once who lives; two of them may run at a time."""

    def run(self) -> None:
        while True:
            self.point()
            try:
                state = self.log.refresh()
                step = recovery_step(state, self.alive(state), self.now, job_gone=self._job_is_gone)
                self.point()
                getattr(self, f"_{step.action.value}")(state, step)
            except (ControlUnavailable, ClusterError, SeqTaken, RuleBroken):
                continue  # look again

    def alive(self, state: StreamState) -> dict[str, bool | None]:
        if self.world.cluster_down or self.cut:
            return {}
        drivers = {name: self.world.drivers[name].lives for name in state.incarnations}
        return {**drivers, **{name: self._any_lives(name) for name in state.deployments}}

    @property
    def _job_is_gone(self) -> bool:
        job = self.world.old_job
        return job is not None and not job.runs and not (self.world.cluster_down or self.cut)

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
        gone = {"evidence": {"job": state.job.id}} if state.job is not None and not state.job.gone else {}
        wanted = self.record(Kind.REQUESTED, request=f"watch-{state.seq}", to=step.subject, expires=expires, **gone)
        self.log.append(wanted, state.seq)

    def _fail(self, state: StreamState, step: RecoveryStep) -> None:
        self.log.append(self.record(Kind.FAILED, deployment=step.subject, reason=step.reason), state.seq)

    def _declare(self, state: StreamState, step: RecoveryStep) -> None:
        new, old = f"watch-{state.seq}", state.deployments[step.subject].declared
        fields = {"release": old["release"], "policy": old["policy"]}
        self.log.append(self.record(Kind.DECLARED, deployment=new, **fields), state.seq)
        self.submit(new, self.by, first=False)
