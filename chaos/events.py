"""Follow the protocol as it happens: the control log, the heartbeats, and since when the stream is in its state."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_stream_provider.control import ControlLog
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.ids import deployment_of
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import StreamState
from chaos.plan import Trigger
from chaos.states import driver_beside, state_of

DRIVER = "driver:"
# Between two looks at the heartbeats; the log is looked at each time.
BEATS_SECONDS = 0.1


@dataclass
class Events:
    """What the stream does, seen through a path that no fault reaches. For one thread.

    :param log: a control log of its own.
    """

    log: ControlLog
    state: StreamState = field(default_factory=StreamState)
    beats: Mapping[str, Heartbeat] = field(default_factory=dict)
    name: str = ""
    since: float = 0.0
    _looked: float = 0.0
    _began: int = 0
    _holder: str = ""
    _known: frozenset[str] = frozenset()
    _appends: list[str] = field(default_factory=list)

    def look(self) -> list[Record]:
        """Read what is new, and return the new records."""
        before = self.state.seq
        try:
            self.state = self.log.refresh()
            records = self.log.records(before + 1) if self.state.seq > before else []
            now = time.monotonic()
            if records or now - self._looked > BEATS_SECONDS:
                self._looked = now
                self.beats = self._living()
        except StreamError:
            return []  # a heartbeat or a record is just being replaced
        self._appends += [record.by.removeprefix(DRIVER) for record in records if record.by.startswith(DRIVER)]
        name = state_of(self.state, self.beats)
        if name != self.name:
            self.name, self.since = name, time.monotonic()
        return records

    def begin(self) -> None:
        """Begin a scenario: appends count from here."""
        self.look()
        self._appends = []
        self._holder = self.state.holder or ""
        self._known = frozenset(self.state.deployments)

    def happened(self, trigger: Trigger) -> bool:
        """Whether the event of a trigger is there now."""
        if trigger.author:
            return self._count(trigger.author) >= trigger.append
        return self.name == trigger.state and time.monotonic() - self.since >= trigger.after

    def incarnation(self, target: str) -> str:
        """Return the incarnation of the holder or standby; empty: there is none, or it has no name yet."""
        if target.startswith("holder"):
            request = self.state.open_request
            return self.state.holder or (request.source if request else "") or ""
        beside = driver_beside(self.state)
        names = [name for name in self.beats if beside is not None and deployment_of(name) == beside.id]
        return max(names, key=lambda name: self.beats[name].at, default="")

    def deployment(self, target: str) -> str:
        """Return the deployment of the holder or standby, which may have no name yet; empty: there is none."""
        if target.startswith("holder"):
            return deployment_of(self.incarnation(target))
        beside = driver_beside(self.state)
        return beside.id if beside else ""

    def _count(self, author: str) -> int:
        if author == "holder":
            return self._appends.count(self._holder)
        return sum(deployment_of(name) not in self._known for name in self._appends)

    def _living(self) -> dict[str, Heartbeat]:
        """The heartbeats of drivers that may live; those of the dead stay in the folder."""
        ended = {i.id for i in self.state.incarnations.values() if i.state.terminal}
        ended_deployments = {d.id for d in self.state.deployments.values() if d.ended}
        names = (n for n in self.log.store.heartbeats() if n not in ended and deployment_of(n) not in ended_deployments)
        found = ((name, self.log.heartbeat(name)) for name in names)
        return {name: beat for name, beat in found if beat is not None}
