"""A driver as the runtime's agent plays it, with its queries reduced to what matters: do they write now?"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.driver_decision import DriverView, decide
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Kind, Record
from airflow_stream_provider.lifecycle.rules import may_acquire, may_release
from airflow_stream_provider.lifecycle.state import RequestStage, StreamState
from tests.support.simulation.world import Actor, Wire, World

TAKE_BACK_SECONDS = 10.0


class Luck(IntEnum):
    """How a stop or a rehearsal goes."""

    GOOD = 0
    BOUNDARY_MISSED = 1
    INTERRUPTED = 2
    REFUSED = 3


class Driver(Actor):
    """One incarnation. `writing` is the truth about its queries, whatever it or the log believes.

    `terminating`: SIGTERM has come. `suspended`: its monotonic clock stands still. `mishap`: how its queries end by
    themselves at the next look ("failed", "torn": failed inside a batch, "finished").
    """

    def __init__(self, world: World, incarnation: str, submission: str) -> None:
        super().__init__(world)
        self.incarnation = incarnation
        self.submission = submission
        self.deployment = deployment_of(incarnation)
        self.log = ControlLog(Wire(self), "orders")
        self.writing = False
        self.running = False
        self.rehearsed = False
        self.terminating = False
        self.suspended = False
        self.mishap = ""
        self.clock = 0.0
        self._released_at: float | None = None
        self._counter = 0
        self._peer: tuple[str, int] | None = None
        world.drivers[incarnation] = self

    @property
    def lives(self) -> bool:
        """Whether an observer sees its heartbeat move."""
        return not (self.over or self.frozen or self.cut)

    def kill(self) -> None:
        """Kill it and its executors; on return they are gone."""
        self.crash()
        self.writing = False

    def run(self) -> None:
        if self._launched():
            while not self._turn():
                pass

    def _launched(self) -> bool:
        while True:
            try:
                deployment = self.log.refresh().deployments.get(self.deployment)
                return deployment is not None and not deployment.ended
            except ControlUnavailable:
                self.point()

    def _turn(self) -> bool:
        """Look, decide, act; return whether this driver leaves."""
        try:
            state = self.log.refresh()
            self._counter += 1
            self.log.beat(self.incarnation, Heartbeat(counter=self._counter, submission=self.submission))
            me = self._me(state)
        except ControlUnavailable:
            self.point()
            return False
        action = decide(state, me, TAKE_BACK_SECONDS)
        self.point()  # what it does now may rest on what it saw long ago
        act: Callable[[StreamState], bool] = getattr(self, f"_{action.value}")
        try:
            return act(state)
        except ControlUnavailable:
            return False

    def _me(self, state: StreamState) -> DriverView:
        if state.open_request is None:
            self._released_at = None
        return DriverView(
            incarnation=self.incarnation,
            rehearsed=self.rehearsed,
            running=self.running,
            peer_moved=self._peer_moved(state),
            released_for=None if self._released_at is None else self.clock - self._released_at,
            terminating=self.terminating,
        )

    def _peer_moved(self, state: StreamState) -> bool:
        request = state.open_request
        if state.holder != self.incarnation or request is None or request.stage is not RequestStage.READY:
            self._peer = None
            return False
        count = (self.log.heartbeat(str(request.to)) or Heartbeat()).counter
        if self._peer is None or self._peer[0] != request.id:
            self._peer = (request.id, count)
        return count > self._peer[1]

    # -- one per Action --------------------------------------------------------------------------------------------

    def _wait(self, state: StreamState) -> bool:
        if self.incarnation not in state.incarnations:
            if self.world_says(Luck.REFUSED):
                return self._fail("completed")
            self.rehearsed = True
        elif self.running and self.mishap == "finished":
            self.running = self.writing = False
            self._patiently(lambda s: self._record(Kind.FINISHED) if s.holder == self.incarnation else None)
            return True
        elif self.running and self.mishap:
            return self._fail("interrupted" if self.mishap == "torn" else "completed")
        return False

    def _announce(self, state: StreamState) -> bool:
        self._if_still(state, Kind.STANDBY, deployment=self.deployment)
        return False

    def _answer(self, state: StreamState) -> bool:
        assert state.open_request is not None
        self._if_still(state, Kind.READY, request=state.open_request.id)
        return False

    def _acquire(self, state: StreamState) -> bool:
        def build(now: StreamState) -> Record | None:
            request = now.open_request
            if request is None or not may_acquire(now, self.incarnation):
                return None
            return self._record(Kind.ACQUIRED, request=request.id, epoch=now.epoch + 1)

        self.log.propose(build)
        return False

    def _start(self, state: StreamState) -> bool:
        self.running = True
        self._released_at = None
        self.point()
        self.writing = True
        return False

    def _release(self, state: StreamState) -> bool:
        request = None if self.terminating else state.open_request
        if request is not None and request.expires < self.world.now:
            self._if_still(state, Kind.ABORTED, request=request.id, reason="expired")
            return False
        self.point()
        missed = self.world_says(Luck.BOUNDARY_MISSED)
        if missed and request is not None:
            aborted = self._record(Kind.ABORTED, request=request.id, reason="boundary missed")
            open_id = request.id
            self._patiently(lambda s: aborted if s.open_request is not None and s.open_request.id == open_id else None)
            return False
        interrupted = missed or self.world_says(Luck.INTERRUPTED)
        self.running, self.writing = False, interrupted and self.writing
        self._released_at = self.clock
        wanted, to = (None, None) if request is None else (request.id, request.to)
        boundary = "interrupted" if interrupted else "completed"
        released = self._record(Kind.RELEASED, request=wanted, to=to, boundary=boundary)
        self._patiently(
            lambda s: (
                released
                if s.holder == self.incarnation and (wanted is None or may_release(s, self.incarnation, wanted))
                else None
            )
        )
        return False

    def _exit(self, state: StreamState) -> bool:
        return True

    def _halt(self, state: StreamState) -> bool:
        return True

    def _fail(self, boundary: str) -> bool:
        self.running, self.writing = False, boundary == "interrupted" and self.writing
        failed = self._record(Kind.FAILED, deployment=self.deployment, reason="it broke", boundary=boundary)

        def build(now: StreamState) -> Record | None:
            found = now.incarnations.get(self.incarnation)
            over = now.deployments[self.deployment].ended or (found is not None and found.state.terminal)
            return None if over else failed

        self._patiently(build)
        return True

    # -- the log ---------------------------------------------------------------------------------------------------

    def world_says(self, luck: Luck) -> bool:
        return self.choice == luck

    def _record(self, kind: str, **fields: Any) -> Record:
        return Record(kind, {"incarnation": self.incarnation, **fields}, by=self.incarnation, at=self.world.now)

    def _if_still(self, state: StreamState, kind: str, **fields: Any) -> None:
        record = self._record(kind, **fields)
        self.log.propose(lambda now: record if now.seq == state.seq else None)

    def _patiently(self, build: Callable[[StreamState], Record | None]) -> None:
        while True:
            try:
                self.log.propose(build)
                return
            except ControlUnavailable:
                self.point()
