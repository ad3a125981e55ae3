"""Whether what is foretold is what is done: on random legal logs, for every verb, against drivers that are played.

`python -m tests.support.foretold 10000` tries so many logs, and prints what came of each verb.

The deed is another implementation of the world than the forecast's: real conditions and the real step loop, but drivers
that take their turns in random order and at random times, come up and exit late, and a cluster that answers late.
"""

from __future__ import annotations

import logging
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from airflow_stream_provider.clusters import DriverState, Remains, UnmanagedView
from airflow_stream_provider.lifecycle.driver_decision import Action, DriverView, decide
from airflow_stream_provider.lifecycle.fold import fold
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.rules import check
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.planning import verbs
from airflow_stream_provider.planning.asked import YOU, Asked
from airflow_stream_provider.planning.course import ME
from airflow_stream_provider.planning.due import needs
from airflow_stream_provider.planning.fence import fence
from airflow_stream_provider.planning.forecast import foretell
from airflow_stream_provider.planning.foreseen import Foreseen, Wanted
from airflow_stream_provider.planning.operation import Operation
from airflow_stream_provider.planning.pursue import pursue
from airflow_stream_provider.planning.retire import retire_all, unneeded
from airflow_stream_provider.planning.scene import Scene
from airflow_stream_provider.planning.snapshot import DriverFacts, Snapshot
from airflow_stream_provider.planning.step_loop import carry_out_try
from airflow_stream_provider.planning.steps import Declare, Done, GiveUp, Skip, Step, TaskIdentity, Wait, Want
from airflow_stream_provider.planning.stream_health import HeartbeatAges
from airflow_stream_provider.planning.waits import Condition, Needs, Observations, WaitOutcome
from tests.support.random_logs import JOB, a_log, with_heartbeats
from tests.support.story import hash_of

Plan = Callable[[Scene], Step]
RUNS = UnmanagedView(JOB, DriverState.RUNNING, "the old job", Remains(("It runs.",)))
NEW = Wanted("9", hash_of("new"))
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
            said = {"incarnation": name, "request": request.id, "to": request.to, "boundary": "completed", "ends": {}}
            self.append(Kind.RELEASED, f"driver:{name}", 0, **said)
        elif request is not None and action is Action.ACQUIRE:
            said = {"incarnation": name, "request": request.id, "epoch": state.epoch + 1}
            self.append(Kind.ACQUIRED, f"driver:{name}", 0, **said)


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
        return unneeded(
            scene, {d.family for d in scene.state.deployments.values() if not scene.state.has_run(d.family)}
        )

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
    by_id = {"job": asked.job, "confirmed_by": asked.confirmed_by, "approval": wanted.approval}
    found: dict[Operation, list[Plan]] = {
        Operation.STOP: [_pursues(lambda s: verbs.stop(s, ""))],
        Operation.RETIRE: [_pursues(lambda s: verbs.stop(s, "", for_good=True))],
        Operation.START: [_pursues(lambda s: verbs.start(s, wanted.version, "", **yaml))],
        Operation.RESTART: [_pursues(lambda s: verbs.restart(s, wanted.version, "", **yaml))],
        Operation.PROMOTE: [_pursues(lambda s: verbs.promote(s, ""))],
        Operation.ROLL_BACK: [_pursues(lambda s: verbs.roll_back(s, ""))],
        Operation.ABORT: [_pursues(lambda s: verbs.withdraw(s, "", ""))],
        Operation.ADOPT: [
            _pursues(lambda s: verbs.adopt(s, "", **by_id)),
            _pursues(lambda s: verbs.adopt(s, "", confirmed_by=YOU)),
        ],
        Operation.UPGRADE: [_pursues(lambda s: verbs.replace(s, "", now, approved=approved))]
        if one
        else [
            _pursues(lambda s: verbs.stand_by(s, "", now)),
            _pursues(lambda s: verbs.hand_over(s, family, "", approved)),
        ],
    }
    return found[asked.operation]


Essence = tuple[list[tuple[str, ...]], list[tuple[str, ...]]]


def essence(records: list[Record], before: StreamState) -> Essence:
    """Return what the tasks have written, in order, and what the drivers have, without what they say of themselves.

    New deployments are told by their number: their ids differ. Drivers that go on with an open request do so while a
    task does something else. That the submission of a driver is noted, of which its heartbeat alone knows, is left out.
    """
    new: dict[str, str] = {}

    def name(of: object) -> str:
        deployment = deployment_of(str(of)) if "." in str(of) else str(of)
        return new.get(deployment, deployment)

    by_tasks, by_drivers = list[tuple[str, ...]](), list[tuple[str, ...]]()
    for each in records:
        if each.kind == Kind.DECLARED:
            new[each["deployment"]] = f"new {len(new)}"
        noted = each.kind == Kind.SUBMITTED and before.of_deployment(each["deployment"])
        if each.kind in (Kind.STANDBY, Kind.READY) or noted:
            continue
        of = each.get("incarnation") or each.get("deployment") or each.get("goal") or ""
        said = (each.kind, name(of), name(each.get("to") or ""))
        (by_drivers if each.by.startswith("driver:") else by_tasks).append(said)
    return by_tasks, by_drivers


