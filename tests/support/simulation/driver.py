"""A driver: the runtime's own agent, on a simulated process and queries.

The agent's turns are one actor, its background work and the end of the script are others, so that what one thread does
comes between the steps of another. The queries are reduced to what matters: does something of them write now?
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import IntEnum
from typing import Any

import greenlet

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.errors import (
    ControlLogReplaced,
    ControlUnavailable,
    RehearsalRefused,
    StreamError,
)
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.state import IncarnationState
from airflow_stream_provider.runtime.agent import Agent
from airflow_stream_provider.runtime.control_client import ControlClient
from airflow_stream_provider.runtime.ports import BoundaryMissed, LeaseOver, Ports, QueryEnd
from tests.support.simulation.world import Actor, Wire, World

POLICY = Policy(take_back_seconds=10.0, lease_seconds=30.0, pause_seconds=20.0)


class Luck(IntEnum):
    """How a stop or a rehearsal goes."""

    GOOD = 0
    BOUNDARY_MISSED = 1
    INTERRUPTED = 2
    REFUSED = 3


class Driver(Actor):
    """One incarnation. `writing` is the truth about its queries, whatever it or the log believes.

    `terminating`: SIGTERM has come. `suspended`: its monotonic clock stands still. `mishap`: how its queries end by
    themselves at the next look ("failed", "torn": failed inside a batch, "curable": failed, and a restart helps,
    "finished").
    """

    def __init__(self, world: World, incarnation: str, submission: str) -> None:
        self.threads: list[Thread] = []
        super().__init__(world)
        self.incarnation = incarnation
        self.submission = submission
        self.deployment = deployment_of(incarnation)
        self.writing = False
        self.terminating = False
        self.suspended = False
        self.mishap = ""
        self.clock = 0.0
        self.points = 0
        self.log = ControlLog(Wire(self), "orders")
        self.jvm = Jvm(self)
        self.queries = Queries(self)
        self.agent: Agent | None = None
        world.drivers[incarnation] = self

    @property
    def lives(self) -> bool:
        """Whether an observer sees its heartbeat move."""
        return not (self.over or self.frozen or self.cut)

    @property
    def running(self) -> bool:
        """Whether it believes that it runs the queries."""
        return self.agent is not None and self.agent._acts.running

    # -- what befalls it -------------------------------------------------------------------------------------------

    def tick(self, seconds: float) -> None:
        """Let time pass; the lease watchdog halts the process when it was not postponed in time.

        It is in the driver's JVM, so a machine that is frozen as a whole freezes it, too.
        """
        if not self.suspended:
            self.clock += seconds
        if self.over or self.frozen:
            return
        if self.clock >= self.jvm.deadline:
            self.crash()
        elif self.running and self.clock - self._renewed >= POLICY.lease_seconds:
            assert self.queries.paused, "rule 2: it outlives its lease, and its queries are not paused"

    def terminate(self) -> None:
        """SIGTERM."""
        self.terminating = True
        if self.agent is not None:
            self.agent.terminate()

    def script_fails(self) -> None:
        """The user's script raises."""
        if (agent := self.agent) is not None:
            self.spawn(lambda: agent.script_failed("The script failed", Mishap("It raised.")))

    def script_ends(self) -> None:
        """The user's script returns, since its queries are over; then the process ends."""
        agent = self.agent
        assert agent is not None

        def finish() -> None:
            with contextlib.suppress(ControlLogReplaced):  # then it ends all the same
                agent.script_finished()
            for _ in range(3):  # the interpreter takes its time to end
                self.here.point()
            self.end()

        self.spawn(finish)

    def crash(self) -> None:
        """Kill the process; its executors may write on for a while."""
        for thread in self.threads:
            Actor.crash(thread)
        super().crash()

    def kill(self) -> None:
        """Kill it and its executors; on return they are gone."""
        self.crash()
        self.writing = False

    def end(self) -> None:
        """End the process, from within one of its threads."""
        for thread in (*self.threads, self):
            if thread is not self.here:
                Actor.crash(thread)
        raise greenlet.GreenletExit

    # -- its threads -----------------------------------------------------------------------------------------------

    @property
    def here(self) -> Actor:
        """The thread of this driver that takes a step now."""
        assert self.world.current is not None
        return self.world.current

    def world_says(self, luck: Luck) -> bool:
        return self.here.choice == luck

    def point(self) -> None:
        self.points += 1
        super().point()

    def spawn(self, work: Callable[[], None]) -> Thread:
        self.threads = [thread for thread in self.threads if thread.is_alive()]
        self.threads.append(Thread(self, work))
        return self.threads[-1]

    def run(self) -> None:
        if not self._launched():
            return
        clock = Clock(self)
        self.jvm.deadline = self.clock + POLICY.lease_seconds
        self.agent = Agent(
            ControlClient(self.log, self.incarnation, clock=clock, lock=Lock(self)),
            POLICY,
            Ports(
                queries=self.queries,
                process=self.jvm,
                rehearse=self._rehearse,
                compare=lambda former: None,
                spawn=self.spawn,
                clock=clock,
            ),
        )
        if self.terminating:
            self.agent.terminate()
        while True:
            points, began = self.points, self.clock
            self.agent.turn()
            self._look(began)
            if self.points == points:
                self.point()

    def _launched(self) -> bool:
        while True:
            try:
                deployment = self.log.refresh().deployments.get(self.deployment)
                return deployment is not None and not deployment.ended
            except ControlUnavailable:
                self.point()

    def _rehearse(self, former: Sequence[Mapping[str, Any]], *, say: Callable[[str], None]) -> Mapping[str, Any]:
        self.here.point()
        if self.world_says(Luck.REFUSED):
            raise RehearsalRefused("Spark refuses the plan.")
        return {}

    @property
    def _renewed(self) -> float:
        return 0.0 if self.agent is None else self.agent._renewed

    def _look(self, began: float) -> None:
        """Rule 2, after a turn that began at this time: half a lease without the log, and the queries are paused.

        They are not paused for ever: this driver would have ended in that turn.
        """
        assert self.agent is not None
        silent = began - self._renewed
        found = self.log.state.incarnations.get(self.incarnation)
        ended = found is not None and found.state is IncarnationState.FINISHED
        pause_over = self.running and not ended and silent >= POLICY.lease_seconds + POLICY.pause_seconds
        assert not pause_over, "rule 2: it is paused for longer than its policy says"
        unexpected = self.agent.unexpected
        assert unexpected is None or isinstance(unexpected, StreamError), f"the agent raised an error: {unexpected!r}"
        work = self.agent._acts.work
        if self.running and silent > POLICY.lease_seconds / 2 and not (work is not None and work.is_alive()):
            assert self.queries.paused or self.queries.pause_missed, "rule 2: the log is away, and nothing is paused"


