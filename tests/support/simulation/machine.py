"""The state machine of the model check: one stream, and all that can happen to it, chosen by Hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.store import Store
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.saved_state import dump
from airflow_stream_provider.planning.steps import TaskIdentity
from tests.support.simulation.airflow import (
    GiveUp,
    Task,
    newest,
    retire,
    roll_back,
    stand_by,
    stop,
    take_over,
    withdraw,
)
from tests.support.simulation.cluster import boot
from tests.support.simulation.driver import Driver
from tests.support.simulation.forgeries import DAMAGE, FORGERIES
from tests.support.simulation.memo import shared_readings
from tests.support.simulation.memory_store import MemoryStore
from tests.support.simulation.oracle import Oracle
from tests.support.simulation.queries import Luck
from tests.support.simulation.recovery import Recovery
from tests.support.simulation.topic_wire import virtual_time
from tests.support.simulation.watching import Revive, Runs, Watch
from tests.support.simulation.wire import Fault
from tests.support.simulation.wishes import Plan
from tests.support.simulation.world import LONG, Actor, World

some = st.integers(0, 11)
# What may befall one step: mostly nothing. One byte of a schedule says who goes on (3 bits) and with which of these.
CHANCES: list[tuple[Fault, Luck]] = [(fault, Luck.GOOD) for fault in Fault if fault is not Fault.NONE]
CHANCES += [(Fault.NONE, luck) for luck in Luck if luck is not Luck.GOOD] * 3
CHANCES = [(Fault.NONE, Luck.GOOD)] * (32 - len(CHANCES)) + CHANCES

STAGES = ["", "running", "standby", "requested", "ready", "released", "deserted", "torn", "late"]


class Streams(RuleBasedStateMachine):
    """One stream with all that can happen to it."""

    def __init__(self) -> None:
        super().__init__()
        self.within = ExitStack()
        self.world = self.new_world()
        self.within.enter_context(virtual_time(self.world))
        self.within.enter_context(shared_readings())
        self.oracle = Oracle(self.world)
        self.recovery = Recovery(self.world, self.oracle)
        self.tasks = 0
        self.families: list[str] = []
        self.watched = ""

    def new_world(self) -> World:
        return World(self.new_store())

    def new_store(self) -> Store:
        return MemoryStore()

    # -- a beginning that leads somewhere --------------------------------------------------------------------------

    @initialize(stage=st.sampled_from(STAGES), watched=st.sampled_from(["", "at once", "by runs"]))
    def begin(self, stage: str, watched: str) -> None:
        """Nothing yet; or a running release, a standby of the next beside it, and a hand-over as far as said.

        "deserted": released to a driver that died just then. "torn": released inside a batch. "late": released to a
        driver that was frozen when it had read so, until the old one took the stream back.
        """
        self.watched = watched
        if stage:
            self.deploy(0)
            self.hand_over(0)
        if stage not in ("", "running"):
            self.deploy(1)
        if stage in STAGES[3:]:
            reached = stage if stage in ("requested", "ready") else "released"
            self.ask("hand over", 1)
            self.recovery.until(
                lambda: (found := self.oracle.state.open_request) is not None and found.stage.value == reached,
                Luck.INTERRUPTED if stage == "torn" else Luck.GOOD,
            )
        new = list(self.world.drivers.values())[-1] if self.world.drivers else None
        if new is not None and stage == "deserted":
            new.crash()
        if new is not None and stage == "late":
            new.step()
            new.frozen = True
            self.recovery.until(lambda: self.oracle.state.holder is not None)

    # -- what people and DAGs ask for ------------------------------------------------------------------------------

    @rule(release=st.integers(0, 2))
    @precondition(lambda self: len(self.families) < 5)
    def deploy(self, release: int) -> None:
        self.families.append(self._task(stand_by(f"release-{release}")).identity.wish)
        self.recovery.settle(30)

    @rule(which=some, schedule=st.binary(max_size=48))
    @precondition(lambda self: self.families)
    def hand_over(self, which: int, schedule: bytes = b"") -> None:
        self.ask("hand over", which)
        self._go_on(self.world.awake, schedule)
        self.recovery.settle(36 if not schedule else 8)

    @rule(
        what=st.sampled_from(["hand over", "hand over", "roll back", "stop", "retire", "call off", "give up"]),
        which=some,
    )
    @precondition(lambda self: self.families)
    def ask(self, what: str, which: int) -> None:
        if what == "give up":
            GiveUp(self.world, "somebody")
            return
        family = self.families[which % len(self.families)]
        plans = {"roll back": roll_back(), "retire": retire(newest), "stop": stop(), "call off": withdraw()}
        self._task(plans.get(what) or take_over(family))

    def _task(self, plan: Plan) -> Task:
        self.tasks += 1
        return Task(self.world, TaskIdentity("orders", "run", f"task-{self.tasks}"), plan)

    @rule(which=some)
    def try_again(self, which: int) -> None:
        """A task is cleared, or retried, once its last try is over."""
        last = {
            actor.by: actor for actor in self.world.actors if isinstance(actor, Task) and not isinstance(actor, Revive)
        }
        tasks = [task for task in last.values() if task.over]
        if tasks:
            tasks[which % len(tasks)].again()

    @rule(runs=st.booleans())
    @precondition(
        lambda self: sum(isinstance(actor, (Watch, Runs)) and not actor.over for actor in self.world.actors) < 2
    )
    def watch(self, runs: bool) -> None:
        self.tasks += 1
        _ = Runs(self.world, f"run-{self.tasks}") if runs else Watch(self.world, "watch")

    @rule()
    @precondition(lambda self: not self.world.damaged)
    def newer_version_writes(self) -> None:
        """A kind that nobody here knows stands in the middle of everything."""
        ControlLog(self.world.store, "orders").propose(lambda state: Record("admired", by="a newer version"))

    @rule(what=st.sampled_from(list(FORGERIES)))
    @precondition(lambda self: not self.world.damaged)
    def somebody_forges(self, what: str) -> None:
        """Whoever can write to the folder puts something there that the rules forbid."""
        state = self.oracle.state
        self.world.store.create(state.seq + 1, FORGERIES[what](state).to_json())

    @rule(what=st.sampled_from(["torn", "deep", "spliced"]))
    @precondition(lambda self: not self.world.damaged)
    def somebody_forges_what_nobody_can_follow(self, what: str) -> None:
        """It stands after the last record, and nothing is written after it."""
        state = self.oracle.state
        self.world.damage(state.seq + 1, DAMAGE[what](state))

    @rule(what=st.sampled_from(["missing", "torn", "deep"]), back=st.integers(0, 8))
    @precondition(lambda self: not self.world.damaged and self.oracle.seen)
    def the_disk_loses_a_record(self, what: str, back: int) -> None:
        """One that some have read, and others have not. That the last one is missing, nobody can see by the log."""
        seq = max(1, self.oracle.seen - back)
        if what != "missing" or seq < self.oracle.seen:
            self.world.damage(seq, DAMAGE[what](self.oracle.state))

    @rule()
    @precondition(lambda self: not self.world.damaged)
    def the_state_is_saved(self) -> None:
        """Whoever opens the log from now on starts from it."""
        log = ControlLog(self.world.store, "orders")
        self.world.store.put_saved_state(dump(log.refresh()))

    # -- time and chance -------------------------------------------------------------------------------------------

    @rule(schedule=st.binary(min_size=1, max_size=16))
    def some_go_on(self, schedule: bytes) -> None:
        self._go_on(self.world.awake, schedule)

    @rule(schedule=st.binary(min_size=8, max_size=32))
    def drivers_go_on(self, schedule: bytes) -> None:
        self._go_on(lambda: [actor for actor in self.world.awake() if isinstance(actor.process, Driver)], schedule)

    @rule(which=some, schedule=st.binary(min_size=4, max_size=24))
    def one_driver_goes_on(self, which: int, schedule: bytes) -> None:
        """The threads of one driver, in any order."""
        drivers = list(self.world.drivers.values())
        if drivers:
            driver = drivers[which % len(drivers)]
            self._go_on(lambda: [actor for actor in self.world.awake() if actor.process is driver], schedule)

    @rule(turns=st.integers(1, 6))
    def all_go_on(self, turns: int) -> None:
        self.recovery.settle(turns)

    @rule(seconds=st.sampled_from([1.0, LONG.take_back_seconds]))
    def time_passes(self, seconds: float) -> None:
        self.world.tick(seconds)

    @rule(outage=st.booleans())
    def a_request_expires(self, outage: bool) -> None:
        """More time than a lease passes: the agents go on meanwhile, the other threads of their drivers do not."""
        self.world.store_down |= outage
        for _ in range(7):
            self.world.tick(LONG.lease_seconds / 3)
            for driver in [actor for actor in self.world.awake() if isinstance(actor, Driver)]:
                if not driver.over:
                    driver.step()
                    self.oracle.look()

    @rule(what=st.sampled_from(["killed", "frozen", "suspended", "cut off"]), which=some)
    def befall(self, what: str, which: int) -> None:
        """Any process: kill -9, SIGSTOP, a sleeping machine (its monotonic clock stands still), no network."""
        awake = self.world.awake()
        if not awake:
            return
        actor = awake[which % len(awake)].process
        if what == "killed":
            actor.crash()  # executors of a driver may write on for a while
        elif what == "cut off":
            actor.cut = True
        else:
            actor.frozen = True
            if isinstance(actor, Driver):
                actor.suspended = what == "suspended"

    @rule(
        what=st.sampled_from(["SIGTERM", "failed", "torn", "curable", "finished", "script fails", "executors end"]),
        which=some,
    )
    def befall_a_driver(self, what: str, which: int) -> None:
        """SIGTERM; its queries end by themselves, the second time inside a batch; executors notice that it is dead."""
        drivers = [driver for driver in self.world.drivers.values() if driver.over == (what == "executors end")]
        if not drivers:
            return
        driver = drivers[which % len(drivers)]
        if what == "SIGTERM":
            driver.terminate()
        elif what == "executors end":
            driver.writing = False
        elif what == "script fails":
            driver.script_fails()
        else:
            driver.mishap = what
            driver.clock += 1.0  # the next look is due

    @rule(which=some)
    @precondition(lambda self: self.world.submitted and len(self.world.drivers) < 8)
    def relaunch(self, which: int) -> None:
        """A supervising cluster starts a driver again, beside its own orphan or not."""
        number = which % len(self.world.submitted)
        boot(self.world, self.world.submitted[number], f"driver-{number + 1}")

    @rule(what=st.sampled_from(["store", "cluster"]))
    def goes_away(self, what: str) -> None:
        setattr(self.world, f"{what}_down", True)

    @rule()
    def all_comes_back(self) -> None:
        """Store, cluster, network; what was frozen goes on, with what it knew then."""
        self.recovery.reconnect()
        for actor in self.world.actors:
            actor.frozen = False
            if isinstance(actor, Driver):
                actor.suspended = False

    @rule()
    @precondition(lambda self: self.world.late)
    def late_one_arrives(self) -> None:
        self.world.late_arrives()

    def _go_on(self, whom: Callable[[], Sequence[Actor]], schedule: bytes) -> None:
        for chance in schedule:
            able = whom()
            if able:
                able[chance % 8 % len(able)].step(*CHANCES[chance // 8])
                self.oracle.look()

    @invariant()
    def rules_hold(self) -> None:
        self.oracle.look()

    def teardown(self) -> None:
        """See `end`."""
        with self.within:
            self.end()

    def end(self) -> None:
        """From wherever this came to: the drivers alone, then the watch or new runs of the DAG, bring it to run."""
        self.recovery.heal()
        self.recovery.drivers_alone()
        if self.watched:
            self.recovery.watch(runs=self.watched == "by runs")
        for number in range(3):
            if not self.recovery.runs():
                self.recovery.upgrade(f"orders-again-{number}")
        assert self.recovery.runs(), f"nobody runs the stream again: {self.oracle.state}"
        for actor in self.world.living():
            actor.crash()
