"""The course of events: a copy of a stream on which the step loop runs forward, with drivers that decide by `decide`.

Each wait ends well, as far as that is not known otherwise: drivers come up, rehearse and exit, a job ends. A
driver that has been silent for longer than `silence_limit` stays silent, and one that hangs does not stop. Pure.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, NamedTuple

from airflow_stream_provider.clusters import DriverState, Remains
from airflow_stream_provider.lifecycle.driver_decision import Action, DriverView, decide
from airflow_stream_provider.lifecycle.fold import follow
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Boundary, Kind, Record
from airflow_stream_provider.planning.choice import coming_up
from airflow_stream_provider.planning.snapshot import DriverFacts, Snapshot
from airflow_stream_provider.planning.step_loop import Verb, carry_out_try
from airflow_stream_provider.planning.steps import Declare, Done, GiveUp, Refusal, Skip, TaskIdentity, Wait
from airflow_stream_provider.planning.stream_health import HeartbeatAges, silence_limit
from airflow_stream_provider.planning.waits import Condition, Ended, Needs, Observations, WaitOutcome

ME = TaskIdentity("forecast", "now", "forecast")
_SILENT = logging.Logger("forecast", logging.CRITICAL + 1)
# A wait is looked at so often, and a task waits so often, before it is said that its end is not known.
_MOST = 200
# Seconds between two looks: while the drivers act, and else.
_SOON, _LATER = 1.0, 10.0
# Seconds without a record after which a driver is up that was submitted.
_COMES_UP = 100.0


class Event(NamedTuple):
    """One thing that happens.

    :param what: a record, a wait, or the end of a job (its id).
    :param seen: the stream before that; for a wait, when it was over.
    """

    what: Record | Condition | str
    seen: Snapshot


class Course:
    """The copy, and what happens on it, in order.

    :param first: how the stream is now.
    :param hangs: whether its holder does not stop.
    """

    def __init__(self, first: Snapshot, *, hangs: bool = False) -> None:
        self.first = self._now = first
        self.events: list[Event] = []
        state = first.state
        self._deaf = {state.holder} if hangs else set()
        self._running = {state.holder} - {None}
        self.silent = {i.id for i in state.incarnations.values() if not i.state.terminal and _silent(first, i.id)}
        self._gone = {d.id for d in state.deployments.values() if d.ended or self._all_ended(d.id)}

    @property
    def snapshot(self) -> Snapshot:
        """How the stream is by now."""
        return self._now

    @property
    def records(self) -> list[Record]:
        """The records that are written, in order."""
        return [event.what for event in self.events if isinstance(event.what, Record)]

    @property
    def changes(self) -> bool:
        """Whether anything is written beside notes of what is there already."""
        return any(record.kind not in (Kind.STANDBY, Kind.SUBMITTED) for record in self.records)

    def follow(self, task: Verb, me: TaskIdentity) -> Done | Skip | GiveUp | None:
        """Carry the task out, and return how it ends; None: that is not known."""
        outcome: WaitOutcome | None = None
        for _ in range(_MOST):
            step = carry_out_try(task, self, me, outcome, _SILENT).step
            if not isinstance(step, Wait):
                assert isinstance(step, (Done, Skip, GiveUp)), "a task ends by no other"
                return step
            outcome = self._wait(step.condition)
            if outcome.ended is Ended.TIMEOUT:
                break
        return None

    # -- the stream, as the step loop reaches it -----------------------------------------------------------------------

    def observe(self, needs: Needs = Needs()) -> Snapshot:  # noqa: B008 - frozen
        """Look once."""
        facts = {name: self._facts(name) for name in needs.drivers if self._now.submission(name)}
        return replace(self._now, drivers=facts, job=self._now.job if needs.job else None)

    def append(self, kind: str, by: str, seq: int, **fields: Any) -> bool:
        """Append a record."""
        record = Record(kind, fields, by=by, at=self._now.at).numbered(seq + 1)
        state = follow(self._now.state, record)
        self.events.append(Event(record, self._now))
        self._now = replace(self._now, state=state, records=(*self._now.records, record))
        return True

    def declare(self, step: Declare, by: str, seq: int) -> bool:
        """Append `declared`."""
        return self.append(Kind.DECLARED, by, seq, deployment=step.deployment, **step.fields)

    def submit(self, deployment: str, by: str, *, first: bool) -> bool:
        """Append `submitted`."""
        submission = self._now.submission(deployment) or f"driver-{deployment}"
        return self.append(Kind.SUBMITTED, by, self._now.state.seq, deployment=deployment, submission=submission)

    def kill(self, deployment: str) -> None:
        """Kill what the cluster runs of a deployment."""
        self._gone.add(deployment)

    def refuse(self, refusal: Refusal) -> bool:
        """Have the ledger refuse what a driver writes, which a forecast does not count on."""
        return False

    def end_job(self, job: str) -> bool:
        """Have the cluster end a job: it is gone at once."""
        assert self._now.job is not None
        self.events.append(Event(job, self._now))
        self._now = replace(self._now, job=replace(self._now.job, state=DriverState.KILLED, remains=Remains()))
        return True

    # -- what goes on while a task waits -------------------------------------------------------------------------------

    def _wait(self, condition: Condition) -> WaitOutcome:
        seen, last = Observations(ages=HeartbeatAges(lambda: self._now.at)), self._now
        place, acted = len(self.events), True
        self.events.append(Event(condition, self._now))
        for _ in range(_MOST):
            last = self.observe(condition.needs(last, seen))
            outcome = condition.check(last, seen)
            if outcome is not None:
                self.events[place] = Event(condition, self._now)
                return outcome
            acted = self._go_on(_SOON if acted else _LATER)
        return WaitOutcome(Ended.TIMEOUT)

    def _go_on(self, seconds: float) -> bool:
        """Let time go by; then every driver that lives beats, and takes one turn. Return whether one wrote a record.

        Drivers exit once all is quiet. They come up in the order of their declaration, after long: a task that waits
        for anything else goes on before.
        """
        self._now, acted = replace(self._now, at=self._now.at + seconds), False
        for name in self._now.state.incarnations:
            acted = self._turn(name) or acted
        if acted:
            return True
        self._gone |= {d.id for d in self._now.state.deployments.values() if d.ended}
        up = (d.id for d in coming_up(self._now.state) if d.submission and d.id not in self._gone)
        first = next(up, None)
        if first is None or self._now.at < max(self._now.state.at, self.first.at) + _COMES_UP:
            return False
        self._come_up(first)
        return True

    def _come_up(self, deployment: str) -> None:
        last = self._now.state.last_driver
        self._say(
            Kind.STANDBY,
            f"{deployment}.{len(self._now.state.incarnations):08x}",
            deployment=deployment,
            queries=[dict(query) for query in (last.queries if last is not None else ())],
            rehearsal={},
        )

    def _turn(self, name: str) -> bool:
        """Let a driver beat and act; return whether it wrote a record."""
        state, driver = self._now.state, self._now.state.incarnations[name]
        if driver.state.terminal or name in self.silent or driver.deployment in self._gone:
            return False
        beat = self._now.heartbeats.get(name, Heartbeat())
        beats = {**self._now.heartbeats, name: replace(beat, counter=beat.counter + 1, at=self._now.at)}
        self._now = replace(self._now, heartbeats=beats)
        request, view = state.open_request, DriverView(name, True, name in self._running, self._peer_moves())
        action = decide(state, view)
        if action is Action.START:
            self._running.add(name)
        if action is Action.ANSWER and request is not None:
            return self._say(Kind.READY, name, request=request.id)
        if action is Action.RELEASE and request is not None and name not in self._deaf:
            self._running.discard(name)
            ends = {str(query["name"]): {"boundary": Boundary.COMPLETED.value} for query in driver.queries}
            whole = Boundary.COMPLETED.value
            return self._say(Kind.RELEASED, name, request=request.id, to=request.to, boundary=whole, ends=ends)
        if action is Action.ACQUIRE and request is not None:
            return self._say(Kind.ACQUIRED, name, request=request.id, epoch=state.epoch + 1)
        return False

    def _peer_moves(self) -> bool:
        request = self._now.state.open_request
        to = request.to if request is not None else None
        return to is not None and to not in self.silent and deployment_of(to) not in self._gone

    def _say(self, kind: str, name: str, **fields: Any) -> bool:
        return self.append(kind, f"driver:{name}", self._now.state.seq, incarnation=name, **fields)

    def _facts(self, deployment: str) -> DriverFacts:
        gone = deployment in self._gone
        state = DriverState.KILLED if gone else DriverState.RUNNING
        return DriverFacts(self._now.submission(deployment), state, gone)

    def _all_ended(self, deployment: str) -> bool:
        """Whether all drivers that a deployment is known to have had are dead by the log."""
        state = self._now.state
        drivers = state.of_deployment(deployment)
        return bool(drivers) and all(each.state.terminal and each.id not in state.must_fence for each in drivers)


def _silent(snapshot: Snapshot, incarnation: str) -> bool:
    """Whether a driver seems lost, by the clocks of both machines."""
    beat = snapshot.heartbeats.get(incarnation)
    age = snapshot.at - beat.at if beat is not None and beat.at else 0.0
    return age > silence_limit(snapshot.lease([incarnation]))