class Thread(Actor):
    """Another thread of a driver: frozen, cut off and killed with it."""

    def __init__(self, driver: Driver, work: Callable[[], None]) -> None:
        super().__init__(driver.world)
        self.driver = driver
        self._work = work

    @property
    def process(self) -> Driver:
        return self.driver

    def run(self) -> None:
        self._work()

    def is_alive(self) -> bool:
        return not self.over

    def crash(self) -> None:
        self.driver.crash()


class Mishap(StreamError):
    """What a query or a script ended with."""


class ShortHeartbeat(Heartbeat):
    """A heartbeat of which only that is stored which Airflow's side needs: most of the check's time goes into them."""

    def to_json(self) -> bytes:
        return b'{"counter": %d, "submission": "%s"}' % (self.counter, self.submission.encode())


class Jvm:
    """The driver's process, with the lease watchdog in its JVM."""

    def __init__(self, driver: Driver) -> None:
        self.facts = ShortHeartbeat(submission=driver.submission)
        self.deadline = float("inf")
        self._driver = driver

    def postpone(self, sent: float) -> None:
        if self._driver.clock >= self.deadline:
            raise LeaseOver("The lease had run out.")
        self.deadline = max(self.deadline, sent + POLICY.lease_seconds)
        self._driver.here.point()  # what it does now may rest on what it saw long ago

    def exit(self) -> None:
        if self._driver.log.state.holder == self._driver.incarnation:
            self._driver.world.violation = "rule 3: a driver that leaves by itself releases first"
        self._driver.end()

    def halt(self) -> None:
        found = self._driver.log.state.incarnations.get(self._driver.incarnation)
        if found is not None and found.state is IncarnationState.FINISHED:
            self._driver.world.violation = "a run that has ended well ends with the code of a failure"
        self._driver.end()


