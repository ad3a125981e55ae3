"""Airflow's side: tasks that can be killed and tried again at any moment, and the watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.model.errors import ControlUnavailable, RuleBroken, SeqTaken
from airflow_stream_provider.model.observe import Step, next_step
from airflow_stream_provider.model.record import Kind, Record
from airflow_stream_provider.model.rules import live_standby, may_abort
from airflow_stream_provider.model.state import StreamState
from tests.support.simulation.driver import Driver
from tests.support.simulation.world import Actor, Wire, World

REQUEST_SECONDS = 60.0


class Airflow(Actor):
    """A process of Airflow: reads the log, sees the cluster, writes records in its own name."""

    def __init__(self, world: World, by: str) -> None:
        super().__init__(world)
        self.by = by
        self.log = ControlLog(Wire(self), "orders")

    def record(self, kind: str, **fields: Any) -> Record:
        return Record(kind, fields, by=self.by, at=self.world.now)

    def alive(self, state: StreamState) -> dict[str, bool | None]:
        if self.world.cluster_down:
            return {}
        drivers = {name: self.world.drivers[name].lives for name in state.incarnations}
        return {**drivers, **{name: self.world.runs(name) for name in state.deployments}}

    def submit(self, deployment: str) -> None:
        """Exactly once: looks on the cluster first."""
        if self.world.cluster_down or any(d.deployment == deployment for d in self.world.drivers.values()):
            return
        self.world.submitted.append(deployment)
        boot(self.world, deployment)


def boot(world: World, deployment: str) -> Driver:
    """The cluster starts a driver of a deployment."""
    return Driver(world, f"{deployment}.{len(world.drivers) + 1:08x}")


class Task(Airflow):
    """One task of a DAG run; `again` is its next try, which knows nothing but its identity."""

    def __init__(self, world: World, by: str, work: Callable[[Task], None]) -> None:
        super().__init__(world, by)
        self.work = work

    def run(self) -> None:
        while True:
            try:
                self.work(self)
                return
            except ControlUnavailable:
                self.point()
            except RuleBroken:
                return  # the task fails, saying which rule

    def again(self) -> Task:
        return Task(self.world, self.by, self.work)

    def ask(self, id: str, to: Callable[[StreamState], str | None]) -> None:
        """Append a request once, and wait for its end; `to` is looked for only when it has not been made yet."""

        def build(now: StreamState) -> Record | None:
            if id in now.requests:
                return None
            return self.record(Kind.REQUESTED, id=id, to=to(now), expires=self.world.now + REQUEST_SECONDS)

        while self.log.propose(build).requests[id].stage.open:
            self.point()


def deploy(deployment: str, release: str) -> Callable[[Task], None]:
    """Declare, submit, say so: the way of every deployment."""

    def work(task: Task) -> None:
        declared = task.record(Kind.DECLARED, deployment=deployment, release={"hash": release})
        state = task.log.propose(lambda now: None if deployment in now.deployments else declared)
        task.point()
        if not state.deployments[deployment].ended:
            task.submit(deployment)
        task.point()
        submitted = task.record(Kind.SUBMITTED, deployment=deployment, submission=f"driver-{deployment}")
        task.log.propose(lambda now: None if now.deployments[deployment].submission else submitted)

    return work


def hand_over(id: str, deployment: str) -> Callable[[Task], None]:
    """Ask for a hand-over to the newest standby of a deployment; fails when there is none."""

    def newest(state: StreamState) -> str:
        names = [i.id for i in state.of_deployment(deployment) if live_standby(state, i.id)]
        return names[-1] if names else "nobody"

    return lambda task: task.ask(id, newest)


def stop(id: str) -> Callable[[Task], None]:
    return lambda task: task.ask(id, lambda state: None)


def retire(deployment: str) -> Callable[[Task], None]:
    def work(task: Task) -> None:
        retired = task.record(Kind.RETIRED, deployment=deployment)
        found = task.log.refresh().deployments.get(deployment)
        if found is not None and not found.ended:
            task.point()
            task.log.propose(lambda now: None if now.deployments[deployment].ended else retired)

    return work


def give_up(id: str) -> Callable[[Task], None]:
    """Abort a request, by right of its author or because it has expired."""

    def work(task: Task) -> None:
        aborted = task.record(Kind.ABORTED, id=id, reason="not wanted any more")
        task.log.propose(lambda now: aborted if may_abort(now, aborted) else None)

    return work


class Watch(Airflow):
    """Looks, asks `next_step`, does it; two of them may run at a time."""

    def run(self) -> None:
        while True:
            self.point()
            try:
                state = self.log.refresh()
                step = next_step(state, self.alive(state), self.world.now)
                self.point()
                getattr(self, f"_{step.need.value}")(state, step)
            except (ControlUnavailable, SeqTaken, RuleBroken):
                continue  # look again

    def _wait(self, state: StreamState, step: Step) -> None:
        return

    def _fence(self, state: StreamState, step: Step) -> None:
        if self.world.cluster_down:
            return
        self.world.kill(step.subject)
        self.point()
        fenced = self.record(Kind.FENCED, incarnation=step.subject, reason=step.why, evidence="gone")

        def build(now: StreamState) -> Record | None:
            found = now.incarnations[step.subject].state
            return None if found.terminal and step.subject not in now.must_fence else fenced

        self.log.propose(build)

    def _abort(self, state: StreamState, step: Step) -> None:
        self.log.append(self.record(Kind.ABORTED, id=step.subject, reason=step.why), state.seq)

    def _request(self, state: StreamState, step: Step) -> None:
        wanted = self.record(
            Kind.REQUESTED, id=f"watch-{state.seq}", to=step.subject, expires=self.world.now + REQUEST_SECONDS
        )
        self.log.append(wanted, state.seq)

    def _fail(self, state: StreamState, step: Step) -> None:
        self.log.append(self.record(Kind.FAILED, deployment=step.subject, reason=step.why), state.seq)

    def _declare(self, state: StreamState, step: Step) -> None:
        new, release = f"watch-{state.seq}", state.deployments[step.subject].release
        self.log.append(self.record(Kind.DECLARED, deployment=new, release=release), state.seq)
        self.point()
        self.submit(new)