def do(asked: Asked, rng: random.Random, lost: set[str]) -> tuple[Step, Essence]:
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
        outcome: WaitOutcome | None = None
        while True:
            end = carry_out_try(task, deed, me, outcome, _LOG).step
            if not isinstance(end, Wait):
                break
            outcome = deed.wait(end.condition)
        if not isinstance(end, Done):
            break
        if asked.operation is Operation.ADOPT and end.result.get("adopted", True):
            break
    return end, essence(deed.written, asked.snapshot.state)


def requests(found: Snapshot, rng: random.Random) -> Iterator[Asked]:
    """What may be asked of this stream: every verb, in its variants."""
    held, holder = found.state.holding_deployment, found.state.holder
    version = held.release.version if held is not None else "0"
    same = Wanted(version, hash_of(version), approval=rng.random() < 0.3)
    hangs = f"{holder} hangs." if holder is not None and rng.random() < 0.2 else ""
    for operation in (Operation.STOP, Operation.RETIRE, Operation.ROLL_BACK, Operation.ABORT, Operation.FENCE):
        yield Asked(found, operation)
    for operation in (Operation.START, Operation.RESTART):
        yield Asked(found, operation, same if rng.random() < 0.8 else NEW)
    yield Asked(found, Operation.PROMOTE, Wanted(hanging=hangs))
    for restart in (False, True):
        yield Asked(found, Operation.UPGRADE, replace(NEW, restart=restart, approval=same.approval, hanging=hangs))
    how = rng.choice(("by its id", "by a word", "by asking"))
    by_id = JOB if how == "by its id" else ""
    who = "Ada" if how == "by a word" else ""
    job = replace(found, job=RUNS if by_id else None)
    yield Asked(job, Operation.ADOPT, NEW, confirmed_by=who, job=by_id)


@dataclass(frozen=True)
class Tried:
    """One request: what came of it in a word, and how forecast and deed differ; empty: they do not."""

    asked: Asked
    word: str
    differs: str = ""


def compare(asked: Asked, rng: random.Random, lost: set[str]) -> Tried:
    """Foretell an operation, do it, and compare."""
    try:
        return _compare(asked, rng, lost)
    except Exception as error:  # noqa: BLE001 - it is told with its seed
        return Tried(asked, "raised", f"{type(error).__name__}: {error}")


def _compare(asked: Asked, rng: random.Random, lost: set[str]) -> Tried:
    said, ahead = foretell(asked)
    if asked.operation is Operation.FENCE:
        return _compare_fence(asked, said, rng, lost)
    assert ahead is not None
    try:
        end, did = do(asked, rng, lost)
    except Stuck as stuck:
        differs = "" if ahead is not None and ahead.end is None else f"foretold {said}, but nobody ends {stuck}"
        return Tried(asked, "unknown", differs)
    foretold = essence(ahead.course.records, asked.snapshot.state)
    word = "refused" if said.refused else "done" if said.done else "will"
    expected = "refused" if isinstance(end, GiveUp) else "done" if isinstance(end, Skip) and not any(did) else "will"
    if word != expected:
        why = said.refused or said.done or said.will
        return Tried(asked, word, f"foretold {word} ({why}), was {expected}: {end} {getattr(end, 'error', '')} {did}")
    if foretold != did:
        return Tried(asked, word, f"foretold {foretold}, was {did}")
    if type(ahead.end) is not type(end):
        return Tried(asked, word, f"foretold {ahead.end}, was {end}")
    if isinstance(end, GiveUp) and end.error.next_step not in said.refused:
        return Tried(asked, word, f"foretold {said.refused}, was {end.error}")
    return Tried(asked, word)


def _compare_fence(asked: Asked, said: Foreseen, rng: random.Random, lost: set[str]) -> Tried:
    state = asked.snapshot.state
    driver = state.must_fence[0] if state.must_fence else state.holder
    if driver is None:
        return Tried(asked, "done", "" if said.done else f"foretold {said}")
    deed = Deed(asked.snapshot, rng, lost)
    task = OneTask(deed, _fences(driver), {})
    outcome: WaitOutcome | None = None
    while isinstance(step := carry_out_try(task, deed, ME, outcome, _LOG).step, Wait):
        outcome = deed.wait(step.condition)
    fenced = [r["incarnation"] for r in deed.written if r.kind == Kind.FENCED]
    right = said.deployment == deployment_of(driver) and driver in fenced
    return Tried(asked, "will", "" if right else f"foretold {said.deployment}, was {fenced}")


def tries(seed: int) -> Iterator[Tried]:
    """Try every verb on the log of a seed."""
    rng = random.Random(seed)
    found, lost = with_heartbeats(a_log(rng), rng)
    for number, asked in enumerate(requests(found, rng)):
        yield compare(asked, random.Random(f"{seed}-{number}"), lost)


def main(seeds: range) -> int:
    """Print what came of each verb; return how often the forecast was wrong."""
    words: Counter[str] = Counter()
    wrong = 0
    for seed in seeds:
        for each in tries(seed):
            words[f"{each.asked.operation.value} {'WRONG' if each.differs else each.word}"] += 1
            if each.differs:
                wrong += 1
                if wrong <= 20:
                    print(f"{seed} {each.asked.operation.value}: {each.differs}")
    print(f"{len(seeds)} logs: " + ", ".join(f"{word} {number}" for word, number in sorted(words.items())))
    return wrong


if __name__ == "__main__":
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    sys.exit(min(main(range(first, first + int(sys.argv[1]))), 1))
