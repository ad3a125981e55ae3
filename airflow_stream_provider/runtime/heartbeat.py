"""Composes this driver's heartbeats."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_stream_provider.lifecycle.heartbeat import DriverPhase, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.runtime.describe import progress
from airflow_stream_provider.runtime.driver_process import Driver
from airflow_stream_provider.runtime.gate import Gate
from airflow_stream_provider.runtime.offsets_group import OffsetsGroup

# Spark is asked for the queries' progress this often; between, while both drivers hurry, the last answer is repeated.
PROGRESS_SECONDS = 1.0


class HeartbeatWriter:
    """Composes the heartbeats of one incarnation; `counter` is what observers watch."""

    def __init__(self, gate: Gate, driver: Driver, offsets: OffsetsGroup) -> None:
        self.phase = DriverPhase.STARTING
        self.message = ""
        self.rehearsal: Mapping[str, Any] = {}
        self.started_at: float | None = None
        self._gate = gate
        self._driver = driver
        self._offsets = offsets
        self._counter = 0
        self._queries: tuple[QueryProgress, ...] = ()
        self._asked = 0.0

    def say(self, message: str) -> None:
        """Set what a person should know of what goes on just now."""
        self.message = message

    def queries(self) -> tuple[QueryProgress, ...]:
        """Ask Spark now how far the queries are."""
        return tuple(progress(query) for query in self._gate.queries)

    def next(self, state: StreamState, running: bool) -> Heartbeat:
        """Return the next heartbeat of a driver that has read the log up to `state`."""
        self._counter += 1
        if running and time.monotonic() - self._asked >= PROGRESS_SECONDS:
            self._asked = time.monotonic()
            self._queries = self.queries()
            self._offsets.offer(self._queries)
        return replace(
            self._driver.facts,
            counter=self._counter,
            at=time.time(),
            phase=self.phase.value,
            message=self.message,
            seq=state.seq,
            epoch=state.epoch,
            queries=self._queries,
            offsets_group=self._offsets.status,
            rehearsal=self.rehearsal,
            started_at=self.started_at,
        )
