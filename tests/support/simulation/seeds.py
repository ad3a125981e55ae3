"""One seed: phases of faults and phases of quiet, drawn from `random.Random(seed)`, on virtual time.

Actors go on in the order of their times, which chance shifts; whoever waits costs nothing. After each phase of faults
everything heals, and within BOUND seconds a driver must hold and commit, or the stream rest because a person stopped
it; then people start it again, with the same bound.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TypeVar

from tests.support.simulation.bounds import (
    BOUND,
    PATIENT,
    PHASES,
    POLICY,
    PROMPT,
    WHEN,
)
from tests.support.simulation.data import Data
from tests.support.simulation.faults import FAULTS, LEDGER, SELDOM, STRIKE_LATER, Heal
from tests.support.simulation.invariants import expect
from tests.support.simulation.liveness import Liveness
from tests.support.simulation.memory_store import MemoryStore
from tests.support.simulation.oracle import Oracle
from tests.support.simulation.people import ACTS, SCHEDULER_SECONDS, People
from tests.support.simulation.protocol_state import protocol_state
from tests.support.simulation.queries import Luck
from tests.support.simulation.result import Result
from tests.support.simulation.watching import Runs
from tests.support.simulation.wire import Fault
from tests.support.simulation.world import Actor, World

T = TypeVar("T")


@dataclass
class Planned:
    """A fault that comes when the protocol is in a state, or at a time."""

    fault: str
    state: str
    at: float


class Simulation:
    """One stream and its machines, under the faults of one seed; its control log is in files."""

    faults = FAULTS
    strike_later = STRIKE_LATER

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.rng = Random(seed)
        self.seldom = Random(f"seldom {seed}")
        self._seldom = [name for name, left in SELDOM.items() if seed % 5 == left]
        self.world = self.new_world(seed)
        if seed % 5 == LEDGER:
            self.world.policies = tuple(replace(each, ledger="orders_db") for each in self.world.policies)
        self.oracle = Oracle(self.world)
        self.people = People(self)
        self.liveness = Liveness(self.world, self.oracle, self.people)
        self.result = Result(seed)
        self.at_write: dict[Actor, Fault] = {}
        self._trace = trace
        self._faulty = False
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._planned: list[Planned] = []
        self._ending: set[str] = set()

    def run(self) -> Result:
        """Run all phases; raise Broken at the first invariant that does not hold."""
        self.later(SCHEDULER_SECONDS, self._schedule)
        self.people.upgrade()
        Runs(self.world, "watch-a")
        if self.rng.random() < 0.5:
            Runs(self.world, "watch-b")
        self._quiet()
        for _ in range(PHASES):
            self._faults()
            self._quiet()
        # Of a stream that was stopped, nobody but the task that starts it looks after its driver.
        self._acting("restart")()
        self._faults()
        self._quiet()
        self.last_phase()
        self._close()
        return self.result

    def new_world(self, seed: int) -> World:
        """Return a world with an empty control log."""
        return World(MemoryStore(), Data(), POLICY, PATIENT)

    def draw_fault(self) -> str:
        """Return any fault that may come in every seed."""
        return self.rng.choice([name for name in self.faults if name not in SELDOM])

    def last_phase(self) -> None:
        """What comes after all others."""

    # -- for the faults --------------------------------------------------------------------------------------------

    def pick(self, some: Sequence[T]) -> T | None:
        """Return any of these, or None when there is none."""
        return self.rng.choice(some) if some else None

    @staticmethod
    def nothing() -> None:
        """Nothing has to be healed."""

    def later(self, seconds: float, event: Callable[[], None]) -> None:
        """Let this happen in so many seconds."""
        self._count += 1
        heapq.heappush(self._events, (self.world.now + seconds, self._count, event))

    def say(self, text: str) -> None:
        """Write a line of the trace."""
        if self._trace is not None:
            self._trace(f"{self.world.now - 1000:9.2f}  {text}")

    # -- phases ----------------------------------------------------------------------------------------------------

    def _faults(self) -> None:
        rng, now = self.rng, self.world.now
        length = rng.uniform(5.0, 20.0)
        for _ in range(rng.randint(2, 6)):
            at = now + rng.uniform(0.0, length)
            self._planned.append(Planned(self.draw_fault(), rng.choice(WHEN), at))
        for name in self._seldom:
            at = now + self.seldom.uniform(0.0, length)
            self._planned.append(Planned(name, self.seldom.choice(WHEN), at))
        acts = [rng.choice(ACTS) for _ in range(rng.randint(0, 3))]
        for act in ["upgrade", *acts] if rng.random() < 0.6 else acts:
            self.later(rng.uniform(0.0, length), self._acting(act))
        self.say(f"-- faults for {length:.0f} s: {', '.join(f'{p.fault} @ {p.state}' for p in self._planned)}")
        self._faulty = True
        self.go(now + length)
        self._faulty = False
        self.liveness.trouble_ends()
        self._planned.clear()
        self._heal()

    def _acting(self, act: str) -> Callable[[], None]:
        def do() -> None:
            self.say(f"** people: {act}")
            self.result.acts[act] += 1
            self.people.act(act)

        return do

    def _heal(self) -> None:
        """All that was begun and has not ended ends."""
        self.say("-- all heals")
        for _, _, event in sorted(self._events):
            if isinstance(event, Healing):
                event()
        self._events = [each for each in self._events if not isinstance(each[2], Healing)]
        heapq.heapify(self._events)
        self.at_write.clear()
        if not any(isinstance(actor, Runs) and not actor.over for actor in self.world.actors):
            Runs(self.world, f"watch-{self._count}")

    def _quiet(self) -> None:
        healed = self.world.now
        committed = self._data.committed
        self._go_for(healed, lambda: self.liveness.runs(committed) or self.liveness.rests())
        if not self.liveness.runs(committed) and self.liveness.rests():
            self.say("-- it rests; a person starts it again")
            healed = self.world.now
            self.people.upgrade(approves=True)
            self._go_for(healed, lambda: self.liveness.runs(committed))
            if not self.liveness.runs(committed) and self.liveness.rests():
                return  # somebody has stopped it again, or what was started did not come up
        took = self.world.now - healed
        expect(self.liveness.runs(committed), "runs-again", f"{self.oracle.state.phase.value} after {took:.0f} s")
        self.result.longest_recovery = max(self.result.longest_recovery, took)
        self.say(f"-- runs again after {took:.0f} s")
        self._go_for(healed, self.liveness.settled)
        self.go(self.world.now + BOUND, self.liveness.settled)
        expect(self.liveness.settled(), "as-wanted", self.oracle.state.wish)

    def _go_for(self, healed: float, enough: Callable[[], bool]) -> None:
        """Go on until it is enough, for PROMPT seconds; for BOUND when the watch has to wait by its own rules."""
        self.go(healed + PROMPT, enough)
        if not enough() and self.liveness.waits_by_rule(healed):
            self.go(healed + BOUND, enough)

    @property
    def _data(self) -> Data:
        assert self.world.data is not None
        return self.world.data

    # -- time ------------------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        self.people.schedule()
        self.later(SCHEDULER_SECONDS, self._schedule)

    def go(self, until: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Let all go on until this time, or until it is enough."""
        world = self.world
        looked = world.now
        while True:
            if world.now >= looked + 1.0:
                looked = world.now
                self.liveness.expect_taken_back()
                if enough():
                    return
                world.actors = [actor for actor in world.actors if not actor.over]
            if not self.go_a_step(until):
                return

    def go_a_step(self, until: float) -> bool:
        """Let whatever is next happen; return False when nothing is until this time, which it is then."""
        world = self.world
        actor, due = None, until
        for each in world.actors:
            if each.due < due and not each.over and not each.process.frozen:
                actor, due = each, each.due
        if self._events and self._events[0][0] <= due:
            actor, due = None, self._events[0][0]
        if due > world.now:
            world.until(due)
        if due >= until:
            return False
        if actor is None:
            heapq.heappop(self._events)[2]()
            self.oracle.look()
            self._after()
        elif not actor.over:
            self._step(actor)
        return True

    def _step(self, actor: Actor) -> None:
        rng, fault, luck = self.rng, Fault.NONE, Luck.GOOD
        if actor.doing in ("create", "submit") and self.at_write:
            fault = self.at_write.pop(actor.process, Fault.NONE)
        if self._faulty and rng.random() < 0.04:
            luck = rng.choice(list(Luck))
        self.result.steps += 1
        seen = self.oracle.seen
        actor.step(fault, luck)
        for name in actor.struck:
            # The log as it was before this step, which nobody has looked at yet.
            self._count_cell(name, protocol_state(self.world, self.oracle))
        actor.due = self.world.now + actor.rest + rng.random() * 0.02
        self.oracle.look()
        if self._trace is not None and self.oracle.seen > seen:
            self._tell(seen)
        self._after()

    def _after(self) -> None:
        """Executors of dead drivers end, late messages arrive, and the next fault comes if its moment has."""
        for name, driver in self.world.drivers.items():
            if driver.writing and name not in self._ending and driver.over:
                self._ending.add(name)
                self.later(
                    self.rng.uniform(0.0, driver.policy.lease_seconds), partial(setattr, driver, "writing", False)
                )
        while self.world.late:
            self.later(self.rng.uniform(0.0, 12.0), self.world.late.pop())
        if self._planned:
            now, state = self.world.now, protocol_state(self.world, self.oracle)
            for planned in self._planned:
                if planned.state == state or (not planned.state and planned.at <= now):
                    self._planned.remove(planned)
                    if self.rng.random() < 0.5:
                        # In the middle of what is under way now.
                        self._planned.append(Planned(planned.fault, "", now + self.rng.uniform(0.0, 1.5)))
                    else:
                        self._befall(planned.fault, state)
                    return

    def _befall(self, fault: str, state: str) -> None:
        heal = self.faults[fault](self)
        if heal is None:
            return
        if fault in self.strike_later:
            self.say(f"!! {fault} waits while {state}")
        else:
            self._count_cell(fault, state)
        if heal is not self.nothing:
            self.later(self.rng.uniform(0.5, 25.0), Healing(heal))
        self.oracle.look()

    def _count_cell(self, fault: str, state: str) -> None:
        self.result.cells[state, fault] += 1
        self.say(f"!! {fault} while {state}")

    def _tell(self, seen: int) -> None:
        log = self.world.current
        assert log is not None
        for seq in range(seen + 1, self.oracle.seen + 1):
            data = self.world.store.read(seq)
            self.say(f"{seq:4} {'?' if data is None else data.decode(errors='replace')}")

    def _close(self) -> None:
        self.result.seconds = self.world.now - 1000.0
        self.result.batches = self._data.committed
        self.result.doubled = self._data.doubled
        self.result.kinds.update(self.oracle.kinds)
        for actor in self.world.living():
            actor.crash()


class Healing:
    """The end of a fault; all that are left come at the end of its phase."""

    def __init__(self, heal: Heal) -> None:
        self._heal = heal

    def __call__(self) -> None:
        self._heal()
