"""The acts of a driver, one per decision: announce, answer, acquire, start, release, exit, halt, and failing.

Like `agent.py` it knows neither Spark nor threads: `surroundings.py` says what it needs.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_stream_provider.checkpoint import Seen, may_land
from airflow_stream_provider.lifecycle.due_rewind import DueRewind, due_rewind
from airflow_stream_provider.lifecycle.errors import (
    ControlLogReplaced,
    ControlUnavailable,
    RehearsalRefused,
    StreamError,
)
from airflow_stream_provider.lifecycle.heartbeat import DriverPhase
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.record import Boundary, Kind, Record
from airflow_stream_provider.lifecycle.rules import may_acquire, may_release
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.lifecycle.texts import redact
from airflow_stream_provider.runtime.background import Background
from airflow_stream_provider.runtime.control_client import ControlClient
from airflow_stream_provider.runtime.heartbeat_writer import HeartbeatWriter
from airflow_stream_provider.runtime.offsets_group import OffsetsGroup
from airflow_stream_provider.runtime.ports import BoundaryMissed
from airflow_stream_provider.runtime.spark_error import WHOLE_KEPT, failure_of, message_of
from airflow_stream_provider.runtime.surroundings import (
    Freshness,
    Ports,
    all_ended,
    completed,
    cut_off,
    described,
    new_doubts,
)

# Failed and ended queries are looked for this often.
TEND_SECONDS = 1.0
# How long queries may take to stop after SIGTERM (spark.worker.driverTerminateTimeout is 10 s by default).
TERMINATE_SECONDS = 8.0
# How long a SparkContext may be stopped before its driver ends as failed. A script that fails often stops its own at
# last, and the script's error says more.
UNABLE_SECONDS = 5.0

log = logging.getLogger(__name__)


class Acts:
    """The acts of one incarnation, and what it knows of itself; every act on the stream is a record in the log.

    Acts that take long (rehearsing, starting, stopping) run in the `background`, one at a time.

    `running`: the queries are started, or starting. `rehearsal`: the summary of a successful rehearsal, None before.
    `released_at`: monotonic time of the last release; None once its request is over.
    """

    def __init__(
        self,
        control: ControlClient,
        policy: Policy,
        ports: Ports,
        offsets: OffsetsGroup,
        heartbeat: HeartbeatWriter,
    ) -> None:
        self.running = False
        self.terminating = False
        self.rehearsal: Mapping[str, Any] | None = None
        self.released_at: float | None = None
        self.background = Background(ports.spawn, self.fail, ports.process.halt)
        self._control = control
        self._policy = policy
        self._queries = ports.queries
        self._process = ports.process
        self._run_rehearsal = ports.rehearse
        self._to_come = ports.to_come
        self._freshness = Freshness(ports.stale, ports.compare, ports.clock)
        self._offsets = offsets
        self._heartbeat = heartbeat
        self._clock = ports.clock
        self._incarnation = control.incarnation
        # The rewind that this driver has seen done, and in which epoch: it may start again in place.
        self._went_back: tuple[str, int] | None = None
        self._last_tend = 0.0
        self._unable_since: float | None = None

    # -- one act per member of Action ------------------------------------------------------------------------------

    def wait(self, state: StreamState) -> None:
        """Nothing is asked of this driver: rehearse when the script is ready, restart queries that failed."""
        if self._incarnation not in state.incarnations and self.rehearsal is None:
            if self._queries.ready and not self._waits_for_more(state):
                self.background.begin(lambda: self._rehearse(state), rehearses=True)
        elif self._clock.monotonic() - self._last_tend >= TEND_SECONDS:
            self._last_tend = self._clock.monotonic()
            if self._unable():
                return
            if self.running:
                self._tend()
            elif self._heartbeat.started_at is not None:  # before, its script sees queries that have not begun
                self._queries.follow(self._control.progress_of_holder(state))

    def _waits_for_more(self, state: StreamState) -> bool:
        """Whether the script may start a query yet that the running release's script has started late, too.

        Nothing is waited for without a holder: the stream is to run again soon.
        """
        waits = self._to_come(self._control.former_queries(state)) if state.holder else ""
        self._heartbeat.say(waits)
        return bool(waits)

    def _tend(self) -> None:
        due, lost = self._queries.tend()
        if lost is not None:
            self.end_as_failed(*lost)
        elif due:
            self.background.begin(lambda: self._queries.restart(due))

    def _unable(self) -> bool:
        """Whether the queries cannot run in this driver; when that lasts, it ends as failed, holder or standby."""
        found = self._queries.unable()
        if found is None:
            self._unable_since = None
            return False
        now = self._clock.monotonic()
        if self._unable_since is None:
            self._unable_since = now
        elif now - self._unable_since >= UNABLE_SECONDS:
            self.end_as_failed(f"The query {found[0].label} cannot run in this driver any more", found[1])
        return True

    def announce(self, state: StreamState) -> None:
        """Append `standby`, with the queries and the rehearsal, unless that is done already."""
        own = {"deployment": self._control.deployment, "incarnation": self._incarnation}
        said = {"queries": self._queries.describe(), "environment": self._queries.environment()}
        record = self._control.record(Kind.STANDBY, **own, **said, rehearsal=self.rehearsal)
        self._control.append(lambda now: None if self._incarnation in now.incarnations else record)
        self._heartbeat.phase = DriverPhase.STANDBY

    def answer(self, state: StreamState) -> None:
        """Append `ready` for the open request, unless anything was appended since `state`."""
        request = state.open_request
        if request is None or self._process.waits_for or self._policy.only_looks:
            return  # asked again at the next turn, until the request expires
        if self._unable() or not self._still_fits(state):
            return
        # A driver that has held is rolled back to at once; one that adopts follows a job that has ended already.
        at_once = self._heartbeat.started_at is not None or self._policy.adopts
        if not at_once and not self._freshness.lasts(state.holder):
            self.background.begin(lambda: self._look_again(state), rehearses=True)
            return
        self._control.append_if_still(state, Kind.READY, request=request.id, incarnation=self._incarnation)

    def _look_again(self, state: StreamState) -> None:
        """Rehearse again if what was rehearsed may be true no more, as after a long wait for an approval."""
        if why := self._freshness.why_again(state.holder):  # first: it names the file that is missing
            log.warning("Rehearsing again before the hand-over: %s", why)
            self._rehearse(state, again=why)
            self._heartbeat.phase = DriverPhase.STANDBY
        else:
            self._check_seen()

    def _check_seen(self) -> None:
        self._queries.check_seen(self._control.seen())

    def _still_fits(self, state: StreamState) -> bool:
        """Whether this driver may follow the last holder, which may be another one than it has rehearsed against.

        One that has held itself is rolled back to: what the present holder does otherwise is then given up on purpose.
        """
        try:
            if self._heartbeat.started_at is None:
                self._freshness.check_fits(state.last_holder, lambda: self._control.former_queries(state))
        except RehearsalRefused as error:
            self.end_as_failed(str(error), error)
            return False
        return True

    def acquire(self, state: StreamState) -> None:
        """Append `acquired` with the next epoch, if this driver still may and can, and start."""
        if self._unable():
            return

        def build(now: StreamState) -> Record | None:
            request = now.open_request
            if request is None or not may_acquire(now, self._incarnation):
                return None
            return self._control.record(
                Kind.ACQUIRED, incarnation=self._incarnation, request=request.id, epoch=now.epoch + 1
            )

        after = self._control.append(build)
        if after.holder == self._incarnation:
            self.start(after)

    def start(self, state: StreamState) -> None:
        """Start all queries in the background; this driver holds the stream."""
        due = due_rewind(state, self._incarnation)
        gone_back = due is not None and (due.mark, state.epoch) == self._went_back
        queries = self._queries.hold()
        self.running = True
        self._heartbeat.phase = DriverPhase.RUNNING
        self.released_at = None
        self._heartbeat.started_at = self._clock.time()
        if not gone_back:
            self._heartbeat.rewind, self._heartbeat.rewind_undone = "", False

        def begin() -> None:
            seen = self._control.seen()
            if due is not None and not gone_back:
                self._go_back(queries, due, seen)
                self._went_back = None if self._heartbeat.rewind_undone else (due.mark, state.epoch)
            self._queries.start(queries, seen)

        self.background.begin(begin)

    def _go_back(self, queries: Sequence[Any], due: DueRewind, seen: Mapping[str, Seen]) -> None:
        """Let queries read again what a person asked for; tell people where it was owed and cannot be done any more.

        It fails for that only where its own deployment was asked, as no driver would ever start again otherwise; and
        where the storage may yet do what it has not answered: behind queries that have started, unexpected records
        would be read again.
        """
        try:
            # Never empty: a request for another one waits for the outcome of this.
            said = self._queries.rewind(queries, due, seen)
            self._heartbeat.rewind = said or "No query had to go back any more."
        except ControlLogReplaced:
            raise
        except Exception as error:
            if not due.owed or may_land(error):
                raise
            log.exception("What %s was to read again is left undone", due.mark)
            self._heartbeat.rewind, self._heartbeat.rewind_undone = due.left_undone(message_of(error)), True

    def release(self, state: StreamState) -> None:
        """Stop all queries in the background and append `released`; abort a request that has expired instead."""
        request = state.open_request
        if not self.terminating and request is not None and request.expires < self._clock.time():
            self._control.append_if_still(
                state, Kind.ABORTED, request=request.id, incarnation=self._incarnation, reason="expired"
            )
            return
        self._heartbeat.phase = DriverPhase.RELEASING
        if self.terminating:
            self.background.begin(lambda: self._stop_and_release(None, None))
        elif request is not None:
            wanted, to = request.id, request.to
            self.background.begin(lambda: self._stop_and_release(wanted, to))

    def _stop_and_release(self, request: str | None, to: str | None) -> None:
        self._queries.let_go()
        ends, missed = self._queries.stop(TERMINATE_SECONDS if request is None else self._policy.boundary_seconds)
        # A query whose engine has no boundary runs on for ever if a stop waits for one.
        cut = request is None or (to is None and missed is not None and missed.fields.get("never", False))
        if missed is not None and request is not None and not cut:
            self._abort(request, missed)
            return
        boundary, ended = all_ended(self._queries, ends, missed)
        fields: dict[str, Any] = {
            "incarnation": self._incarnation,
            "boundary": boundary.value,
            "ends": described(ended),
            "request": request,
            "to": to,
            "committed": self._has_committed(),
        }
        if to is None:
            self._offsets.flush(self._queries.progress)
        self.running = False
        self._offsets.withdraw()
        self._heartbeat.phase = DriverPhase.STANDBY

        def build(state: StreamState) -> Record | None:
            # When the driver that was to follow is lost meanwhile, this one still holds and starts again in place.
            wanted = request is None or may_release(state, self._incarnation, request)
            held = state.holder == self._incarnation
            return self._control.record(Kind.RELEASED, **fields) if wanted and held else None

        self._control.append_patiently(build)
        # Not before: the log may have been away for longer than the new holder has to take over.
        self.released_at = self._clock.monotonic()

    def _abort(self, request: str, missed: BoundaryMissed) -> None:
        """A boundary was missed: what is stopped restarts in place, in the same epoch (rule 3)."""
        self._queries.restart_in_place()
        self._heartbeat.phase = DriverPhase.RUNNING
        fields = {"request": request, "incarnation": self._incarnation, "reason": missed.message}

        def build(state: StreamState) -> Record | None:
            is_open = state.open_request is not None and state.open_request.id == request
            return self._control.record(Kind.ABORTED, **fields) if is_open else None

        self._control.append_patiently(build)

    def exit(self, state: StreamState) -> None:
        """Send a last heartbeat and end the process with code 0."""
        self._heartbeat.phase = DriverPhase.ENDED
        with contextlib.suppress(ControlUnavailable):
            self._control.renew(lambda state: self._heartbeat.next(state, running=False))
        self._process.exit()

    def halt(self, state: StreamState) -> None:
        """End the process with code 50, without another record: another driver may hold the stream."""
        log.error("This driver may not run the stream any more (record %s): halting.", state.seq)
        self._process.halt()

    # -- rehearsing and failing ------------------------------------------------------------------------------------

    def _rehearse(self, state: StreamState, again: str = "") -> None:
        self._heartbeat.phase = DriverPhase.REHEARSING
        try:
            rewind = state.deployments[self._control.deployment].rewind
            # Once it has held, that is over, or is done as far as it still can be (`_go_back`).
            if rewind is not None and not state.has_held(self._control.deployment):
                self._queries.check_rewind(rewind)
            former = self._control.patiently(lambda: self._control.former_queries(state))
            plans_only = not state.holder and (bool(again) or self._control.ran_last(state, self._process.facts))
            how = {"plans_only": plans_only, "check": self._check_seen, "say": self._heartbeat.say}
            rehearsal = self._run_rehearsal(former, **how)
            self._check_seen()
        except StreamError as error:
            self.fail(str(error), error)
        else:
            doubts = new_doubts(self.rehearsal or {}, rehearsal) if again else []
            if doubts and self._control.state.holder is not None:
                # No person can be asked any more: it tries again until the request expires, and stays a standby.
                self._heartbeat.say(" ".join(doubts))
                return
            rehearsal = completed(rehearsal, again, self._control.own_last(state))
            self._freshness.rehearsed(state.last_holder, plans_only)
            self._queries.environment()  # it may hang, and is known at the next turn
            self.rehearsal = self._heartbeat.rehearsal = rehearsal

    def finish(self) -> None:
        """Append `finished`: all queries ended by themselves and the script is over.

        Not once SIGTERM has come, which may be what ended them: the watch would leave the stream alone for ever.
        """
        if not self.terminating:
            self._offsets.flush(self._queries.progress)
        ends = described(self._queries.ended())
        fields = {"incarnation": self._incarnation, "ends": ends, "committed": self._has_committed()}
        record = self._control.record(Kind.FINISHED, **fields)

        def build(state: StreamState) -> Record | None:
            return record if state.holder == self._incarnation and not self.terminating else None

        self._control.append_patiently(build)

    def end_as_failed(self, reason: str, error: BaseException) -> None:
        """`fail` in the background: the agent goes on renewing the lease, however long stop and log take."""
        self.background.begin(lambda: self.fail(reason, error))

    def fail(self, reason: str, error: BaseException) -> None:
        """Stop everything, append `failed`, halt the process with code 50."""
        log.error("%s: %s", redact(reason), message_of(error))
        boundary, ends = cut_off(self._queries, TERMINATE_SECONDS) if self.running else (Boundary.COMPLETED, {})
        if may_land(error):
            boundary = Boundary.INTERRUPTED
        self.running = False
        # Once it has let go, another driver may commit; then `released` has what it had committed.
        holds = self._control.state.holder == self._incarnation
        fields: dict[str, Any] = {
            "boundary": boundary.value,
            "deployment": self._control.deployment,
            "incarnation": self._incarnation,
            "reason": reason,
            "error": f"{type(error).__name__}: {failure_of(error, WHOLE_KEPT)}",
        }
        if ends:
            # A warm driver may follow at once, before its machine sees the last commits.
            fields["ends"] = described(ends)
        if holds or self._heartbeat.started_at is not None:
            fields["committed"] = self._has_committed() if holds else self._heartbeat.committed

        def build(state: StreamState) -> Record | None:
            deployment = state.deployments.get(self._control.deployment)
            if deployment is None or deployment.ended:
                return None
            if state.holder == self._incarnation:
                # It has acquired, and knew that not yet above: the answer to that append was late.
                fields.setdefault("committed", self._has_committed())
            found = state.incarnations.get(self._incarnation)
            return None if found and found.state.terminal else self._control.record(Kind.FAILED, **fields)

        self._control.append_patiently(build)
        self._process.halt()

    def _has_committed(self) -> bool:
        return self._queries.has_committed() or self._heartbeat.committed
