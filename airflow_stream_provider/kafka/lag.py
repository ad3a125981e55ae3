"""Measure how far queries are behind Kafka: what they have committed first, then what there is.

All that is asked of Kafka is asked for all queries together, so that the requests do not grow with their number.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_stream_provider.kafka.collector import collector_paused
from airflow_stream_provider.kafka.committed import Committed, CommittedOffsets
from airflow_stream_provider.kafka.logs import Logs
from airflow_stream_provider.kafka.oldest import Unread, oldest
from airflow_stream_provider.kafka.window import verdicts
from airflow_stream_provider.model.lag import LagReport, PartitionState, QueryLag, Verdict

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.client import KafkaClient
    from airflow_stream_provider.kafka.together import Asking

K = TypeVar("K", bound=Hashable)


@collector_paused()
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
    measured = [_Query(query, logs) for query in queries]
    retention = logs.retention(set().union(*(query.topics for query in measured)))
    askings = [asking for query in measured for asking in query.askings(retention)]
    answers = iter(logs.ask(askings))
    return LagReport(logs.at, tuple(query.lag(*(next(answers) for _ in range(3))) for query in measured))


class _Query:
    """A query on its way from what it has committed to its lag."""

    def __init__(self, committed: Committed, logs: Logs) -> None:
        self._committed = committed
        self._logs = logs
        self._now = round(logs.at * 1000)
        self._partitions = {tp: logs.lag(committed, tp) for tp in logs.partitions(committed)}
        # Those whose lag is known, and what that is.
        self._lags = {tp: found.lag for tp, found in self._partitions.items() if found.lag is not None}

    @property
    def topics(self) -> set[str]:
        """The topics with records to read."""
        return {tp.topic for tp, lag in self._lags.items() if lag}

    def askings(self, retention: Mapping[str, float | None]) -> list[tuple[bool, Asking[TopicPartition, Any]]]:
        """Return what finds the ages of the oldest records, of those held back, and the verdicts."""
        level = self._committed.read_committed
        ends = {tp: self._partitions[tp].end or 0 for tp in self._lags}
        waiting = {
            tp: Unread(ends[tp] - lag, ends[tp], retention.get(tp.topic)) for tp, lag in self._lags.items() if lag
        }
        # Behind an open transaction: from the last stable offset to the high watermark.
        held = {
            tp: Unread(partition.end or 0, (partition.end or 0) + partition.held, None)
            for tp, partition in self._partitions.items()
            if partition.held
        }
        return [
            (level, oldest(waiting, self._now)),
            (False, oldest(held, self._now)),
            (level, verdicts(self._committed.window, self._lags, ends, self._logs.at)),
        ]

    def lag(
        self,
        oldest_times: tuple[Mapping[float | None, int], Mapping[TopicPartition, int]],
        held_times: tuple[Mapping[None, int], Mapping[TopicPartition, int]],
        judged: Mapping[TopicPartition, Verdict | None],
    ) -> QueryLag:
        """Return the lag, from what was asked for."""
        query, logs = self._committed, self._logs
        if not query.offsets:
            return QueryLag(query.query, problem=query.problem, found=query.found)
        by_retention, seconds = self._seconds(oldest_times[0]), self._seconds(oldest_times[1])
        # A leader may be lost at any of the questions.
        failed = {tp for tp in self._lags if not logs.readable(tp)}
        partitions = self._partitions | {tp: logs.lag(query, tp) for tp in failed}
        age = max(0.0, logs.at - query.window[-1][0]) if query.window else None
        waits = any(partition.held is not None for partition in partitions.values())
        for tp, partition in partitions.items():
            partition.commit_age = age
            if partition.state is PartitionState.AHEAD_OF_END:
                partition.verdict = Verdict.REWIND
            elif tp in self._lags and tp not in failed:
                partition.seconds = seconds.get(tp, None if self._lags[tp] else 0.0)
                partition.verdict = judged.get(tp)
        return QueryLag(
            query.query,
            tuple(partitions.values()),
            commit_age=age,
            batch=query.batch,
            seconds=None if failed or not self._lags else max(by_retention.values(), default=0.0),
            retention_seconds=min(
                (max(0.0, limit - old) for limit, old in by_retention.items() if limit is not None), default=None
            ),
            held_seconds=self._seconds(held_times[0]).get(None, 0.0) if waits else None,
            problem=logs.problem(partitions),
        )

    def _seconds(self, times: Mapping[K, int]) -> dict[K, float]:
        return {key: max(0, self._now - at) / 1000 for key, at in times.items()}
