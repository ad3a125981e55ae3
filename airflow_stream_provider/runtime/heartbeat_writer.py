"""Composes this driver's heartbeats."""

from __future__ import annotations

import logging
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

log = logging.getLogger(__name__)


class HeartbeatWriter:
    """Composes the heartbeats of one incarnation; observers watch their `counter`.

    `phase`, `message`, `rehearsal`, `started_at`, `rewind` and `rewind_undone` are set by the agent; see
    `lifecycle.heartbeat.Heartbeat`.
    """

    def __init__(self, queries: Queries, process: Process, offsets: OffsetsGroup, clock: Clock = time) -> None:
        self.phase = DriverPhase.STARTING
        self.message = ""
        self.rehearsal: Mapping[str, Any] = {}
        self.started_at: float | None = None
        self.rewind = ""
        self.rewind_undone = False
        self._queries = queries
        self._process = process
        self._offsets = offsets
        self._clock = clock
        self._counter = 0
        self._progress: tuple[QueryProgress, ...] = ()
        self._commits = CommitHistory()
        self._proven = False
        self._asked = 0.0
        # Why the progress of the queries is not known now.
        self._unknown = ""

    @property
    def committed(self) -> bool:
        """Whether a query has committed a batch in this driver, in any hold, as far as Spark has reported at a
        heartbeat.

        It may be a second behind, and more while the control log is away: see `Queries.has_committed`.
        """
        return self._proven

    def say(self, message: str) -> None:
        """Set the message of the next heartbeats: what this driver does now, for a person to read."""
        self.message = message

    def next(self, state: StreamState, running: bool) -> Heartbeat:
        """Return the next heartbeat of a driver that has read the log up to `state`."""
        self._counter += 1
        if not running:
            self._commits.forget()
            self._unknown = ""
        elif self._clock.monotonic() - self._asked >= PROGRESS_SECONDS:
            self._asked = self._clock.monotonic()
            self._ask()
        process = self._process.facts
        return replace(
            process,
            counter=self._counter,
            at=self._clock.time(),
            phase=self.phase.value,
            message=self.message or self._queries.trouble or process.message or self._unknown,
            seq=state.seq,
            epoch=state.epoch,
            queries=self._progress,
            offsets_group=self._offsets.status,
            rehearsal=self.rehearsal,
            started_at=self.started_at,
            rewind=self.rewind,
            rewind_undone=self.rewind_undone,
        )

    def _ask(self) -> None:
        try:
            progress, unknown = self._queries.progress(), ""
        except Exception as error:
            # Without heartbeats a healthy driver would look dead. One that cannot reach its JVM is halted by that.
            if not self._unknown:
                log.exception("The progress of the queries is not known")
            unknown = f"The progress of the queries is not known: {type(error).__name__}: {str(error)[:200]}"
            # As after a restart in place: the facts of this hold stay in the heartbeat.
            progress = [replace(query, batch=None) for query in self._progress]
        self._unknown = unknown
        self._progress = self._commits.add(progress, self._clock.time())
        self._proven = self._proven or any(query.commits for query in self._progress)
        self._offsets.offer(self._progress)
