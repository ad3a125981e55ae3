"""The truth that no actor can see as a whole: the stored records, the processes, who really writes, the clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import greenlet

from airflow_stream_provider.control import FilesStore
from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.store import Store
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.monitoring.samples import LagSample
from tests.support.simulation.memory_store import MemoryStore
from tests.support.simulation.wire import Fault, Wire

if TYPE_CHECKING:
    from tests.support.simulation.adopting import OldJob
    from tests.support.simulation.data import Data
    from tests.support.simulation.driver import Driver

TIMER_SECONDS = 0.2
LONG = Policy(take_back_seconds=10.0, lease_seconds=30.0, pause_seconds=20.0)


class World:
    """Store, cluster and clocks. `now` is the wall clock in seconds; every driver has a monotonic clock of its own.

    :param data: what the queries read and write; None: they only start and stop.
    """

    # Whether the cluster reserves ids, as YARN does.
    reserves = False

    def __init__(self, store: Store, data: Data | None = None, *policies: Policy) -> None:
        self.store = store
        # One deployment after the other has the next of them.
        self.policies = policies or (LONG,)
        self.data = data
        self.main = greenlet.getcurrent()
        self.current: Actor | None = None
        self.now = self._ticked = 1000.0
        self.actors: list[Actor] = []
        self.drivers: dict[str, Driver] = {}
        self.submitted: list[str] = []
        # Two that asked the cluster before either submission had arrived; the second in the log kills its own.
        self.overlapping_submits = 0
        # How many ids the cluster has handed out, and those that it was sent.
        self.handed_out = 0
        self.sent: set[str] = set()
        # Writes that arrive after their writers have given up.
        self.late: list[Callable[[], None]] = []
        self.store_down = False
        # Full, or mounted read-only: what is there can be read.
        self.store_full = False
        # Seconds that a call takes.
        self.store_slow = 0.0
        self.cluster_down = False
        # Nobody can list, read or write the checkpoint.
        self.checkpoint_down = False
        # What the watch reads once more, later in the same look, gives no answer.
        self.second_reads_hang = False
        # What the last look of the watch has kept.
        self.sample: LagSample | None = None
        # Records that the disk, or somebody, has damaged, and what the back-up has in their place; None: nothing.
        self.damaged: dict[int, bytes | None] = {}
        # Drivers whose last heartbeat the disk has torn.
        self.torn_beats: set[str] = set()
        # A job without a stream that is to be adopted; None: there is none.
        self.old_job: OldJob | None = None
        # The ledger of the sinks refuses the batches of this hold, and of those before; 0: of none.
        self.refused = 0
        # What an actor found wrong in its own thread, where an error would be caught.
        self.violation: AssertionError | None = None

    @property
    def takes_nothing(self) -> bool:
        """Whether what keeps the control log refuses all writes."""
        return False

    def open_log(self, process: Actor) -> ControlLog:
        """Return the control log as a process reaches it."""
        return ControlLog(Wire(process), "orders")

    def until(self, now: float) -> None:
        """Let time pass up to this moment; the clocks and timers of the drivers follow within 0.2 s."""
        self.now = now
        if now - self._ticked >= TIMER_SECONDS:
            self.now, seconds = self._ticked, now - self._ticked
            self.tick(seconds)

    def tick(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.now += seconds
        self._ticked = self.now
        for driver in self.drivers.values():
            if not driver.over:
                driver.tick(seconds)

    def awake(self) -> list[Actor]:
        """Everything that could take a step now."""
        return [actor for actor in self.actors if not actor.over and not actor.process.frozen]

    def living(self) -> list[Actor]:
        """Everything that has not ended, frozen or not."""
        return [actor for actor in self.actors if not actor.over]

    def writers(self) -> list[str]:
        """The incarnations of which something really writes: queries, or what a stop or a crash left behind."""
        return [name for name, driver in self.drivers.items() if driver.writing]

    def refuses(self, driver: Driver) -> bool:
        """Whether the ledger of the sinks takes no batch of a driver."""
        found = driver.log.state.incarnations.get(driver.incarnation)
        return found is not None and 0 < found.epoch <= self.refused

    def damage(self, seq: int, data: bytes | None) -> None:
        """Put these bytes in place of a record, or remove it: what no writer does."""
        self.damaged[seq] = self.store.read(seq)
        self._put(seq, data)

    def restore(self) -> None:
        """A person puts back what the back-up has."""
        for seq, data in self.damaged.items():
            self._put(seq, data)
        self.damaged.clear()

    def _put(self, seq: int, data: bytes | None) -> None:
        if isinstance(self.store, MemoryStore):
            self.store.stored.pop(seq, None)
            if data is not None:
                self.store.stored[seq] = data
        else:
            assert isinstance(self.store, FilesStore)
            path = self.store.folder / "log" / f"{seq:020d}.json"
            path.unlink(missing_ok=True)
            if data is not None:
                path.write_bytes(data)

    def late_arrives(self) -> None:
        """Let the first late write arrive."""
        self.late.pop(0)()


class Actor:
    """Something that takes steps: `run` goes on to the next `point` each time that it is stepped."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.fault = Fault.NONE
        # The faults that have struck it in its last step, of those that wait for what it does next.
        self.struck: list[str] = []
        self.choice = 0
        self.frozen = False
        self.cut = False
        self.blind = False
        # Seconds until its next step, and what it is about to do, for whoever keeps time.
        self.rest = 0.0
        self.doing = ""
        self.due = world.now
        # By how much its wall clock is ahead.
        self.skew = 0.0
        # Its calls of the store get no answer before this time.
        self.hangs_until = 0.0
        self._greenlet = greenlet.greenlet(self.run, parent=world.main)
        world.actors.append(self)

    def run(self) -> None:
        raise NotImplementedError

    @property
    def policy(self) -> Policy:
        """What its calls go by."""
        return self.world.policies[0]

    @property
    def process(self) -> Actor:
        """What is killed, frozen or cut off together with it."""
        return self

    @property
    def over(self) -> bool:
        return bool(self._greenlet.dead)

    def step(self, fault: Fault = Fault.NONE, choice: int = 0) -> None:
        """Go on to the next point. `choice` answers what only chance knows: how a stop goes, how a rehearsal ends."""
        self.fault, self.choice = fault, choice
        self.struck.clear()
        self.world.current = self
        self._greenlet.switch()

    def strikes(self, fault: str | None) -> None:
        """Note that a fault which has waited for this has come."""
        if fault is not None:
            self.struck.append(fault)

    def point(self, rest: float = 0.0, doing: str = "") -> None:
        """Others may come between here; `rest`: it goes on so many seconds later."""
        self.rest, self.doing = rest, doing
        self.world.main.switch()

    def crash(self) -> None:
        """Kill it wherever it is."""
        if not self.over:
            self._greenlet.parent = greenlet.getcurrent()  # where control goes when it is dead: back to the killer
            self._greenlet.throw(greenlet.GreenletExit)
