"""How a driver reads and appends to the control log, from all of its threads."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from airflow_stream_provider.checkpoint import Seen, normal_form, recorded_form
from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.lifecycle.changed_checkpoints import Change, locations
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlUnavailable, SpecError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import HoldEnd, Incarnation, Request, RequestStage, StreamState
from airflow_stream_provider.runtime.ports import Clock

T = TypeVar("T")
Build = Callable[[StreamState], "Record | None"]

# Between two tries while the log is out of reach.
RETRY_SECONDS = 0.2
# So many holders are asked, newest first: one that has died before its first commit knows only what it rehearsed on.
HOLDERS = 5

log = logging.getLogger(__name__)


class ControlClient:
    """The control log as one incarnation uses it, safe to use from several threads.

    :param lock: lets one thread at a time use the log; default: one of its own.
    """

    def __init__(
        self,
        control: ControlLog,
        incarnation: str,
        *,
        clock: Clock = time,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.incarnation = incarnation
        self.deployment = deployment_of(incarnation)
        self._log = control
        self._clock = clock
        self._lock = threading.RLock() if lock is None else lock
        self._peer: tuple[str, int] | None = None

    @property
    def state(self) -> StreamState:
        """The state as last read."""
        return self._log.state

    def renew(self, compose: Callable[[StreamState], Heartbeat]) -> StreamState:
        """Renew the lease: read the new records, then send the heartbeat that `compose` makes of the state.

        :raises ControlUnavailable: the log cannot be read, or the heartbeat not be written; the lease is not renewed.
            When the log is damaged, a heartbeat is sent all the same, so that people see why this driver waits.
        """
        with self._lock:
            try:
                state = self._log.refresh()
            except ControlLogDamaged:
                self._log.beat(self.incarnation, compose(self._log.state))
                raise
            self._log.beat(self.incarnation, compose(state))
            return state

    def append(self, build: Build) -> StreamState:
        """Append the record that `build` makes of the newest state; see `ControlLog.propose`."""
        with self._lock:
            return self._log.propose(build)

    def append_if_still(self, state: StreamState, kind: str, **fields: Any) -> None:
        """Append only if nothing was appended since `state`; otherwise the next turn decides again."""
        record = self.record(kind, **fields)
        self.append(lambda now: record if now.seq == state.seq else None)

    def append_patiently(self, build: Build) -> None:
        """Append, trying again for as long as the log is out of reach: for what has happened already."""
        self.patiently(lambda: self.append(build))

    def patiently(self, act: Callable[[], T]) -> T:
        """Use the log, again and again while it is out of reach; never in the thread that renews the lease."""
        while True:
            try:
                return act()
            except ControlUnavailable as error:
                log.warning("%s Trying again.", error)
                self._clock.sleep(RETRY_SECONDS)

    def record(self, kind: str, **fields: Any) -> Record:
        """Return a record by this driver, dated now."""
        return Record(kind=kind, fields=fields, by=f"driver:{self.incarnation}", at=self._clock.time())

    def former_queries(self, state: StreamState) -> list[Mapping[str, Any]]:
        """Return the queries of the driver that holds or held last.

        Its `standby` record describes those that its script had started by then. Only the heartbeat has those that the
        script started later, and no more than `name`, `checkpoint` and `sink`. Where this driver has the same release,
        each of them says so (`same_script`), and then whether a person has stopped the stream since (`stopped`).

        :raises ControlUnavailable: the heartbeat cannot be read now.
        """
        former = state.last_driver
        if former is None:
            return []
        with self._lock:
            heartbeat = self._log.heartbeat(former.id) or Heartbeat()
        described = {recorded_form(str(query.get("checkpoint", ""))) for query in former.queries}
        late = [query for query in heartbeat.queries if recorded_form(query.checkpoint) not in {"", *described}]
        names = [{"name": query.name, "checkpoint": query.checkpoint, "sink": query.sink} for query in late]
        mine, its = (state.deployments.get(name) for name in (self.deployment, former.deployment))
        if mine is None or its is None or mine.release.hash != its.release.hash:
            return [*former.queries, *names]
        says = {"same_script": True, **({"stopped": True} if state.last_end is HoldEnd.STOPPED else {})}
        return [{**query, **says} for query in (*former.queries, *names)]

    def own_last(self, state: StreamState) -> Incarnation | None:
        """Return the driver that holds or held last, where it is of the release of this one."""
        last, own = state.last_deployment, state.deployments[self.deployment]
        return state.last_driver if last is not None and own.family and last.family == own.family else None

    def ran_last(self, state: StreamState, facts: Heartbeat) -> bool:
        """Return whether the release of this driver holds or held last, on the Spark of these facts of this driver."""
        last = self.own_last(state)
        return last is not None and self.patiently(lambda: self._spark_version(last.id)) == facts.spark_version

    def _spark_version(self, driver: str) -> str:
        with self._lock:
            heartbeat = self._log.heartbeat(driver)
        return "" if heartbeat is None else heartbeat.spark_version

    def progress_of_holder(self, state: StreamState) -> Sequence[QueryProgress]:
        """Return how far the queries are in another driver, which holds; nothing where that is not known.

        :raises ControlUnavailable: its heartbeat cannot be read now.
        """
        if state.holder is None or state.holder == self.incarnation:
            return ()
        with self._lock:
            heartbeat = self._log.heartbeat(state.holder)
        # One from before it held is of an earlier hold of that driver.
        return () if heartbeat is None or heartbeat.epoch != state.epoch else heartbeat.queries

    def seen(self) -> Mapping[str, Seen]:
        """Return by checkpoint what the stream has seen of it, trying again while the log is out of reach."""

        def ask() -> Mapping[str, Seen]:
            with self._lock:
                return seen_before(self._log.state, self.incarnation, self._log.heartbeat)

        return self.patiently(ask)

    def peer_moved(self, request: Request | None) -> bool:
        """Whether the appointed standby's heartbeat moved since this driver first saw its `ready` (rule 3).

        Call it on every turn: the first call for a request only notes the heartbeat's counter.
        """
        if request is None or request.stage is not RequestStage.READY:
            self._peer = None
            return False
        count = (self._log.heartbeat(str(request.to)) or Heartbeat()).counter
        if self._peer is None or self._peer[0] != request.id:
            self._peer = (request.id, count)
        return count > self._peer[1]


def seen_before(state: StreamState, incarnation: str, heartbeat: Callable[[str], Heartbeat | None]) -> dict[str, Seen]:
    """Return by checkpoint, in its recorded form, what a driver can know that the stream has seen of it.

    Batches seen before a person named a checkpoint as changed do not count, but for drivers that ran the stream since
    then.

    :param incarnation: the driver that asks.
    :param heartbeat: returns that of an incarnation; None: there is none.
    :raises ControlUnavailable: a heartbeat cannot be read now.
    """
    changed = _changed(state, deployment_of(incarnation))
    found: dict[str, Seen] = {}
    told: set[str] = set()
    request = next(reversed(list(state.requests.values())), None)
    if request is not None and incarnation in (request.to, request.source):
        # A driver that hands over has just seen it.
        found.update(_in_record(request.ends.values()))
        told.update(place for place, seen in found.items() if seen.batch is not None)
    held = state.held[:HOLDERS]
    # The last holder, and the present one.
    ended, holds = [driver.id for driver in (held if state.holder is None else held[1:])[:1]], state.holder
    me = state.incarnations.get(incarnation)
    mine = {place for place, _ in _in_record(() if me is None else me.queries)}
    for driver in {driver.id: driver for driver in ([] if me is None else [me]) + held}.values():
        since, said = driver.announced, list(_in_record(driver.queries))
        if not mine or not mine <= told:
            beat = heartbeat(driver.id) or Heartbeat()
            said += [(recorded_form(q.checkpoint), Seen(q.id, q.batch)) for q in beat.queries if q.checkpoint]
            if driver.id in ended:
                said += _in_record(state.ends.values())
            if driver.id != incarnation and driver.id in (holds, *ended):
                since = max(since, beat.seq)  # a copy is not put back under a driver that holds
        for place, seen in said:
            if since >= changed.get(place, 0):
                found[place] = seen.and_then(found.get(place, Seen()))  # one asked before has seen it later
    return {place: seen for place, seen in found.items() if seen != Seen()}


def _changed(state: StreamState, mine: str) -> dict[str, float]:
    """Return the checkpoints that were named as changed, and since which record the newest of these deployments is up.

    :param mine: the deployment of the driver that asks; of others only those count that have held.
    """
    found: dict[str, float] = {}
    for each in state.deployments.values():
        # One that is run again was named as changed when it was run first.
        if each.declared.get("again") or (each.previous is None and each.id != mine):
            continue
        up = (driver.announced for driver in state.of_deployment(each.id))
        since = min(up, default=math.inf if each.id == mine else each.declared.seq)
        try:
            named = locations(each.policy.changed_checkpoints, Change.CHECKPOINT)
        except SpecError:
            continue  # what somebody else wrote names none
        for name in named:  # a person writes a path as the script has it
            for place in (normal_form(name), recorded_form(name)):
                found[place] = max(since, found.get(place, 0))
    return found


def _in_record(said: Any) -> Iterator[tuple[str, Seen]]:
    """Yield what ends, or the queries of a `standby` record, say of checkpoints; others may have written anything."""
    for each in said:
        place = each.get("checkpoint") if isinstance(each, Mapping) else None
        if isinstance(place, str) and place:
            batch, identity = each.get("batch"), each.get("id")
            seen = Seen(identity if isinstance(identity, str) else "", batch if isinstance(batch, int) else None)
            yield recorded_form(place), seen
