"""A driver: the runtime's own agent, on a simulated process and queries.

The agent's turns are one actor, its background work and the end of the script are others, so that what one thread does
comes between the steps of another. The queries are reduced to what matters: does something of them write now?
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import greenlet

from airflow_stream_provider.lifecycle.errors import (
    ControlLogReplaced,
    ControlUnavailable,
    RehearsalRefused,
    StreamError,
)
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.state import IncarnationState
from airflow_stream_provider.runtime.agent import Agent
from airflow_stream_provider.runtime.control_client import ControlClient
from airflow_stream_provider.runtime.surroundings import Ports
from tests.support.simulation.driver_process import Clock, Jvm, Lock
from tests.support.simulation.invariants import expect
from tests.support.simulation.queries import Luck, Mishap, Queries
from tests.support.simulation.world import Actor, World

TICK_SECONDS = 1.0
HURRY_SECONDS = 0.4  # 0.05 s in a driver; fewer turns are simulated
REHEARSAL_SECONDS = 2.0


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
        # How old what it sees of the checkpoint may be, in seconds.
        self.sees_late = 0.0
        self.saw = 0
        # When it last wrote a heartbeat.
        self.beat_at = 0.0
        # Whether the cluster has lost its machine.
        self.lost = False
        self.points = 0
        # Whether its script has raised an error.
        self.raised = False
        # Whether a person has said in the log that it is dead, and whether it has had a whole turn since it read that.
        self.said_dead = self.knew = False
        self.log = world.open_log(self)
        self.jvm = Jvm(self)
        self.queries = Queries(self)
        self.agent: Agent | None = None
        world.drivers[incarnation] = self

    @property
    def lives(self) -> bool:
        """Whether an observer sees its heartbeat move."""
        return not (self.over or self.frozen or self.cut)

    @property
    def excused(self) -> bool:
        """Whether it cannot know yet that it has lost the stream by a person's fault, or has ended for it."""
        return self.said_dead and (self.over or not self.knew)

    @property
    def running(self) -> bool:
        """Whether it believes that it runs the queries."""
        return self.agent is not None and self.agent._acts.running

    @property
    def release(self) -> str:
        """The version of its release."""
        return self.log.state.deployments[self.deployment].release.version

    @property
    def policy(self) -> Policy:
        found = self.log.state.deployments.get(self.deployment)
        return super().policy if found is None else found.policy

    # -- what befalls it -------------------------------------------------------------------------------------------

    def tick(self, seconds: float) -> None:
        """Let time pass; the lease watchdog halts the process when it was not postponed in time.

        It is in the driver's JVM, so a machine that is frozen as a whole freezes it, too.
        """
        if not self.suspended:
            self.clock += seconds
        if self.over or self.frozen:
            return
        if not self.jvm.in_time:
            self.crash()
        elif self.running and self.clock - self._renewed >= self.policy.lease_seconds:
            expect(self.queries.paused, "lease", self.incarnation)

    def terminate(self) -> None:
        """SIGTERM."""
        self.terminating = True
        if self.agent is not None:
            self.agent.terminate()

    def script_fails(self) -> None:
        """The user's script raises."""
        if (agent := self.agent) is not None:
            self.raised = True
            self.spawn(lambda: agent.script_failed("The script failed", Mishap("It raised.")))

    def script_ends(self) -> None:
        """The user's script returns, since its queries are over; then the process ends."""
        agent = self.agent
        assert agent is not None

        def finish() -> None:
            with contextlib.suppress(ControlLogReplaced):  # then it ends all the same
                agent.script_finished()
            for _ in range(3):  # the interpreter takes its time to end
                self.here.point(0.5)
            self.end()

        self.spawn(finish)

    def crash(self) -> None:
        """Kill the process; its executors may write on for a while."""
        for thread in self.threads:
            Actor.crash(thread)
        super().crash()
        self._cut()

    def kill(self) -> None:
        """Kill it and its executors; on return they are gone."""
        self.crash()
        self.writing = False

    def end(self) -> None:
        """End the process, from within one of its threads."""
        self._cut()
        for thread in (*self.threads, self):
            if thread is not self.here:
                Actor.crash(thread)
        raise greenlet.GreenletExit

    def _cut(self) -> None:
        if self.queries.run is not None:
            self.queries.run.cut = True

    # -- its threads -----------------------------------------------------------------------------------------------

    @property
    def here(self) -> Actor:
        """The thread of this driver that takes a step now."""
        assert self.world.current is not None
        return self.world.current

    def world_says(self, luck: Luck) -> bool:
        return self.here.choice == luck

    def point(self, rest: float = 0.0, doing: str = "") -> None:
        self.points += 1
        super().point(rest, doing)

    def spawn(self, work: Callable[[], None]) -> Thread:
        self.threads = [thread for thread in self.threads if thread.is_alive()]
        self.threads.append(Thread(self, work))
        return self.threads[-1]

    def run(self) -> None:
        if not self._launched():
            return
        clock = Clock(self)
        self.jvm.arm(self.clock)
        self.agent = Agent(
            ControlClient(self.log, self.incarnation, clock=clock, lock=Lock(self)),
            self.policy,
            Ports(
                queries=cast(Any, self.queries),
                process=cast(Any, self.jvm),
                rehearse=self._rehearse,
                compare=lambda former: None,
                spawn=self.spawn,
                clock=clock,
                stale=self._stale,
            ),
        )
        if self.terminating:
            self.agent.terminate()
        while True:
            points, began = self.points, self.clock
            knew = self._reads_fenced
            self.agent.turn()
            self.knew = knew
            self._look(began)
            if self.world.data is not None:
                self.point(HURRY_SECONDS if self.agent.in_hurry else TICK_SECONDS, "turn")
            elif self.points == points:
                self.point()

    def _launched(self) -> bool:
        while True:
            try:
                deployment = self.log.refresh().deployments.get(self.deployment)
                return deployment is not None and not deployment.ended
            except ControlLogReplaced:
                return False  # the log was put back while it came up: its process ends
            except ControlUnavailable:
                self.point(1.0)

    def _rehearse(
        self, former: Sequence[Mapping[str, Any]], *, check: Callable[[], None], **rest: Any
    ) -> Mapping[str, Any]:
        check()
        self.here.point(REHEARSAL_SECONDS, "rehearse")
        if self.world_says(Luck.REFUSED):
            raise RehearsalRefused("Spark refuses the plan.")
        return {}

    def _stale(self) -> str:
        """See `Rehearsal.stale`. By the time, so that what chance decides is as it was before drivers looked again."""
        self.here.point(doing="look again")
        return "other executors" if int(self.clock) % 2 else ""

    @property
    def _renewed(self) -> float:
        return 0.0 if self.agent is None else self.agent._renewed

    @property
    def _reads_fenced(self) -> bool:
        found = self.log.state.incarnations.get(self.incarnation)
        return found is not None and found.state is IncarnationState.FENCED

    def _look(self, began: float) -> None:
        """Rule 2, after a turn that began at this time: half a lease without the log, and the queries are paused.

        They are not paused for ever: this driver would have ended in that turn.
        """
        assert self.agent is not None
        silent = began - self._renewed
        found = self.log.state.incarnations.get(self.incarnation)
        ended = found is not None and found.state is IncarnationState.FINISHED
        policy = self.policy
        pause_over = self.running and not ended and silent >= policy.lease_seconds + policy.pause_seconds
        expect(not pause_over, "pause-bounded", self.incarnation)
        expect(not (self.running and self._reads_fenced), "heeds-the-fence", self.incarnation)
        unexpected = self.agent.unexpected
        expect(unexpected is None or isinstance(unexpected, StreamError), "no-surprise", repr(unexpected))
        works = self.agent._acts.background.is_busy
        if self.running and silent > policy.lease_seconds / 2 and not works:
            expect(self.queries.paused or self.queries.pause_missed, "paused", self.incarnation)


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

    def stop(self) -> None:
        """End this thread alone."""
        super().crash()

    def crash(self) -> None:
        self.driver.crash()
