"""An operation carried out as its tasks do, in virtual time, against drivers that are played.

It is another implementation of the world than the forecast's: real conditions and the real step loop, but drivers that
take their turns in random order and at random times, come up and exit late, and a cluster that answers late.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from airflow_stream_provider.clusters import DriverState, Remains
from airflow_stream_provider.lifecycle.driver_decision import Action, DriverView, decide
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.rules import check
from airflow_stream_provider.planning import verbs
from airflow_stream_provider.planning.asked import YOU, Asked
from airflow_stream_provider.planning.course import ME
from airflow_stream_provider.planning.due import needs
from airflow_stream_provider.planning.fence import fence
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.pursue import pursue
from airflow_stream_provider.planning.retire import retire_all, unneeded
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.snapshot import DriverFacts, Snapshot
from airflow_stream_provider.planning.step_loop import carry_out_try
from airflow_stream_provider.planning.steps import Declare, Done, Refusal, Skip, Step, TaskIdentity, Wait, Want
from airflow_stream_provider.planning.stream_health import HeartbeatAges
from airflow_stream_provider.planning.waits import Condition, Needs, Observations, WaitOutcome

Plan = Callable[[Scene], Step]
_LOG = logging.Logger("foretold", logging.CRITICAL + 1)
_MOST_LOOKS = 400


class Stuck(Exception):
    """A wait has not ended."""


class Deed:
    """A stream in virtual time, as the step loop reaches it, with drivers that are played.

    :param lost: drivers that give no sign of life.
    :param deaf: the driver that does not stop.
    """

    def __init__(self, seen: Snapshot, rng: random.Random, lost: set[str], deaf: str = "") -> None:
        self.seen, self.rng, self.lost, self.deaf = seen, rng, lost, deaf
        self.first, self.written = seen.at, list[Record]()
        self.running = {seen.state.holder}
        state = seen.state
        self.killed = {i.deployment for i in state.incarnations.values() if i.state.terminal}
        self.killed -= {i.deployment for i in state.incarnations.values() if self._may_live(i.id)}
        self.exited = {d.id for d in state.deployments.values() if d.ended}

    def _may_live(self, name: str) -> bool:
        state = self.seen.state
        return not state.incarnations[name].state.terminal or name in state.must_fence

    # -- as the loop reaches it

    def observe(self, needs: Needs = Needs()) -> Snapshot:  # noqa: B008 - frozen
        facts = {}
        for name in needs.drivers:
            submission = self.seen.submission(name)
            if submission:
                gone = name in self.killed or name in self.exited
                facts[name] = DriverFacts(submission, DriverState.KILLED if gone else DriverState.RUNNING, gone)
        return replace(self.seen, drivers=facts, job=self.seen.job if needs.job else None)

    def append(self, kind: str, by: str, seq: int, **fields: Any) -> bool:
        record = Record(kind, fields, by=by, at=self.seen.at)
        check(self.seen.state, record)
        record = record.numbered(self.seen.state.seq + 1)
        state = fold([record], self.seen.state)
        self.seen = replace(self.seen, state=state, records=(*self.seen.records, record))
        self.written.append(record)
        return True

    def declare(self, step: Declare, by: str, seq: int) -> bool:
        return self.append(Kind.DECLARED, by, seq, deployment=step.deployment, **step.fields)

    def submit(self, deployment: str, by: str, *, first: bool) -> bool:
        submission = self.seen.submission(deployment) or f"app-{deployment}"
        return self.append(Kind.SUBMITTED, by, 0, deployment=deployment, submission=submission)

    def kill(self, deployment: str) -> None:
        self.killed.add(deployment)

    def refuse(self, refusal: Refusal) -> bool:
        raise AssertionError("no policy here names a ledger")

    def end_job(self, job: str) -> bool:
        assert self.seen.job is not None
        self.seen = replace(self.seen, job=replace(self.seen.job, state=DriverState.KILLED, remains=Remains()))
        return True

    # -- what goes on

    def wait(self, condition: Condition) -> WaitOutcome:
        memory = Observations(ages=HeartbeatAges(lambda: self.seen.at))
        last = self.seen
        for look in range(_MOST_LOOKS):
            last = self.observe(condition.needs(last, memory))
            outcome = condition.check(last, memory)
            if outcome is not None:
                return outcome
            # Looks at long waits are further apart, to be quick.
            self._time_goes_by(self.rng.uniform(0.4, 2.5) if look < 9 else self.rng.uniform(5.0, 14.0))
        raise Stuck(condition.description)

    def _time_goes_by(self, seconds: float) -> None:
        self.seen = replace(self.seen, at=self.seen.at + seconds)
        state, quiet = self.seen.state, self.seen.at - max(self.seen.state.at, self.first)
        up = [
            each.id
            for each in state.deployments.values()
            if all(i.state.terminal for i in state.of_deployment(each.id))
            and each.submission
            and not each.ended
            and each.id not in self.killed
        ]
        # In the order of their declaration, and slower than all that the drivers which are there do.
        if up and quiet > self.rng.uniform(100.0, 130.0):
            self._announce(up[0])
        for each in state.deployments.values():
            if each.ended and quiet > 8.0 and self.rng.random() < 0.8:
                self.exited.add(each.id)
        drivers = list(self.seen.state.incarnations)
        self.rng.shuffle(drivers)
        for name in drivers:
            self._turn(name)

    def _announce(self, deployment: str) -> None:
        last = self.seen.state.last_driver
        queries = [dict(query) for query in last.queries] if last is not None else []
        name = f"{deployment}.{self.rng.randrange(1 << 32):08x}"
        fields = {"deployment": deployment, "incarnation": name, "queries": queries, "rehearsal": {}}
        self.append(Kind.STANDBY, f"driver:{name}", 0, **fields)

    def _turn(self, name: str) -> None:
        state, driver = self.seen.state, self.seen.state.incarnations[name]
        if driver.state.terminal or name in self.lost or {driver.deployment} & {*self.killed, *self.exited}:
            return
        beat = self.seen.heartbeats.get(name, Heartbeat())
        beat = replace(beat, counter=beat.counter + 1, at=self.seen.at)
        self.seen = replace(self.seen, heartbeats={**self.seen.heartbeats, name: beat})
        request = state.open_request
        to = request.to if request is not None else None
        moves = bool(to) and to not in self.lost and deployment_of(str(to)) not in self.killed
        action = decide(state, DriverView(name, True, name in self.running, moves))
        if action is Action.START:
            self.running.add(name)
        elif request is not None and action is Action.ANSWER:
            self.append(Kind.READY, f"driver:{name}", 0, request=request.id, incarnation=name)
        elif request is not None and action is Action.RELEASE and name != self.deaf:
            self.running.discard(name)
            said: dict[str, Any] = {"request": request.id, "to": request.to, "boundary": "completed", "ends": {}}
            self.append(Kind.RELEASED, f"driver:{name}", 0, incarnation=name, **said)
        elif request is not None and action is Action.ACQUIRE:
            epoch = state.epoch + 1
            self.append(Kind.ACQUIRED, f"driver:{name}", 0, incarnation=name, request=request.id, epoch=epoch)


@dataclass(frozen=True)
class OneTask:
    """A task of an operation, in the step loop: as the operators are."""

    deed: Deed
    step: Plan
    brings: dict[str, Any]
    job: str = ""
    withdraws: bool = False
    hangs: str = ""
    holder: str | None = None

    def plan(self, snapshot: Snapshot, identity: TaskIdentity, outcome: WaitOutcome | None) -> Step:
        hangs = self.hangs if snapshot.state.holder == self.holder else ""
        scene = Scene(snapshot, identity, outcome, hangs=hangs)
        step = self.step(scene)
        if self.withdraws and isinstance(step, (Done, Skip)):
            return retire_all(scene, self._left(scene), "not wanted") or step
        return step

    def _left(self, scene: Scene) -> tuple[str, ...]:
        state = scene.state
        return unneeded(scene.snapshot, {d.family for d in state.deployments.values() if not state.has_run(d.family)})

    def needs(self, snapshot: Snapshot, identity: TaskIdentity) -> Needs:
        found = needs(snapshot)
        left = self._left(Scene(snapshot, identity)) if self.withdraws else ()
        return replace(found, job=found.job or self.job, drivers=(*found.drivers, *left))

    def want(self, step: Want, snapshot: Snapshot, identity: TaskIdentity) -> bool:
        more = self.brings if step.publish else {}
        return self.deed.append(Kind.WANTED, identity.by, 0, **{**step.fields, **more})


def _pursues(verb: Callable[[Scene], verbs.Answer]) -> Plan:
    return lambda scene: pursue(scene, lambda: verb(scene))


def _fences(driver: str) -> Plan:
    """As FenceOperator."""

    def plan(scene: Scene) -> Step:
        state, name = scene.state, deployment_of(driver)
        left = [i.id for i in state.of_deployment(name) if not i.state.terminal or i.id in state.must_fence]
        return fence(scene.snapshot, left[0], scene.outcome, "a person wants it") if left else Done({})

    return plan


def _plans(asked: Asked) -> list[Plan]:
    """What the tasks of an operation do, one after the other, in the words of the operators."""
    state, wanted, now = asked.snapshot.state, asked.wanted, asked.snapshot.at
    yaml: dict[str, Any] = {"approval": wanted.approval, "hash": wanted.hash}
    family = replace(ME, task_id=f"{asked.operation.value}-0").wish
    approved = YOU if wanted.approval else "its rehearsal"
    one = wanted.restart and state.holder is not None
    by_id: dict[str, Any] = {"job": asked.job, "confirmed_by": asked.confirmed_by, "approval": wanted.approval}
    found: dict[Operation, list[Plan]] = {
        Operation.STOP: [_pursues(lambda s: verbs.stop(s, ""))],
        Operation.RETIRE: [_pursues(lambda s: verbs.stop(s, "", for_good=True))],
        Operation.START: [_pursues(lambda s: verbs.start(s, wanted.version, "", **yaml))],
        Operation.RESTART: [_pursues(lambda s: verbs.start(s, wanted.version, "", anew=True, **yaml))],
        Operation.PROMOTE: [_pursues(lambda s: verbs.promote(s, ""))],
        Operation.ROLL_BACK: [_pursues(lambda s: verbs.roll_back(s, ""))],
        Operation.ABORT: [_pursues(lambda s: verbs.withdraw(s, "", ""))],
        Operation.ADOPT: [
            _pursues(lambda s: verbs.adopt(s, "", **by_id)),
            _pursues(lambda s: verbs.adopt(s, "", confirmed_by=YOU)),
        ],
        Operation.UPGRADE: [_pursues(lambda s: verbs.stand_by(s, "", now, alone=True, approved=approved))]
        if one
        else [
            _pursues(lambda s: verbs.stand_by(s, "", now)),
            _pursues(lambda s: verbs.hand_over(s, family, "", approved)),
        ],
    }
    return found[asked.operation]


def do(asked: Asked, rng: random.Random, lost: set[str]) -> tuple[Step, list[Record]]:
    """Carry an operation out, and return how it ends and what was written."""
    holder = asked.snapshot.state.holder
    deed = Deed(asked.snapshot, rng, lost, deaf=holder or "" if asked.wanted.hanging else "")
    brings = {
        "release": {"version": asked.wanted.version, "hash": asked.wanted.hash},
        "policy": {"adopts": asked.operation is Operation.ADOPT},
    }
    end: Step = Done({})
    for number, plan in enumerate(_plans(asked)):
        me = replace(ME, task_id=f"{asked.operation.value}-{number}")
        withdraws = asked.operation is Operation.ABORT
        task = OneTask(deed, plan, brings, asked.job, withdraws, asked.wanted.hanging, holder)
        end = _follow(task, me)
        if not isinstance(end, Done):
            break
        if asked.operation is Operation.ADOPT and end.result.get("adopted", True):
            break
    return end, deed.written


def do_fence(asked: Asked, driver: str, rng: random.Random, lost: set[str]) -> list[Record]:
    """Fence a driver, and return what was written."""
    deed = Deed(asked.snapshot, rng, lost)
    _follow(OneTask(deed, _fences(driver), {}), ME)
    return deed.written


def _follow(task: OneTask, me: TaskIdentity) -> Step:
    """Carry a task out until it ends by itself."""
    outcome: WaitOutcome | None = None
    while isinstance(step := carry_out_try(task, task.deed, me, outcome, _LOG).step, Wait):
        outcome = task.deed.wait(step.condition)
    return step
