"""An agent on fakes that note what it does, in order: acts on queries and process, and the kinds of its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from airflow_stream_provider.checkpoint import Seen
from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.store import Store
from airflow_stream_provider.lifecycle.due_rewind import DueRewind
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.rewind import WantedRewind
from airflow_stream_provider.runtime.agent import Agent
from airflow_stream_provider.runtime.control_client import ControlClient
from airflow_stream_provider.runtime.ports import BoundaryMissed, LeaseOver, QueryEnd
from airflow_stream_provider.runtime.surroundings import Ports
from tests.support.simulation.memory_store import MemoryStore
from tests.support.story import write

STOPPED = {"a": QueryEnd(completed=True, batch=7, checkpoint="/a")}
# What it notes of a stop for a request, and of one that cannot wait.
STOP, QUICK_STOP = "stop within 60 s", "stop within 8 s"
# What a driver does first that ends as failed.
CUT = ["let go", QUICK_STOP]


class Ended(BaseException):
    """The process has ended with this code."""


class Waits(BaseException):
    """A thread waits for good."""


class NotingStore(MemoryStore):
    """Notes the kinds of records; cannot be reached while `away`, and takes no heartbeat while `full`."""

    def __init__(self, did: list[str]) -> None:
        super().__init__()
        self.away = self.full = False
        self._did = did

    def create(self, seq: int, data: bytes) -> None:
        super().create(seq, data)
        self._did.append(Record.from_json(data, seq).kind)

    def read(self, seq: int) -> bytes | None:
        if self.away:
            raise ControlUnavailable("The store is out of reach.")
        return super().read(seq)

    def put_heartbeat(self, incarnation: str, data: bytes) -> None:
        if self.full:
            raise ControlUnavailable("The store is full.")
        super().put_heartbeat(incarnation, data)


class FakeClock:
    """Stands still until it is told otherwise; the wall clock shows 150 s at first."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now - 850.0

    def sleep(self, seconds: float) -> None:
        raise Waits


class FakeQueries:
    """One query, `a`; what comes of the calls is set from outside."""

    label = "a"
    trouble = ""

    def __init__(self, did: list[str]) -> None:
        self.ready = True
        self.paused = False
        self.pause_missed = False
        self.ends: Mapping[str, QueryEnd] = STOPPED
        self.cut: Mapping[str, QueryEnd] = {}
        self.missed: BoundaryMissed | None = None
        self.due: Sequence[Any] = ()
        self.lost: tuple[str, Exception] | None = None
        self.stopped_context: tuple[Any, Exception] | None = None
        self.stop_fails: Exception | None = None
        self.asked = 0
        self.seen: Mapping[str, Seen] = {}
        self.another: StreamError | None = None
        self.proven = False
        self.told: Sequence[QueryProgress] = ()
        self._did = did

    def describe(self) -> list[dict[str, Any]]:
        return [{"name": "a"}]

    def environment(self) -> dict[str, Any]:
        return {"spark": "4.0.0"}

    def progress(self) -> Sequence[QueryProgress]:
        self.asked += 1
        return [QueryProgress("a", batch=7)]

    def ended(self) -> Mapping[str, QueryEnd]:
        return self.ends

    def has_committed(self) -> bool:
        return self.proven

    def hold(self) -> Sequence[Any]:
        self._did.append("hold")
        return [self]

    def follow(self, progress: Sequence[QueryProgress]) -> None:
        self.told = progress

    def let_go(self) -> None:
        self._did.append("let go")

    def check_seen(self, seen: Mapping[str, Seen]) -> None:
        self.seen = seen
        if self.another is not None:
            raise self.another

    def start(self, queries: Sequence[Any], seen: Mapping[str, Seen]) -> None:
        self.seen = seen
        self._did.append("start")

    def check_rewind(self, wanted: WantedRewind) -> None:
        self._did.append("check the way back")

    def rewind(self, queries: Sequence[Any], due: DueRewind, seen: Mapping[str, Seen]) -> str:
        self.seen = seen
        self._did.append(f"rewind {due.mark}")
        return "It went back."

    def stop(self, seconds: float) -> tuple[Mapping[str, QueryEnd], BoundaryMissed | None]:
        self._did.append(f"stop within {seconds:.0f} s")
        if self.stop_fails is not None:
            raise self.stop_fails
        return self.ends, self.missed

    def interrupt(self) -> Mapping[str, QueryEnd]:
        self._did.append("interrupt")
        return self.cut

    def restart_in_place(self) -> None:
        self._did.append("restart in place")

    def pause(self, seconds: float) -> None:
        self._did.append("pause")
        if self.pause_missed:
            raise BoundaryMissed("No lock.")
        self.paused = True

    def resume(self) -> None:
        self._did.append("resume")
        self.paused = False

    def unable(self) -> tuple[Any, Exception] | None:
        return self.stopped_context

    def tend(self) -> tuple[Sequence[Any], tuple[str, Exception] | None]:
        return self.due, self.lost

    def restart(self, queries: Sequence[Any]) -> None:
        self._did.append("restart")


