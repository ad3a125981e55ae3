"""Commits the offsets of finished batches to a consumer group, so that Kafka's own tools show the stream's lag.

Spark commits nothing to Kafka. When the stream's `offsets_group` names a group, the holder commits to it in its side
thread, from the progress that the heartbeat carries. That never touches the queries. Only the newest progress of each
query is kept; when Kafka was unavailable, that is what it commits afterwards.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.checkpoint.logs import kafka_offsets
from airflow_stream_provider.control.bounded import start
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.lifecycle.heartbeat import OffsetsGroupStatus, QueryProgress

if TYPE_CHECKING:
    from airflow_stream_provider.runtime.kafka_client import ConsumerGroup

# Commits are at least this far apart.
PACE_SECONDS = 1.0
# Everything is committed again after this long: Kafka deletes a group without members `offsets.retention.minutes`
# (7 days) after its last commit. It also repairs offsets that a late commit during a hand-over set back.
AGAIN_SECONDS = 3600.0
# Pause between two tries while Kafka is unavailable or refuses: doubled from PACE_SECONDS up to this.
LONGEST_PAUSE_SECONDS = 60.0
# The time that a driver without a successor waits for its last commit.
FLUSH_SECONDS = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FinishedBatch:
    """The last batch that a query has committed, and by topic and partition the next offset that it will read."""

    batch: int
    offsets: Mapping[str, Mapping[int, int]]


class OffsetsGroup:
    """Commits the progress of the queries to a consumer group while this driver holds the stream.

    :param group: None = nothing is committed.
    :param may: whether this driver holds the stream now.
    """

    def __init__(self, group: ConsumerGroup | None, may: Callable[[], bool]) -> None:
        self._group = group
        self._may = may
        self._lock = threading.Lock()
        # Held while something is committed: a last commit waits for the one that is under way.
        self._committing = threading.Lock()
        self._queries: Sequence[QueryProgress] = ()
        self._another = False  # another driver may have held the stream since: forget what was committed
        self._finished: dict[str, FinishedBatch] = {}
        self._sent: dict[Any, dict[tuple[str, int], tuple[int, str]]] = {}
        self._sent_all = 0.0
        self._failures = 0
        # How the commits go, for the heartbeat.
        self.status = OffsetsGroupStatus()

    def offer(self, queries: Sequence[QueryProgress]) -> None:
        """Remember the queries' newest progress. Never blocks."""
        with self._lock:
            self._queries = queries

    def flush(self, queries: Callable[[], Sequence[QueryProgress]], seconds: float = FLUSH_SECONDS) -> None:
        """Commit the present progress of the queries, and wait for that no longer than so many seconds."""
        if self._group is None:
            return
        try:
            self.offer(queries())
        except Exception as error:  # noqa: BLE001 - the stream can end without its group
            self._note(f"{type(error).__name__}: {error}")
            return
        wait([start(self.turn, "offsets-group")], seconds)

    def withdraw(self) -> None:
        """Stop committing: the next holder commits from now on, and an older offset must not overwrite its."""
        with self._lock:
            self._queries, self._another = (), True
        if self._group is not None:
            # A resolver that hangs must not make the hand-over slow.
            wait([start(self._group.close, "offsets-group")], 0.5)

    def turn(self) -> float:
        """Commit what was offered last; return after how many seconds to do so again."""
        with self._committing:
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - the stream can run without its group
                self._note(f"{type(error).__name__}: {error}")
            return min(PACE_SECONDS * 2.0 ** min(self._failures, 10), LONGEST_PAUSE_SECONDS)

    def _turn(self) -> None:
        with self._lock:
            queries, another, self._another = self._queries, self._another, False
        if another:
            self._finished.clear()
            self._sent.clear()
        if self._group is None or not queries or not self._may():
            return
        again = time.monotonic() - self._sent_all > AGAIN_SECONDS
        if again:
            self._sent.clear()
        running = {query.name: not query.ended for query in queries}
        # Without those that another query has replaced on their checkpoint.
        self._finished = {name: done for name, done in self._finished.items() if name in running}
        self._finished.update(self._news(queries))
        clusters = self._group.clusters()
        problems = []
        for cluster in dict.fromkeys(clusters.values()):
            here = {name: done for name, done in self._finished.items() if clusters.get(name) == cluster}
            # A query that has ended holds the group back nowhere: it counts where no running one reads.
            wanted = {
                **slowest(done for name, done in here.items() if not running[name]),
                **slowest(done for name, done in here.items() if running[name]),
            }
            sent = self._sent.setdefault(cluster, {})
            news = {place: commit for place, commit in wanted.items() if sent.get(place) != commit}
            if not news or not self._may():
                continue
            try:
                self._group.commit(cluster, news)
            except Exception as error:  # noqa: BLE001 - any error of Kafka's client or py4j; the heartbeat reports it
                problems.append(str(error))
                self._group.close()
            else:
                sent.update(news)
                self.status = OffsetsGroupStatus(at=time.time())
        if again and not problems:
            self._sent_all = time.monotonic()
        self._note("; ".join(problems))

    def _news(self, queries: Sequence[QueryProgress]) -> dict[str, FinishedBatch]:
        """Return the last commit of each query; for one that has run no batch in this driver, from its checkpoint."""
        found = {}
        for query in queries:
            name = query.name
            if query.batch is not None:
                parts = [kafka_offsets(json.dumps(source)) for source in query.committed]
                found[name] = FinishedBatch(query.batch, checkpoints.merged(parts))
            elif name not in self._finished:
                try:
                    checkpoint = checkpoints.read(query.checkpoint)
                except CheckpointError:
                    continue  # only the JVM can read it, or it is not written yet
                if checkpoint.last_commit is not None:
                    found[name] = FinishedBatch(checkpoint.last_commit, checkpoint.committed)
        return found

    def _note(self, problem: str) -> None:
        if problem:
            if not self._failures:
                log.warning("The offsets cannot be committed to the stream's group; the stream goes on. %s", problem)
            self._failures += 1
            self.status = replace(self.status, problem=problem)
        elif self._failures:
            log.info("The offsets are committed to the stream's group again.")
            self._failures = 0


def slowest(queries: Iterable[FinishedBatch]) -> dict[tuple[str, int], tuple[int, str]]:
    """Return offset and batch by partition: of several queries that read it, those of the slowest."""
    found: dict[tuple[str, int], tuple[int, str]] = {}
    for query in queries:
        for topic, partitions in query.offsets.items():
            for partition, offset in partitions.items():
                known = found.get((topic, partition))
                if known is None or offset < known[0]:
                    found[topic, partition] = (offset, str(query.batch))
    return found
