"""Measure how far queries are behind Kafka: what they have committed first, then what there is.

All that is asked of Kafka is asked for all queries together, so that the requests do not grow with their number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.lag.commit_window import verdicts
from airflow_stream_provider.lag.committed_offsets import Committed, CommittedOffsets
from airflow_stream_provider.lag.gc_pause import gc_paused
from airflow_stream_provider.lag.partition_offsets import Logs
from airflow_stream_provider.lag.record_age import Unread, oldest
from airflow_stream_provider.lag.report import LagReport, PartitionState, QueryLag, Verdict

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.client import KafkaClient
    from airflow_stream_provider.lag.batched_lookup import Asking

    # By the number of a query, and partition; grouped by the query and how long its records are kept.
    _Key = tuple[int, TopicPartition]
    _Group = tuple[int, float | None]
    _Waiting = dict[_Key, Unread[TopicPartition, _Group]]
    _Times = tuple[Mapping[_Group, int], Mapping[_Key, int]]


@gc_paused()
def measure(client: KafkaClient, sources: Iterable[CommittedOffsets]) -> LagReport:
    """Return the lag of these queries; one that reads nothing from Kafka is left out.

    Needs DESCRIBE on the topics and the group, and DESCRIBE_CONFIGS on the topics to know when unread records are
    deleted. What cannot be read is unknown in the report, and its query says why.

    :raises StreamError: Kafka does not answer, or refuses us altogether.
    """
    # Before the ends: a batch that is committed in between would seem to be ahead of them.
    found = [source.read() for source in sources]
    queries = [query for query in found if query.offsets or query.problem]
    logs = Logs(client, queries)
    measured = [_Query(number, query, logs) for number, query in enumerate(queries)]
    retention = logs.retention(set().union(*(query.topics for query in measured)))
    now = round(logs.at * 1000)
    waiting: dict[bool, _Waiting] = {False: {}, True: {}}
    held: _Waiting = {}
    for query in measured:
        waiting[query.level].update(query.waiting(retention))
        held.update(query.held())
    askings: list[tuple[bool, Asking[TopicPartition, Any]]] = [
        *((level, oldest(unread, now)) for level, unread in waiting.items()),
        (False, oldest(held, now)),
        *((query.level, query.verdicts()) for query in measured),
    ]
    plain, committed, of_held, *judged = logs.ask(askings)
    times: dict[bool, _Times] = {False: plain, True: committed}
    return LagReport(
        logs.at,
        tuple(query.lag(times[query.level], of_held, found) for query, found in zip(measured, judged, strict=True)),
    )


class _Query:
    """A query on its way from what it has committed to its lag; `number` tells it from the others."""

    def __init__(self, number: int, committed: Committed, logs: Logs) -> None:
        self._number = number
        self._committed = committed
        self._logs = logs
        self._now = round(logs.at * 1000)
        self._partitions = {tp: logs.lag(committed, tp) for tp in logs.partitions(committed)}
        # Those whose lag is known, and what that is.
        self._lags = {tp: found.lag for tp, found in self._partitions.items() if found.lag is not None}
        self._ends = {tp: self._partitions[tp].end or 0 for tp in self._lags}
        self._waiting: _Waiting = {}
        self._held: _Waiting = {}

    @property
    def topics(self) -> set[str]:
        """The topics with records to read."""
        return {tp.topic for tp, lag in self._lags.items() if lag}

    @property
    def level(self) -> bool:
        """Whether it reads committed records only."""
        return self._committed.read_committed

    def waiting(self, retention: Mapping[str, float | None]) -> _Waiting:
        """Return what is not committed, grouped by how long it is kept."""
        number, ends = self._number, self._ends
        groups = {topic: (number, limit) for topic, limit in retention.items()}
        self._waiting = {
            (number, tp): Unread(tp, ends[tp] - lag, ends[tp], groups[tp.topic])
            for tp, lag in self._lags.items()
            if lag
        }
        return self._waiting

    def held(self) -> _Waiting:
        """Return what stands behind an open transaction: from the last stable offset to the high watermark."""
        self._held = {
            (self._number, tp): Unread(tp, found.end or 0, (found.end or 0) + found.held, (self._number, None))
            for tp, found in self._partitions.items()
            if found.held
        }
        return self._held

    def verdicts(self) -> Asking[TopicPartition, dict[TopicPartition, Verdict | None]]:
        """Return what finds the verdicts."""
        return verdicts(self._committed.window, self._lags, self._ends, self._logs.at)

    def lag(self, times: _Times, held_times: _Times, judged: Mapping[TopicPartition, Verdict | None]) -> QueryLag:
        """Return the lag, from what was asked for."""
        query, logs = self._committed, self._logs
        if not query.offsets:
            return QueryLag(query.query, problem=query.problem, found=query.found)
        ages = {tp: self._age(times[1].get((number, tp))) for number, tp in self._waiting}
        by_retention = {group[1]: self._age(times[0].get(group)) for group in {w.group for w in self._waiting.values()}}
        # A leader may be lost at any of the questions.
        failed = {tp for tp in self._lags if not logs.readable(tp)}
        partitions = self._partitions | {tp: logs.lag(query, tp) for tp in failed}
        age = max(0.0, logs.at - query.window[-1][0]) if query.window else None
        for tp, partition in partitions.items():
            partition.commit_age = age
            if partition.state is PartitionState.AHEAD_OF_END:
                partition.verdict = Verdict.REWIND
            elif tp in self._lags and tp not in failed:
                partition.seconds = ages.get(tp, 0.0)
                partition.verdict = judged.get(tp)
        left, retained = min(
            (
                (max(0.0, limit - old), limit)
                for limit, old in by_retention.items()
                if limit is not None and old is not None
            ),
            default=(None, math.inf),
        )
        held = [self._age(held_times[1].get(key)) for key in self._held]
        return QueryLag(
            query.query,
            tuple(partitions.values()),
            commit_age=age,
            batch=query.batch,
            seconds=None if failed or not self._lags or None in ages.values() else _most(by_retention.values()),
            retention_seconds=left,
            held_seconds=_most(held) if any(p.held is not None for p in partitions.values()) else None,
            problem=logs.problem(partitions),
            retained=retained,
        )

    def _age(self, at: int | None) -> float | None:
        return None if at is None else max(0, self._now - at) / 1000


def _most(ages: Iterable[float | None]) -> float | None:
    """Return the largest, 0 of none, None when one is not known."""
    found = list(ages)
    return None if None in found else max((age for age in found if age is not None), default=0.0)
