"""Airflow's side: the operators' real plans in tasks that are killed and tried again at any moment, and the watch."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from airflow_stream_provider.clusters import Cluster, DriverState, Job, UnmanagedView, Whose, status_of
from airflow_stream_provider.hooks.drivers import kill_drivers, may_be_unsent
from airflow_stream_provider.hooks.submit import submit_once
from airflow_stream_provider.lifecycle.errors import ClusterError, ControlUnavailable, RuleBroken, SeqTaken
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.lifecycle.rules import may_abort
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.lifecycle.wish import Goal
from airflow_stream_provider.planning import retire as retiring
from airflow_stream_provider.planning import verbs
from airflow_stream_provider.planning.due import needs
from airflow_stream_provider.planning.fence import fence, may_fence
from airflow_stream_provider.planning.pursue import pursue
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.snapshot import DriverFacts, Snapshot
from airflow_stream_provider.planning.step_loop import carry_out
from airflow_stream_provider.planning.steps import Append, Declare, Kill, Refusal, Step, TaskIdentity, Wait, Want
from airflow_stream_provider.planning.stream_health import HeartbeatAges
from airflow_stream_provider.planning.verbs import Answer
from airflow_stream_provider.planning.waits import Condition, Needs, Observations, WaitOutcome
from airflow_stream_provider.planning.waits import Ended as WaitEnded
from tests.support.simulation.cluster import Reach
from tests.support.simulation.invariants import expect
from tests.support.simulation.oracle import PERSON
from tests.support.simulation.wishes import Ended, Plan, Wish, retired, rolled_back, says_truly, wished
from tests.support.simulation.world import Actor, World
from tests.support.story import hash_of

log = logging.getLogger(__name__)

WAIT_SECONDS = 900.0
# Of so many deployments one is to read records again.
READS_AGAIN = 3
RETRY_SECONDS = 5.0


class Airflow(Actor):
    """A process of Airflow: reads the log, reaches the cluster, writes records in its own name."""

    def __init__(self, world: World, by: str) -> None:
        super().__init__(world)
        # Airflow's machines do not quite agree on the time.
        self.skew = (-20.0, 0.0, 20.0)[len(world.actors) % 3]
        self.by = by
        self.log = world.open_log(self)
        self.cluster = Reach(self)

    @property
    def now(self) -> float:
        return self.world.now + self.skew

    def record(self, kind: str, **fields: Any) -> Record:
        return Record(kind, fields, by=self.by, at=self.now)

    def read(self) -> tuple[StreamState, Mapping[str, Heartbeat], float]:
        """Read the log, then the heartbeats, as `StreamHook.observe` does; others come between.

        The third value is the time from before the heartbeats were read.
        """
        state = self.log.refresh()
        self.point(doing="heartbeats")
        read_at = self.world.now
        return state, self.log.heartbeats(), read_at

    def end_job(self, job: str) -> bool:
        """Have the cluster end the job without a stream, which was said before."""
        if self.world.cluster_down or self.cut:
            raise ClusterError("The cluster does not answer.")
        self.point(doing="end the job")
        said = [record for record in self.log.history() if record.kind == Kind.ENDING]
        expect(said and said[-1]["job"] == job, "intent-first", said)
        assert self.world.old_job is not None
        self.world.old_job.kill()
        self.world.old_job.ended_for = said[-1]["deployment"]
        return True

    def submit(self, deployment: str, by: str, *, first: bool) -> bool:
        job = Job("orders", deployment, f"[{deployment}]", "", ("--deployment", deployment), stream_folder="")
        # It has what a submit calls; the world has no files of releases.
        return submit_once(self.log, cast("Cluster", self.cluster), job, by, first=first, verify=lambda: None)


class Task(Airflow):
    """One try of a task, in the operators' own loop, polled instead of deferred; `again` is the next one.

    It is the loop's verb and its stream in one.
    """

    def __init__(self, world: World, identity: TaskIdentity, plan: Plan) -> None:
        super().__init__(world, identity.by)
        self.identity = identity
        self.plan = plan
        # The step that ended it by itself; None for one that was killed, or failed.
        self.ended: Step | None = None

    def again(self) -> Task:
        return Task(self.world, self.identity, self.plan)

    def run(self) -> None:
        outcome: WaitOutcome | None = None
        deadline = self.now + WAIT_SECONDS
        while self.now < deadline:
            try:
                step, seen = carry_out(self, self, self.identity, outcome, log)
                if isinstance(step, Kill):
                    self.kill(step.deployment)
                    outcome = self._wait(step.then, deadline)
                elif isinstance(step, Wait):
                    outcome = self._wait(step.condition, deadline)
                else:
                    self.ended = step
                    self._judge(Ended(step, self.identity, seen))
                    return
            except (ControlUnavailable, ClusterError, RuleBroken):
                outcome = None  # the task fails; Airflow tries it again
                self.point(RETRY_SECONDS, "retry")

    def _judge(self, ended: Ended) -> None:
        """What the task was for must be so by the log that it has read."""
        if isinstance(self.plan, Wish):
            expect(self.plan.met(ended), "as-asked", f"{self.by}: {ended.step}")
            expect(says_truly(ended), "told-truly", f"{self.by}: {ended.step} {getattr(ended.step, 'error', '')}")

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        return needs(snapshot)

    def want(self, step: Want, snapshot: Snapshot, identity: TaskIdentity) -> bool:
        fields = dict(step.fields)
        if step.publish:
            version = fields["reason"]
            policy = self.world.policies[len(snapshot.state.deployments) % len(self.world.policies)]
            fields["release"] = {"version": version, "hash": hash_of(version)}
            fields["policy"] = replace(policy, adopts=bool(fields.get("adopts"))).to_json()
            if self.world.data is not None and len(snapshot.state.deployments) % READS_AGAIN == 1:
                fields["rewind"] = WantedRewind(0.0, {"orders": {"orders": {0: 0}}}).to_json()
        return self.append(Kind.WANTED, identity.by, snapshot.state.seq, **fields)

    def declare(self, step: Declare, by: str, seq: int) -> bool:
        return self.append(Kind.DECLARED, by, seq, deployment=step.deployment, **step.fields)

    def observe(self, needs: Needs = Needs()) -> Snapshot:  # noqa: B008 - frozen
        self.point(doing="look")
        facts = {}
        for deployment in needs.drivers:
            snapshot = Snapshot("orders", 0.0, self.log.refresh(), (), self.log.heartbeats())
            if submission := snapshot.submission(deployment):
                never_there = may_be_unsent(self.log, deployment)
                driver = status_of(cast("Cluster", self.cluster), submission)
                driver = DriverState.LOST if driver.reserved and not never_there else driver
                gone = driver.terminal and self.cluster.gone(submission, deployment)
                lost = self.cluster.lost(deployment)
                facts[deployment] = DriverFacts(submission, driver, gone, lost)
        job = self.ask_about_the_job() if needs.job else None
        if needs.job:
            self.point(doing="look")
        state, beats, read_at = self.read()
        self.point(doing="judge")
        return Snapshot("orders", self.now, state, self.log.history(), beats, facts, read_at=read_at, job=job)

    def ask_about_the_job(self) -> UnmanagedView:
        """What the cluster says of the job without a stream."""
        if self.world.cluster_down or self.cut:
            raise ClusterError("The cluster does not answer.")
        assert self.world.old_job is not None
        return self.world.old_job.view

    def append(self, kind: str, by: str, seq: int, **fields: Any) -> bool:
        try:
            self.log.append(Record(kind, fields, by=by, at=self.now), seq)
        except SeqTaken:
            return False
        return True

    def kill(self, deployment: str) -> None:
        kill_drivers(self.log, cast("Cluster", self.cluster), Whose(deployment))

    def refuse(self, refusal: Refusal) -> bool:
        self.point(doing="refuse")
        if self.cut:
            return False
        self.world.refused = max(self.world.refused, refusal.epoch)
        return True

    def _wait(self, condition: Condition, deadline: float) -> WaitOutcome | None:
        seen = self._observations()
        last: Snapshot | None = None
        while self.now < deadline:
            try:
                last = self.observe(condition.needs(last, seen))
                outcome = condition.check(last, seen)
            except (ControlUnavailable, ClusterError):
                seen, outcome = self._observations(), None
            if outcome is not None:
                return outcome
            if self.world.data is not None:
                self.point(3 * condition.pace, "wait")
        return None

    def _observations(self) -> Observations:
        return Observations(ages=HeartbeatAges(lambda: self.world.now))


def by(verb: Callable[[Scene], Answer], met: Callable[[Ended], bool] = wished) -> Wish:
    """The plan of a task that pursues this wish."""

    def plan(snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        scene = Scene(snapshot, identity, outcome)
        return pursue(scene, lambda: verb(scene))

    return Wish(plan, met)


def stand_by(release: str, *, approval: bool = False) -> Plan:
    """As SubmitStandbyOperator; `approval`: a person has to approve it."""
    # The release in place of the reason: the wish names none yet.
    return by(lambda scene: verbs.stand_by(scene, release, float("inf"), approval=approval))


def hand_over(family: str, approved: str = "") -> Plan:
    """As HandOverOperator; `approved`: by whom."""
    return by(lambda scene: verbs.hand_over(scene, family, "judged", approved))


def promote() -> Plan:
    """As HandOverOperator by hand, for the newest release that stands by."""
    return by(lambda scene: verbs.promote(scene, "now"))


def take_over(family: str) -> Plan:
    """As HandOverOperator, once a person has said yes; and of any release that a person names."""

    def verb(scene: Scene) -> Answer:
        known = scene.state.family(family)
        if not any(scene.snapshot.candidate(each.id) for each in known):
            return verbs.hand_over(scene, family, "wanted", approved="somebody")
        return verbs._want(scene, Goal.HOLD, "wanted", family=family, approved="somebody")

    return by(verb)


def start(release: str) -> Plan:
    """As StartStreamOperator."""
    return by(lambda scene: verbs.start(scene, release, release))


def restart(release: str) -> Plan:
    """As the operation `restart`, whatever runs."""

    def verb(scene: Scene) -> Answer:
        held = scene.state.holding_deployment
        return verbs.start(scene, release if held is None else held.release.version, release, anew=True)

    return by(verb)


def roll_back() -> Plan:
    """As RollBackOperator, by hand."""
    return by(lambda scene: verbs.roll_back(scene, "it is bad"), rolled_back)


def undo() -> Plan:
    """As RollBackOperator of an upgrade whose task has failed."""
    return by(lambda scene: verbs.undo(scene, None, "it is bad"))


def stop(*, for_good: bool = False) -> Plan:
    """As StopStreamOperator."""
    return by(lambda scene: verbs.stop(scene, "wanted", for_good=for_good))


def withdraw() -> Plan:
    """As AbortOperator."""
    return by(lambda scene: verbs.withdraw(scene, "", "not wanted"))


def newest(state: StreamState) -> str:
    """The deployment that was declared last; empty: there is none."""
    return next(reversed([*state.deployments]), "")


def retire(deployment: Callable[[StreamState], str]) -> Plan:
    """As RetireOperator."""
    return Wish(
        lambda snapshot, identity, outcome: retiring.end(
            Scene(snapshot, identity, outcome), deployment(snapshot.state), "not needed"
        ),
        retired(deployment),
    )


class SaysDead(Airflow):
    """A person says that a driver is dead, as with `FenceOperator(confirmed_by=...)`, though it lives."""

    def __init__(self, world: World, incarnation: str) -> None:
        super().__init__(world, PERSON)
        self._incarnation = incarnation

    def run(self) -> None:
        outcome = WaitOutcome(WaitEnded.DEAD, self._incarnation, evidence={"person": PERSON})

        def build(now: StreamState) -> Record | None:
            snapshot = Snapshot("orders", self.now, now)
            if not may_fence(snapshot, self._incarnation):
                return None
            step = fence(snapshot, self._incarnation, outcome, "It is dead.")
            return self.record(step.kind, **step.fields) if isinstance(step, Append) else None

        with contextlib.suppress(ControlUnavailable):
            self.log.propose(build)


class GiveUp(Airflow):
    """A person aborts the open request, by right of its author or because it has expired."""

    def run(self) -> None:
        def build(now: StreamState) -> Record | None:
            request = now.open_request
            if request is None:
                return None
            aborted = Record(Kind.ABORTED, {"request": request.id, "reason": "not wanted"}, by=request.by, at=self.now)
            return aborted if may_abort(now, aborted) else None

        try:
            self.log.propose(build)
        except ControlUnavailable:
            return
