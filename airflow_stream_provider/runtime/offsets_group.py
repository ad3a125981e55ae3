"""Commit what the stream has finished to a consumer group, so that Kafka's own tools see how far it is.

Spark commits nothing to Kafka. Where the stream's `offsets_group` names a group, its holder does: from a thread of its
own, which takes what the heartbeat says of the queries. It never touches them: only the newest state of each query is
kept, and a Kafka that is away is told once it is back.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.checkpoint.logs import kafka_offsets
from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.lifecycle.heartbeat import OffsetsGroupStatus, QueryProgress

# Kafka is told no more often.
PACE_SECONDS = 1.0
# Kafka forgets a group without members `offsets.retention.minutes` (7 days) after its last commit, also when there was
# nothing to commit. It also mends what a commit on its way during a hand-over may have set back.
AGAIN_SECONDS = 3600.0
# Between two tries while Kafka is away or refuses: doubled from PACE_SECONDS up to this.
LONGEST_PAUSE_SECONDS = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Finished:
    """The last batch that a query has committed, and by topic and partition the next offset that it will read."""

    batch: int
    offsets: Mapping[str, Mapping[int, int]]


class Group(Protocol):
    """The consumer group, on whichever Kafka clusters the queries read from."""

    def clusters(self) -> Mapping[str, Any]:
        """Return, by query, what to connect to (hashable); queries that cannot be committed are left out."""

    def commit(self, cluster: Any, commits: Mapping[tuple[str, int], tuple[int, str]]) -> None:
        """Commit (offset, metadata) by (topic, partition); blocks, and raises whatever went wrong."""

    def close(self) -> None:
        """Give up what is under way, and disconnect until the next commit."""


class OffsetsGroup:
    """Tells a consumer group how far the queries are, while this driver may speak for the stream.

    :param group: None = nothing is committed. :param may: whether this driver holds the stream just now.
    """

    def __init__(self, group: Group | None, may: Callable[[], bool]) -> None:
        self._group = group
        self._may = may
        self._lock = threading.Condition()
        self._wake = threading.Event()
        self._flushes = self._flushed = 0
        self._queries: Sequence[QueryProgress] = ()
        self._another = False  # somebody else may have held since: what was known is out of date
        self._finished: dict[str, Finished] = {}
        self._sent: dict[Any, dict[tuple[str, int], tuple[int, str]]] = {}
        self._sent_all = 0.0
        self._failures = 0
        self._status = OffsetsGroupStatus()

    def start(self) -> None:
        """Begin to commit what is offered, in a daemon thread."""
        if self._group is not None:
            threading.Thread(target=self._run, name="stream-offsets-group", daemon=True).start()

    @property
    def status(self) -> OffsetsGroupStatus:
        """How the commits go, for the heartbeat."""
        return self._status

    def offer(self, queries: Sequence[QueryProgress]) -> None:
        """Take what the queries have committed, as the heartbeat says it; at once, and in place of what was before."""
        with self._lock:
            self._queries = queries

    def flush(self, queries: Callable[[], Sequence[QueryProgress]], seconds: float) -> None:
        """Commit what the queries have finished now, and wait for it no longer than so many seconds."""
        if self._group is None:
            return
        try:
            self.offer(queries())
        except Exception as error:  # noqa: BLE001 - the stream ends well without its group
            self._note(f"{type(error).__name__}: {error}")
            return
        with self._lock:
            self._flushes += 1
            mine = self._flushes
            self._wake.set()
            self._lock.wait_for(lambda: self._flushed >= mine, seconds)

    def withdraw(self) -> None:
        """This driver does not hold any more: nothing that it knows shall reach Kafka after what the next one says."""
        with self._lock:
            self._queries, self._another = (), True
        if self._group is not None:
            closing = threading.Thread(target=self._group.close, daemon=True)
            closing.start()
            closing.join(0.5)  # a resolver that hangs must not make the hand-over slow

    def _run(self) -> None:
        while True:
            self._wake.wait(min(PACE_SECONDS * 2 ** min(self._failures, 10), LONGEST_PAUSE_SECONDS))
            self._wake.clear()
            flushes = self._flushes
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - the stream goes on without its group
                self._note(f"{type(error).__name__}: {error}")
            with self._lock:
                self._flushed = flushes
                self._lock.notify_all()

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
        self._finished.update(self._news(queries))
        clusters = self._group.clusters()
        problems = []
        for cluster in dict.fromkeys(clusters.values()):
            wanted = slowest(done for name, done in self._finished.items() if clusters.get(name) == cluster)
            sent = self._sent.setdefault(cluster, {})
            news = {place: commit for place, commit in wanted.items() if sent.get(place) != commit}
            if not news or not self._may():
                continue
            try:
                self._group.commit(cluster, news)
            except Exception as error:  # noqa: BLE001 - whatever Kafka's client or py4j says; told in the heartbeat
                problems.append(str(error))
                self._group.close()
            else:
                sent.update(news)
                self._status = OffsetsGroupStatus(at=time.time())
        if again and not problems:
            self._sent_all = time.monotonic()
        self._note("; ".join(problems))

    def _news(self, queries: Sequence[QueryProgress]) -> dict[str, Finished]:
        """What is known of the queries: one that has run no batch in this driver stands where its checkpoint does."""
        found = {}
        for query in queries:
            name = query.name
            if query.batch is not None:
                parts = [kafka_offsets(json.dumps(source)) for source in query.committed]
                found[name] = Finished(query.batch, checkpoints.merged(parts))
            elif name not in self._finished:
                try:
                    checkpoint = checkpoints.read(query.checkpoint)
                except CheckpointError:
                    continue  # kept where only the JVM can read, or not written yet
                if checkpoint.last_commit is not None:
                    found[name] = Finished(checkpoint.last_commit, checkpoint.committed)
        return found

    def _note(self, problem: str) -> None:
        if problem:
            if not self._failures:
                log.warning("The stream's offsets cannot be committed to its group; it runs on. %s", problem)
            self._failures += 1
            self._status = replace(self._status, problem=problem)
        elif self._failures:
            log.info("The stream's offsets are committed to its group again.")
            self._failures = 0


def slowest(queries: Iterable[Finished]) -> dict[tuple[str, int], tuple[int, str]]:
    """Return offset and batch by partition: of several queries that read it, those of the slowest."""
    found: dict[tuple[str, int], tuple[int, str]] = {}
    for query in queries:
        for topic, partitions in query.offsets.items():
            for partition, offset in partitions.items():
                known = found.get((topic, partition))
                if known is None or offset < known[0]:
                    found[topic, partition] = (offset, str(query.batch))
    return found