class Queries:
    """The queries of a driver as one: started or not, paused or not."""

    label = "orders"
    ready = True
    trouble = ""

    def __init__(self, driver: Driver) -> None:
        self.started = self.over = self.paused = self.pause_missed = False
        self._driver = driver

    def describe(self) -> list[dict[str, Any]]:
        return []

    def progress(self) -> tuple[QueryProgress, ...]:
        return ()

    def hold(self) -> Sequence[Queries]:
        return [self]

    def let_go(self) -> None:
        return

    def start(self, queries: Sequence[Queries], committed: Mapping[str, int], *, required: bool = True) -> None:
        self._driver.here.point()
        if not self.over:
            self.started = self._driver.writing = True

    def stop(self, seconds: float) -> tuple[Mapping[str, QueryEnd], BoundaryMissed | None]:
        driver = self._driver
        driver.here.point()
        if not self.started:
            return {}, None
        if self.paused:
            return {}, BoundaryMissed("Its lock is held.")
        broken = driver.mishap in ("failed", "torn", "curable")
        if not broken and driver.world_says(Luck.BOUNDARY_MISSED):
            return {}, BoundaryMissed("Still inside a batch.")
        torn = driver.mishap == "torn" if broken else driver.world_says(Luck.INTERRUPTED)
        self.started, driver.writing = False, torn and driver.writing
        driver.here.point()
        return {self.label: QueryEnd(not broken and not torn, None, running_tasks=int(torn))}, None

    def interrupt(self) -> None:
        self._driver.here.point()
        self.started = False  # what its last batch writes may still arrive

    def restart_in_place(self) -> None:
        self.start([self], {})

    def pause(self, seconds: float) -> None:
        self.pause_missed = self._driver.world_says(Luck.BOUNDARY_MISSED)
        if self.pause_missed:
            raise BoundaryMissed("Its lock was not had.")
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def unable(self) -> tuple[Queries, Exception] | None:
        return None

    def tend(self) -> tuple[Sequence[Queries], tuple[Queries, Exception] | None]:
        driver = self._driver
        if not self.started or not driver.mishap:
            return [], None
        if driver.mishap == "finished":
            self.over, self.started, driver.writing = True, False, False
            driver.script_ends()
            return [], None
        if driver.mishap == "curable":
            driver.mishap, driver.writing = "", False
            return [self], None
        return [], (self, Mishap("It broke."))

    def restart(self, queries: Sequence[Queries]) -> None:
        self.start(queries, {})


class Clock:
    """The clocks of the driver's machine."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def monotonic(self) -> float:
        return self._driver.clock

    def time(self) -> float:
        return self._driver.world.now

    def sleep(self, seconds: float) -> None:
        self._driver.here.point()


class Lock(AbstractContextManager[None]):
    """A lock between the threads of a driver."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._held = False

    def __enter__(self) -> None:
        if self._driver.here is not self._driver:  # the agent's own thread has been at a point since it renewed
            self._driver.here.point()
        while self._held:
            self._driver.here.point()
        self._held = True

    def __exit__(self, *_: object) -> None:
        self._held = False
