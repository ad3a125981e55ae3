"""The agent: one thread beside the user's script that reads the log, beats, decides and acts."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.driver_decision import Action, DriverView, decide
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, StreamError
from airflow_stream_provider.lifecycle.heartbeat import DriverPhase
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Boundary, Kind, Record
from airflow_stream_provider.lifecycle.rules import may_acquire, may_release
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.runtime.boundary import BoundaryMissed
from airflow_stream_provider.runtime.consumer_group import ConsumerGroup
from airflow_stream_provider.runtime.control_client import ControlClient
from airflow_stream_provider.runtime.describe import describe
from airflow_stream_provider.runtime.driver_process import Driver
from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.heartbeat import HeartbeatWriter
from airflow_stream_provider.runtime.lease_watchdog import LeaseOver
from airflow_stream_provider.runtime.offsets_group import OffsetsGroup
from airflow_stream_provider.runtime.query_group import QueryGroup
from airflow_stream_provider.runtime.rehearsal import Rehearsal, spark_says

TICK_SECONDS = 1.0
# While a request is open both drivers look this often; it bounds the time from `released` to the new start.
HURRY_SECONDS = 0.05
# SIGTERM leaves this long before the worker kills (spark.worker.driverTerminateTimeout is 10 s by default).
TERMINATE_SECONDS = 8.0
# The last word to the offsets group, when nobody follows who would say it.
FLUSH_SECONDS = 1.0

log = logging.getLogger(__name__)


class Agent:
    """Carries one incarnation through its life; everything it does to the stream stands in the log."""

    def __init__(self, control: ControlLog, incarnation: str, policy: Policy, gate: Gate, driver: Driver) -> None:
        self.incarnation = incarnation
        self._control = ControlClient(control, incarnation)
        self._policy = policy
        self._gate = gate
        self._driver = driver
        self._deployment = self._control.deployment
        group = ConsumerGroup(policy.offsets_group, lambda: gate.queries) if policy.offsets_group else None
        self._offsets = OffsetsGroup(group, self._holds)
        self._heartbeat = HeartbeatWriter(gate, driver, self._offsets)
        self._query_group = QueryGroup(gate, lambda query: driver.claim(query.checkpoint))
        self._wake = threading.Event()
        self._work: threading.Thread | None = None
        self._rehearsal: dict[str, Any] | None = None
        self._running = False
        self._released_at: float | None = None
        self._renewed = time.monotonic()
        self._terminating = False
        self._last_tend = 0.0

    # -- called from other threads ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to beat and to act, in a daemon thread."""
        threading.Thread(target=self._run, name="stream-agent", daemon=True).start()
        self._offsets.start()

    def terminate(self) -> None:
        """SIGTERM has come: release at the boundary to nobody, then go. Called from the JVM's shutdown hook."""
        self._terminating = True
        self._wake.set()

    def guard(self) -> None:
        """Raise when the lease is lost: called around the user's foreachBatch, so that the batch is not committed."""
        silent = time.monotonic() - self._renewed
        if self._running and silent > self._policy.lease_seconds and not self._query_group.paused:
            raise StreamError(
                f"This driver has not renewed its lease for {silent:.0f} s; another may hold the stream.",
                next_step="Nothing: the batch is not committed, whoever holds runs it again.",
            )

    def _holds(self) -> bool:
        """Whether this driver holds the stream, and has seen so within its lease."""
        fresh = time.monotonic() - self._renewed < self._policy.lease_seconds
        return self._running and fresh and self._control.state.holder == self.incarnation

    def script_failed(self, reason: str, error: BaseException) -> None:
        """The script raised, or cannot be used: say so in the log, stop what runs, leave with code 50."""
        self._fail(reason, error)

    def script_finished(self) -> None:
        """All queries ended by themselves and the script is over."""
        self._offsets.flush(self._heartbeat.queries, FLUSH_SECONDS)
        record = self._control.record(Kind.FINISHED, incarnation=self.incarnation)
        self._control.append_patiently(lambda state: record if state.holder == self.incarnation else None)

    # -- the loop --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            sent = time.monotonic()
            try:
                state = self._control.renew(lambda state: self._heartbeat.next(state, self._running))
                self._renew(sent)
                self._act(state)
            except ControlUnavailable as error:
                self._unreachable(error)
            except LeaseOver:
                self._driver.halt()
            except Exception as error:
                log.exception("The agent failed")
                self._fail("The runtime itself failed", error)
            self._wake.wait(HURRY_SECONDS if self._hurry() else TICK_SECONDS)
            self._wake.clear()

    def _hurry(self) -> bool:
        return self._control.state.open_request is not None or self._work is not None or self._terminating

    def _renew(self, sent: float) -> None:
        self._renewed = sent
        self._driver.postpone(sent)
        if self._query_group.paused and self._control.state.holder == self.incarnation:
            log.warning("The control log is reachable again and this driver still holds: going on.")
            self._query_group.resume()

    def _unreachable(self, error: ControlUnavailable) -> None:
        """Half a lease without the log: hold the queries still; what is held still may outlive the lease."""
        self._heartbeat.message = str(error)
        silent = time.monotonic() - self._renewed
        if self._running and self._work is None:
            if not self._query_group.paused and silent > self._policy.lease_seconds / 2:
                log.warning("The control log is out of reach for %.0f s: holding the queries still. %s", silent, error)
                try:
                    self._query_group.pause(max(1.0, self._policy.lease_seconds - silent - 1.0))
                except BoundaryMissed as missed:
                    log.error("%s The dead man's switch will halt this driver.", missed.message)
            if self._query_group.paused:
                self._driver.postpone(time.monotonic())
        elif not self._running:
            self._driver.postpone(time.monotonic())

    # -- deciding --------------------------------------------------------------------------------------------------

    def _act(self, state: StreamState) -> None:
        if self._work is not None and self._work.is_alive():
            if self._running and state.holder != self.incarnation:
                self._halt(state)
            if self._terminating and not self._running:
                self._exit(state)  # nothing that a rehearsal does is worth waiting for
            return
        self._work = None
        # Read again after the work is seen to be over: it may have written `released` since this turn began.
        state = self._control.state
        if state.open_request is None:
            self._released_at = None
        me = DriverView(
            incarnation=self.incarnation,
            rehearsed=self._rehearsal is not None,
            running=self._running,
            peer_moved=state.holder == self.incarnation and self._control.peer_moved(state.open_request),
            released_for=None if self._released_at is None else time.monotonic() - self._released_at,
            terminating=self._terminating,
        )
        action = decide(state, me, self._policy.take_back_seconds)
        if action is Action.WAIT:
            self._attend(state)
        else:
            log.info("%s after record %s", action.value, state.seq)
            getattr(self, f"_{action.value}")(state)

    def _attend(self, state: StreamState) -> None:
        """Nothing is asked of this driver: rehearse when the script is ready, look after what runs."""
        if self.incarnation not in state.incarnations and self._rehearsal is None:
            if self._gate.ready:
                self._in_background(lambda: self._rehearse(state))
        elif self._running and time.monotonic() - self._last_tend >= TICK_SECONDS:
            self._last_tend = time.monotonic()
            due, lost = self._query_group.tend()
            if lost is not None:
                self._fail(f"The query {lost[0].label} failed and no restart cures it", lost[1])
            if due:
                self._in_background(lambda: self._query_group.restart(due))

    def _in_background(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception as error:
                log.exception("Failed in the background")
                self._fail(str(error) if isinstance(error, StreamError) else "The runtime itself failed", error)
            finally:
                self._wake.set()

        self._work = threading.Thread(target=guarded, name="stream-work", daemon=True)
        self._work.start()

    # -- the actions, one per member of Action -----------------------------------------------------------------------

    def _announce(self, state: StreamState) -> None:
        queries = [describe(query) for query in self._gate.queries]
        record = self._control.record(
            Kind.STANDBY,
            deployment=self._deployment,
            incarnation=self.incarnation,
            queries=queries,
            rehearsal=self._rehearsal,
        )
        self._control.append(lambda now: None if self.incarnation in now.incarnations else record)
        self._heartbeat.phase = DriverPhase.STANDBY

    def _answer(self, state: StreamState) -> None:
        request = state.open_request
        if request is not None:
            self._control.append_if_still(state, Kind.READY, request=request.id, incarnation=self.incarnation)

    def _acquire(self, state: StreamState) -> None:
        def build(now: StreamState) -> Record | None:
            request = now.open_request
            if request is None or not may_acquire(now, self.incarnation):
                return None
            return self._control.record(
                Kind.ACQUIRED, incarnation=self.incarnation, request=request.id, epoch=now.epoch + 1
            )

        after = self._control.append(build)
        if after.holder == self.incarnation:
            self._start(after)

    def _start(self, state: StreamState) -> None:
        queries = self._gate.hold(self._query_group.start_one)
        for query in queries:
            # What it ran when this driver held before is no news: another driver has gone on since.
            query.real = None
        self._running = True
        self._heartbeat.phase = DriverPhase.RUNNING
        self._released_at = None
        self._heartbeat.started_at = time.time()
        self._in_background(lambda: self._query_group.start(queries))

    def _release(self, state: StreamState) -> None:
        request = state.open_request
        if not self._terminating and request is not None and request.expires < time.time():
            self._control.append_if_still(
                state, Kind.ABORTED, request=request.id, incarnation=self.incarnation, reason="expired"
            )
            return
        self._heartbeat.phase = DriverPhase.RELEASING
        if self._terminating:
            self._in_background(lambda: self._stop_and_release(None, None))
        elif request is not None:
            wanted, to = request.id, request.to
            self._in_background(lambda: self._stop_and_release(wanted, to))

    def _stop_and_release(self, request: str | None, to: str | None) -> None:
        seconds = TERMINATE_SECONDS if request is None else self._policy.boundary_seconds
        self._gate.let_go()
        ends, missed = self._query_group.stop(seconds)
        if missed is not None and request is not None:
            self._abort(request, missed)
            return
        if missed is not None:
            self._query_group.interrupt()
        completed = missed is None and all(end.completed for end in ends.values())
        fields: dict[str, Any] = {
            "incarnation": self.incarnation,
            "boundary": (Boundary.COMPLETED if completed else Boundary.INTERRUPTED).value,
            "ends": {name: {"batch": end.batch, "boundary": end.boundary.value} for name, end in ends.items()},
            "request": request,
            "to": to,
        }
        if to is None:
            self._offsets.flush(self._heartbeat.queries, FLUSH_SECONDS)
        self._running = False
        self._offsets.withdraw()
        self._released_at = time.monotonic()
        self._heartbeat.phase = DriverPhase.STANDBY

        def build(state: StreamState) -> Record | None:
            # When the one to follow was lost meanwhile we still hold, and start again in place.
            wanted = request is None or may_release(state, self.incarnation, request)
            return (
                self._control.record(Kind.RELEASED, **fields) if wanted and state.holder == self.incarnation else None
            )

        self._control.append_patiently(build)

    def _abort(self, request: str, missed: BoundaryMissed) -> None:
        """A boundary was missed: what is stopped restarts in place, same epoch (rule 3)."""
        self._query_group.restart_stopped()
        self._query_group.start([query for query in self._gate.hold(self._query_group.start_one) if query.real is None])
        self._heartbeat.phase = DriverPhase.RUNNING
        self._control.append_patiently(
            lambda state: (
                self._control.record(Kind.ABORTED, request=request, incarnation=self.incarnation, reason=missed.message)
                if state.open_request is not None and state.open_request.id == request
                else None
            )
        )

    def _exit(self, state: StreamState) -> None:
        deployment = state.deployments.get(self._deployment)
        if deployment is not None and deployment.ended == "finished":
            return  # the script ends by itself
        self._heartbeat.phase = DriverPhase.ENDED
        with contextlib.suppress(ControlUnavailable):
            self._control.renew(lambda state: self._heartbeat.next(state, running=False))
        self._driver.exit()

    def _halt(self, state: StreamState) -> None:
        log.error("This driver may not run the stream any more (record %s): halting.", state.seq)
        self._driver.halt()

    # -- rehearsing and failing ------------------------------------------------------------------------------------

    def _rehearse(self, state: StreamState) -> None:
        self._heartbeat.phase = DriverPhase.REHEARSING
        former = state.incarnations.get(state.last_holder or "")
        rehearsal = Rehearsal(self._gate, self._policy, self.incarnation, self._heartbeat.say)
        try:
            for query in self._gate.queries:
                self._driver.check_checkpoint(query.checkpoint, live=state.holder is not None)
            self._rehearsal = self._heartbeat.rehearsal = rehearsal.run(former.queries if former else ())
        except StreamError as error:
            self._fail(str(error), error)

    def _fail(self, reason: str, error: BaseException) -> None:
        """Stop everything, write `failed`, leave with code 50."""
        log.error("%s: %s", reason, error)
        boundary = Boundary.COMPLETED
        if self._running:
            ends, missed = self._query_group.stop(TERMINATE_SECONDS)
            if missed is not None:
                self._query_group.interrupt()
            self._running = False
            if missed is not None or any(end.running_tasks for end in ends.values()):
                boundary = (
                    Boundary.INTERRUPTED
                )  # something of a batch may still write: to be fenced before anyone acquires
        fields = {
            "boundary": boundary.value,
            "deployment": self._deployment,
            "incarnation": self.incarnation,
            "reason": reason,
            "error": f"{type(error).__name__}: {spark_says(error)}",
        }

        def build(state: StreamState) -> Record | None:
            deployment = state.deployments.get(self._deployment)
            if deployment is None or deployment.ended:
                return None
            found = state.incarnations.get(self.incarnation)
            return None if found and found.state.terminal else self._control.record(Kind.FAILED, **fields)

        self._control.append_patiently(build)
        self._driver.halt()
