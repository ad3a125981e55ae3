"""This driver's hand in the control log: every thread of the driver reads and writes through it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from airflow_stream_provider.control.log import ControlLog, make_record
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.lifecycle.state import Request, RequestStage, StreamState

Build = Callable[[StreamState], "Record | None"]

log = logging.getLogger(__name__)


class ControlClient:
    """The control log as one incarnation sees it, safe to use from several threads."""

    def __init__(self, control: ControlLog, incarnation: str) -> None:
        self.incarnation = incarnation
        self.deployment = incarnation.rpartition(".")[0]
        self._log = control
        self._lock = threading.RLock()
        self._peer: tuple[str, int] | None = None

    @property
    def state(self) -> StreamState:
        """The state as last read."""
        return self._log.state

    def renew(self, compose: Callable[[StreamState], Heartbeat]) -> StreamState:
        """Read what is new, then beat with what `compose` makes of it: together they renew the lease."""
        with self._lock:
            state = self._log.refresh()
            self._log.beat(self.incarnation, compose(state))
            return state

    def append(self, build: Build) -> StreamState:
        """Append what `build` makes of the newest state; see `ControlLog.propose`."""
        with self._lock:
            return self._log.propose(build)

    def append_if_still(self, state: StreamState, kind: str, **fields: Any) -> None:
        """Append only if nothing was written since `state`; otherwise the next turn decides again."""
        record = self.record(kind, **fields)
        self.append(lambda now: record if now.seq == state.seq else None)

    def append_patiently(self, build: Build) -> None:
        """Append however long the log is out of reach: for what is true already and puts nothing at risk."""
        while True:
            try:
                self.append(build)
                return
            except ControlUnavailable as error:
                log.warning("%s Trying on.", error)
                time.sleep(0.2)

    def record(self, kind: str, **fields: Any) -> Record:
        """Return a record by this driver, dated now."""
        return make_record(kind, f"driver:{self.incarnation}", **fields)

    def peer_moved(self, request: Request | None) -> bool:
        """Whether the appointed standby's heartbeat moved after its `ready` (rule 3); ask again on every turn."""
        if request is None or request.stage is not RequestStage.READY:
            self._peer = None
            return False
        count = (self._log.heartbeat(str(request.to)) or Heartbeat()).counter
        if self._peer is None or self._peer[0] != request.id:
            self._peer = (request.id, count)
        return count > self._peer[1]
