"""The agent: renews the lease, reads the control log, decides what this driver does next, and lets it be done.

It has no thread of its own and knows neither Spark nor the operating system: `surroundings.py` says what it needs. A
driver runs it in the threads of `AgentThread`, below, the model check in a simulation.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_stream_provider.lifecycle.driver_decision import Action, DriverView, decide
from airflow_stream_provider.lifecycle.errors import ControlLogReplaced, ControlUnavailable, StreamError
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.state import DeploymentEnd, IncarnationState, StreamState
from airflow_stream_provider.runtime.acts import Acts
from airflow_stream_provider.runtime.control_client import ControlClient
from airflow_stream_provider.runtime.heartbeat_writer import HeartbeatWriter
from airflow_stream_provider.runtime.offsets_group import OffsetsGroup
from airflow_stream_provider.runtime.ports import BoundaryMissed, LeaseOver
from airflow_stream_provider.runtime.surroundings import Ports

if TYPE_CHECKING:
    from airflow_stream_provider.runtime.kafka_client import ConsumerGroup

# How often a batch that waits for the end of a pause looks for it.
PAUSED_SECONDS = 0.2

log = logging.getLogger(__name__)


class Agent:
    """The agent of one incarnation.

    `turn` is called again and again by one thread; `guard`, `holds`, `script_failed` and `script_finished` by others.

    :param group: where the holder commits its finished batches; None = nowhere.
    """

    def __init__(
        self,
        control: ControlClient,
        policy: Policy,
        ports: Ports,
        group: ConsumerGroup | None = None,
    ) -> None:
        self.offsets = OffsetsGroup(group, self.holds)
        self._control = control
        self._policy = policy
        self._queries = ports.queries
        self._process = ports.process
        self._clock = ports.clock
        self._heartbeat = HeartbeatWriter(ports.queries, ports.process, self.offsets, ports.clock)
        self._acts = Acts(control, policy, ports, self.offsets, self._heartbeat)
        self._renewed = ports.clock.monotonic()
        self._failure: tuple[str, BaseException] | None = None
        # The heartbeat's message on the last turn, when that went wrong.
        self._trouble = ""
        # The last unexpected error; a driver that holds goes on after it.
        self.unexpected: Exception | None = None

    @property
    def in_hurry(self) -> bool:
        """Whether the next turn should come soon: a request is open, work is under way, or SIGTERM has come."""
        acts = self._acts
        asked = self._control.state.open_request is not None or acts.terminating
        return asked or acts.background.work is not None or self._failure is not None

    # -- called from other threads ---------------------------------------------------------------------------------

    def terminate(self) -> None:
        """SIGTERM has come: from the next turn on, release at the batch boundary without a successor, then exit."""
        self._acts.terminating = True

    def guard(self) -> None:
        """Raise when the lease is lost: called around the user's foreachBatch, so that the batch is not committed.

        While the queries are paused it blocks: no batch begins to write, or is taken for written, before this driver
        knows that it still holds.
        """
        while self._queries.paused:
            self._clock.sleep(PAUSED_SECONDS)
        silent = self._clock.monotonic() - self._renewed
        if self._acts.running and silent > self._policy.lease_seconds:
            raise StreamError(
                f"This driver has not renewed its lease for {silent:.0f} s; another driver may hold the stream.",
                next_step="Nothing: the batch is not committed, and the driver that holds the stream runs it again.",
            )

    def script_failed(self, reason: str, error: BaseException) -> None:
        """The script raised, or cannot be used: the next turn ends the driver as `failed`. Does not return.

        The thread of the turns does it: in another thread, this driver could acquire the stream between the look at
        what runs here and the record that says that it has ended.
        """
        self._failure = self._failure or (reason, error)
        while True:
            self._clock.sleep(1.0)

    def script_finished(self) -> None:
        """All queries ended by themselves and the script is over: append `finished`.

        Once SIGTERM has come it does not return: the next turns release the stream, if this driver holds it, and exit.
        """
        self._acts.finish()
        while self._acts.terminating:
            self._clock.sleep(1.0)

    def holds(self) -> bool:
        """Whether this driver holds the stream, and has read so within its lease."""
        fresh = self._clock.monotonic() - self._renewed < self._policy.lease_seconds
        return self._acts.running and fresh and self._control.state.holder == self._control.incarnation

    # -- one turn --------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Renew the lease, decide and act once; an unexpected error ends a driver as `failed` that runs no queries."""
        try:
            # Paused queries cannot be stopped: they go on first, once the log is back and this driver still holds.
            if self._failure is not None and not self._acts.background.starts_or_stops and not self._queries.paused:
                self._acts.end_as_failed(*self._failure)
            self._renew_and_act()
        except LeaseOver:
            self._process.halt()
        except ControlLogReplaced as error:
            # The state of this driver is wrong now, and the log that is there now knows nothing of this driver.
            log.error("%s This driver halts.", error)
            self._process.halt()
        except Exception as error:  # noqa: BLE001 - noted, and a driver that runs no queries ends with it
            self._unexpected(error)

    def _renew_and_act(self) -> None:
        sent = self._clock.monotonic()
        try:
            state = self._control.renew(lambda state: self._heartbeat.next(state, self._acts.running))
        except ControlLogReplaced:
            raise
        except Exception as error:  # noqa: BLE001 - noted, and the lease is not renewed
            # A log that cannot be understood (a damaged record) is as good as one that cannot be read.
            if not isinstance(error, ControlUnavailable):
                self._note(error)
            self._unreachable(error)
            return
        self._renew(sent)
        try:
            self._act(state)
            # By what the turn has read last: its machine may have slept before an act, and the act was refused then.
            if self._lost(self._control.state):
                self._acts.halt(self._control.state)
        except ControlUnavailable as error:
            self._unreachable(error)
            return
        if self._heartbeat.message == self._trouble:
            self._heartbeat.message = ""
        self._trouble = ""

    def _unexpected(self, error: Exception) -> None:
        """Let running queries run: what cannot be done for them now is tried again in the next turn."""
        self._note(error)
        if not self._acts.running:
            self._failure = self._failure or ("The runtime itself failed", error)

    def _note(self, error: Exception) -> None:
        self._say(f"The runtime cannot go on: {type(error).__name__}: {error}")
        if repr(error) != repr(self.unexpected):
            log.error("The agent failed", exc_info=error)
        self.unexpected = error

    def _renew(self, sent: float) -> None:
        self._renewed = sent
        self._process.postpone(sent)
        if self._queries.paused and self._control.state.holder == self._control.incarnation:
            log.warning("The control log is reachable again and this driver still holds: resuming the queries.")
            self._queries.resume()

    def _say(self, trouble: str) -> None:
        self._heartbeat.message = self._trouble = trouble

    def _unreachable(self, error: Exception) -> None:
        """After half a lease without the control log, pause the queries; paused queries may outlive the lease.

        Not for ever: an observer that has seen this driver still for lease and pause may count on its end.
        """
        state, me = self._control.state, self._control.incarnation
        finished = self._finished(state)
        found = state.incarnations.get(me)
        if self._acts.running and found is not None and found.state.terminal and not finished:
            # The log could be read, but not be told that this driver lives.
            self._acts.halt(state)
            return
        if self._acts.terminating and found is None:
            # The log does not know it, and it has nothing to write: the sender of SIGTERM does not wait for the log.
            self._process.exit()
        self._say(str(error))
        silent = self._clock.monotonic() - self._renewed
        works = self._acts.background.is_busy
        over = silent >= self._policy.lease_seconds + self._policy.pause_seconds
        # A driver that has cut its queries off inside a batch, and cannot write so, still holds for all others; tasks
        # of one that has written so may write on.
        holds = state.may_write(me)
        if (self._acts.running or holds) and over and not finished:
            log.error("The control log has been out of reach for %.0f s: halting.", silent)
            self._process.halt()
        elif self._acts.running and not works:
            if not self._queries.paused and silent > self._policy.lease_seconds / 2:
                log.warning("The control log has been out of reach for %.0f s: pausing the queries. %s", silent, error)
                try:
                    self._queries.pause(max(1.0, self._policy.lease_seconds - silent - 1.0))
                except BoundaryMissed as missed:
                    log.error("%s The lease watchdog will halt this driver.", missed.message)
            if self._queries.paused:
                # The timer, too, ends this driver by then: the next turn may come late, from a call that hangs.
                last = math.inf if finished else self._renewed + self._policy.pause_seconds
                self._process.postpone(min(self._clock.monotonic(), last))
        elif not self._acts.running:
            last = self._renewed + self._policy.pause_seconds if holds else math.inf
            self._process.postpone(min(self._clock.monotonic(), last))

    def _act(self, state: StreamState) -> None:
        acts = self._acts
        if acts.background.is_busy:
            if self._lost(state):
                acts.halt(state)
            if (acts.terminating or self._retired(state)) and not acts.background.starts_or_stops:
                acts.exit(state)  # nothing that a rehearsal does, or waits for, is worth waiting for
            return
        acts.background.work = None
        if self._failure is not None:
            return  # it does nothing more for the stream than to end; the next turn sees to that
        # Read again after the work is seen to be over: it may have written `released` since this turn began.
        state = self._control.state
        if state.open_request is None:
            acts.released_at = None
        action = decide(state, self._view(state), self._policy.take_back_seconds)
        if action is not Action.WAIT:
            log.info("%s after record %s", action.value, state.seq)
        getattr(acts, action.value)(state)

    def _lost(self, state: StreamState) -> bool:
        """Whether its queries run although the log says that it does not hold."""
        return self._acts.running and state.holder != self._control.incarnation and not self._finished(state)

    def _retired(self, state: StreamState) -> bool:
        """Whether its deployment was retired, as by a stop; one that has failed says so itself, and halts."""
        deployment = state.deployments.get(self._control.deployment)
        return deployment is not None and deployment.ended is DeploymentEnd.RETIRED

    def _finished(self, state: StreamState) -> bool:
        """Whether its queries have ended by themselves, so that the process is about to do so, too."""
        found = state.incarnations.get(self._control.incarnation)
        return found is not None and found.state is IncarnationState.FINISHED

    def _view(self, state: StreamState) -> DriverView:
        acts, me = self._acts, self._control.incarnation
        return DriverView(
            incarnation=me,
            rehearsed=acts.rehearsal is not None,
            running=acts.running,
            peer_moved=state.holder == me and self._control.peer_moved(state.open_request),
            released_for=None if acts.released_at is None else self._clock.monotonic() - acts.released_at,
            terminating=acts.terminating,
        )


TICK_SECONDS = 1.0
# While a request is open both drivers read the log this often; it bounds the time from `released` to the new start.
HURRY_SECONDS = 0.05


class AgentThread:
    """One daemon thread takes the agent's turns, another does its background work of the moment."""

    def __init__(self) -> None:
        self._wake = threading.Event()

    def spawn(self, work: Callable[[], None]) -> threading.Thread:
        """Do the work in a daemon thread; the agent takes its next turn as soon as the work is over."""

        def then_wake() -> None:
            try:
                work()
            finally:
                self._wake.set()

        thread = threading.Thread(target=then_wake, name="airflow-stream-work", daemon=True)
        thread.start()
        return thread

    def start(self, agent: Agent) -> None:
        """Take the agent's turns from now on."""
        threading.Thread(target=self._run, args=(agent,), name="airflow-stream-agent", daemon=True).start()

    def terminate(self, agent: Agent) -> None:
        """SIGTERM has come: see `Agent.terminate`. Called by the shutdown hook, before or after `start`."""
        agent.terminate()
        self._wake.set()

    def _run(self, agent: Agent) -> None:
        while True:
            agent.turn()
            self._wake.wait(HURRY_SECONDS if agent.in_hurry else TICK_SECONDS)
            self._wake.clear()