class FakeProcess:
    """Ends by an exception; its lease runs on the fake clock."""

    facts = Heartbeat(pid=1, host="here")
    waits_for = ""

    def __init__(self, did: list[str], clock: FakeClock) -> None:
        self.deadline = clock.now + 30.0
        self._did = did
        self._clock = clock

    def postpone(self, sent: float) -> None:
        if self._clock.now >= self.deadline:
            raise LeaseOver("The lease had run out.")
        self.deadline = sent + 30.0

    def exit(self) -> None:
        self._did.append("exit")
        raise Ended(0)

    def halt(self) -> None:
        self._did.append("halt")
        raise Ended(50)


class FakeWork:
    """Background work that is done when a test says so."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self.alive = True

    def is_alive(self) -> bool:
        return self.alive

    def do(self) -> None:
        try:
            self._work()
        finally:
            self.alive = False


class FakeDriver:
    """An agent in the middle of a story; `did` is what it has done since.

    :param store: default: one in memory, of which `did` notes the records.
    """

    def __init__(self, incarnation: str, records: Sequence[Record], store: Store | None = None) -> None:
        self.did: list[str] = []
        self.store = NotingStore(self.did)
        self.clock = FakeClock()
        self.queries = FakeQueries(self.did)
        self.process = FakeProcess(self.did, self.clock)
        self.refusal: StreamError | None = None
        self.changed = self.to_come = ""
        self.rehearsed: list[Sequence[Any]] = []
        self.summary: Mapping[str, Any] = {"seconds": 1.0}
        self.works: list[FakeWork] = []
        self.log = ControlLog(store or self.store, "orders")
        write(self.log, *records)
        self.agent = Agent(
            ControlClient(ControlLog(store or self.store, "orders"), incarnation, clock=self.clock),
            Policy(),
            Ports(
                queries=cast(Any, self.queries),
                process=cast(Any, self.process),
                rehearse=self._rehearse,
                spawn=self._spawn,
                clock=self.clock,
                compare=self._compare,
                stale=self._stale,
                to_come=lambda former: self.to_come,
            ),
        )
        self.did.clear()

    def running(self) -> FakeDriver:
        """Let it start its queries, as the holder that it is."""
        self.turn()
        self.work()
        self.did.clear()
        return self

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self._unless_ended(self.agent.turn)

    def work(self) -> None:
        """Do the background work that was begun last."""
        self._unless_ended(self.works[-1].do)

    def record(self) -> Record:
        """The newest record."""
        return self.log.records()[-1]

    def moves(self, incarnation: str, counter: int) -> None:
        """Another driver's heartbeat moves."""
        self.log.beat(incarnation, Heartbeat(counter=counter))

    def _unless_ended(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Ended:
            return

    def _spawn(self, work: Callable[[], None]) -> FakeWork:
        self.works.append(FakeWork(work))
        return self.works[-1]

    def _compare(self, former: Sequence[Any]) -> None:
        self.did.append("compare")
        if self.refusal is not None:
            raise self.refusal

    def _stale(self) -> str:
        self.did.append("look")
        if self.refusal is not None:
            raise self.refusal
        return self.changed

    def _rehearse(self, former: Sequence[Any], *, plans_only: bool, **rest: Any) -> Mapping[str, Any]:
        self.did.append("rehearse the plans" if plans_only else "rehearse")
        self.rehearsed.append(former)
        if self.refusal is not None:
            raise self.refusal
        return self.summary


def work(driver: FakeDriver) -> None:
    """Take a turn, and do the work that it begins."""
    driver.turn()
    driver.work()


def look_again(driver: FakeDriver) -> None:
    """Take a turn after the pause between two looks at the queries."""
    driver.running()
    driver.clock.now += 1.0
    driver.turn()


def lose(driver: FakeDriver) -> None:
    """A query fails with what no restart cures."""
    driver.queries.lost = ("The query a failed and no restart cures it", ValueError("Partitions Set(1) are gone"))
    look_again(driver)
    driver.work()
