"""Composes this driver's heartbeats."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_stream_provider.lifecycle.heartbeat import DriverPhase, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.runtime.commit_history import CommitHistory
from airflow_stream_provider.runtime.offsets_group import OffsetsGroup
from airflow_stream_provider.runtime.ports import Clock, Process, Queries

# How often Spark is asked for the progress of the queries; heartbeats in between repeat its last answer.
PROGRESS_SECONDS = 1.0


class HeartbeatWriter:
    """Composes the heartbeats of one incarnation; observers watch their `counter`.

    `phase`, `message`, `rehearsal` and `started_at` are set by the agent; see `lifecycle.heartbeat.Heartbeat`.
    """

    def __init__(self, queries: Queries, process: Process, offsets: OffsetsGroup, clock: Clock = time) -> None:
        self.phase = DriverPhase.STARTING
        self.message = ""
        self.rehearsal: Mapping[str, Any] = {}
        self.started_at: float | None = None
        self._queries = queries
        self._process = process
        self._offsets = offsets
        self._clock = clock
        self._counter = 0
        self._progress: tuple[QueryProgress, ...] = ()
        self._commits = CommitHistory()
        self._proven = False
        self._asked = 0.0

    def say(self, message: str) -> None:
        """Set the message of the next heartbeats: what this driver does now, for a person to read."""
        self.message = message

    def next(self, state: StreamState, running: bool) -> Heartbeat:
        """Return the next heartbeat of a driver that has read the log up to `state`."""
        self._counter += 1
        if not running:
            self._commits.forget()
        elif self._clock.monotonic() - self._asked >= PROGRESS_SECONDS:
            self._asked = self._clock.monotonic()
            self._progress = self._commits.add(self._queries.progress(), self._clock.time())
            self._proven = self._proven or any(query.batch is not None for query in self._progress)
            self._offsets.offer(self._progress)
        return replace(
            self._process.facts,
            counter=self._counter,
            at=self._clock.time(),
            phase=self.phase.value,
            message=self.message or self._queries.trouble,
            seq=state.seq,
            epoch=state.epoch,
            queries=self._progress,
            offsets_group=self._offsets.status,
            rehearsal=self.rehearsal,
            started_at=self.started_at,
            proven=self._proven,
        )
