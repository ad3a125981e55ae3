"""Measure how far queries are behind Kafka: what they have committed first, then what there is."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from airflow_stream_provider.kafka.committed import Committed, CommittedOffsets
from airflow_stream_provider.kafka.logs import Logs
from airflow_stream_provider.kafka.oldest import Unread, oldest
from airflow_stream_provider.kafka.window import verdicts
from airflow_stream_provider.model.lag import LagReport, PartitionLag, PartitionState, QueryLag, Verdict

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.client import KafkaClient

K = TypeVar("K", bound=Hashable)
Partitions = Mapping["TopicPartition", PartitionLag]


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
    return LagReport(logs.at, tuple(_lag_of(query, logs) for query in queries))


def _lag_of(query: Committed, logs: Logs) -> QueryLag:
    if not query.offsets:
        return QueryLag(query.query, problem=query.problem, found=query.found)
    partitions = {tp: logs.lag(query, tp) for tp in logs.partitions(query)}
    known = {tp: partition for tp, partition in partitions.items() if partition.lag is not None}
    unread = {tp: partition for tp, partition in known.items() if partition.lag}
    retention = logs.retention({tp.topic for tp in unread})
    oldest_by_retention, seconds = _ages(query, unread, retention, logs)
    judged = _verdicts(query, known, logs)
    age = max(0.0, logs.at - query.window[-1][0]) if query.window else None
    return QueryLag(
        query.query,
        tuple(
            replace(
                partition,
                seconds=seconds.get(tp, 0.0 if partition.lag == 0 else None),
                commit_age=age,
                verdict=Verdict.REWIND if partition.state is PartitionState.AHEAD_OF_END else judged.get(tp),
            )
            for tp, partition in partitions.items()
        ),
        commit_age=age,
        batch=query.batch,
        seconds=max(oldest_by_retention.values(), default=None if unread or not known else 0.0),
        retention_seconds=min(
            (max(0.0, limit - old) for limit, old in oldest_by_retention.items() if limit is not None), default=None
        ),
        held_seconds=_held(partitions, logs),
        problem=logs.problem(partitions),
    )


def _ages(
    query: Committed, unread: Partitions, retention: Mapping[str, float | None], logs: Logs
) -> tuple[dict[float | None, float], dict[TopicPartition, float]]:
    """Return the age of the oldest unread record by the retention of its topic, and an estimate of it by partition."""
    waiting = {
        tp: Unread(partition.position or 0, partition.end or 0, retention.get(tp.topic))
        for tp, partition in unread.items()
    }
    now = round(logs.at * 1000)
    groups, times = oldest(logs.lookup(query.read_committed), waiting, now)
    return _seconds(groups, now), _seconds(times, now)


def _held(partitions: Partitions, logs: Logs) -> float | None:
    """Return the age of the oldest record behind an open transaction; None for a query that reads those too."""
    held = {
        tp: Unread(partition.end or 0, (partition.end or 0) + partition.held, None)
        for tp, partition in partitions.items()
        if partition.held is not None
    }
    if not held:
        return None
    now = round(logs.at * 1000)
    waiting = {tp: unread for tp, unread in held.items() if unread.end > unread.position}
    return _seconds(oldest(logs.lookup(False), waiting, now)[0], now).get(None, 0.0)


def _verdicts(query: Committed, known: Partitions, logs: Logs) -> dict[TopicPartition, Verdict | None]:
    lags = {tp: partition.lag or 0 for tp, partition in known.items()}
    ends = {tp: partition.end or 0 for tp, partition in known.items()}
    return verdicts(logs.lookup(query.read_committed), query.window, lags, ends, logs.at)


def _seconds(times: Mapping[K, int], now: int) -> dict[K, float]:
    return {key: max(0, now - at) / 1000 for key, at in times.items()}
