"""Remembers the last progress, the last commits and the last batches of each query, for the heartbeat.

Without access to a query's checkpoint, the lag goes by its commits; the judgement of a release compares its batches.
They must stay small, because a heartbeat is replaced once a second.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from airflow_stream_provider import checkpoint as checkpoints
from airflow_stream_provider.checkpoint.logs import kafka_offsets
from airflow_stream_provider.lifecycle.heartbeat import Batch, Commit, QueryProgress

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
