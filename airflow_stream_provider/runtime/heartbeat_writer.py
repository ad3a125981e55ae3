"""Composes this driver's heartbeats.

Without access to a query's checkpoint, the lag goes by the commits here; the judgement of a release compares the
batches. Both stay few, because a heartbeat is replaced once a second.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.checkpoint.logs import kafka_offsets
from airflow_stream_provider.lifecycle.heartbeat import Batch, Commit, DriverPhase, Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.state import StreamState
from airflow_stream_provider.runtime.offsets_group import OffsetsGroup
from airflow_stream_provider.runtime.ports import Clock

if TYPE_CHECKING:
    from airflow_stream_provider.runtime.driver_process import DriverProcess
    from airflow_stream_provider.runtime.query_group import QueryGroup

# The number that the rules of Burrow look at; see `lag.committed_offsets.WINDOW`.
COMMITS = 10
# The same number of the last batches: a second apart at least.
BATCHES = COMMITS
# A query that reads more partitions keeps only the time of the last commit. So the commits of a query take at most some
# 40 kB of the heartbeat.
PARTITIONS = 200


class CommitHistory:
    """The last progress, commits and batches, oldest first, of queries that run in this driver, by the query's name."""

    def __init__(self) -> None:
        self._last: dict[str, QueryProgress] = {}
        self._commits: dict[str, tuple[Commit, ...]] = {}
        self._batches: dict[str, tuple[Batch, ...]] = {}

    def add(self, queries: Sequence[QueryProgress], now: float) -> tuple[QueryProgress, ...]:
        """Return the progress of the queries, each with its last commits and batches; call it once a second.

        Spark reports nothing of a query that was started again before its next batch: it is where it was.

        :param now: seconds since 1970.
        """
        found = []
        for query in queries:
            known = self._known(query)
            batches = self._batched(query)  # before its last progress is replaced
            found.append(replace(known, batches=batches, commits=self._noted(query, now)))
        return tuple(found)

    def forget(self) -> None:
        """Begin anew: another driver may commit from now on."""
        self._last.clear()
        self._commits.clear()
        self._batches.clear()

    def _known(self, query: QueryProgress) -> QueryProgress:
        last = self._last.get(query.name)
        if query.batch is not None or last is None:
            return query
        known = replace(last, ended=query.ended, failures=query.failures, health=query.health)
        return replace(known, begun_at=query.begun_at, quiet_seconds=query.quiet_seconds)

    def _batched(self, query: QueryProgress) -> tuple[Batch, ...]:
        batches, before, at = self._batches.get(query.name, ()), self._last.get(query.name), _committed_at(query)
        if query.batch is None or query.batch_seconds is None or at is None:
            return batches
        if before is None or query.batch != before.batch:
            batches = (*batches, Batch(query.batch, at, query.batch_seconds, query.input_rows))[-BATCHES:]
            self._batches[query.name] = batches
        return batches

    def _noted(self, query: QueryProgress, now: float) -> tuple[Commit, ...]:
        commits, before = self._commits.get(query.name, ()), self._last.get(query.name)
        if query.batch is None:
            return commits
        self._last[query.name] = query
        if before is not None and query.batch == before.batch:
            return commits
        at = _committed_at(query)
        if at is None and before is None:
            return ()  # the batch of an earlier driver: the time of its commit is not known here
        offsets = checkpoints.merged(kafka_offsets(json.dumps(source)) for source in query.committed)
        commit = Commit(now if at is None else at, {t: {str(p): o for p, o in of.items()} for t, of in offsets.items()})
        if not 0 < sum(map(len, offsets.values())) <= PARTITIONS:
            commits = (Commit(commit.at),)
        else:
            commits = (*(each for each in commits if each.offsets), commit)[-COMMITS:]
        self._commits[query.name] = commits
        return commits


def _committed_at(query: QueryProgress) -> float | None:
    """Return when Spark ended the batch, in seconds since 1970; None when its progress does not say it."""
    if query.batch_seconds is None:
        return None
    try:
        return datetime.strptime(query.triggered_at, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp() + query.batch_seconds
    except ValueError:
        return None


# How often Spark is asked for the progress of the queries; heartbeats in between repeat its last answer.
PROGRESS_SECONDS = 1.0

log = logging.getLogger(__name__)


class HeartbeatWriter:
    """Composes the heartbeats of one incarnation; observers watch their `counter`.

    `phase`, `message`, `rehearsal`, `started_at`, `rewind` and `rewind_undone` are set by the agent; see
    `lifecycle.heartbeat.Heartbeat`.
    """

    def __init__(self, queries: QueryGroup, process: DriverProcess, offsets: OffsetsGroup, clock: Clock = time) -> None:
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
        # The hold that they are of: queries that stop, and start again in it, have committed all the same.
        self._epoch = 0
        # Whether a query has committed a batch in this driver, in any hold, as far as Spark has said at a heartbeat: a
        # second behind, and more while the control log is away. See `QueryGroup.has_committed`.
        self.committed = False
        self._asked = 0.0
        # Why the progress of the queries is not known now.
        self._unknown = ""

    def say(self, message: str) -> None:
        """Set the message of the next heartbeats: what this driver does now, for a person to read."""
        self.message = message

    def next(self, state: StreamState, running: bool) -> Heartbeat:
        """Return the next heartbeat of a driver that has read the log up to `state`."""
        self._counter += 1
        if state.epoch != self._epoch:
            self._epoch = state.epoch
            self._commits.forget()
        if not running:
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
            progress = tuple(replace(query, batch=None) for query in self._progress)
        self._unknown = unknown
        self._progress = self._commits.add(progress, self._clock.time())
        self.committed = self.committed or any(query.commits for query in self._progress)
        self._offsets.offer(self._progress)
