"""Measure how far queries are behind Kafka: first the committed offsets, then the log ends.

Burrow keeps a history of log ends; we keep none and ask Kafka by timestamp where a log ended at the time of a commit.

A report of thousands of partitions allocates tens of thousands of objects and keeps them for a while. Each time, the
collector scans the whole heap, which in Airflow's processes is large, and finds nothing: docs/benchmarks.md has the
numbers. `gc.freeze()` takes what is there now out of all later scans; the collector stays on for everything newer.
Switching it off during reports saves hardly more, and would leave the whole process without it while Kafka does not
answer.

Each request to Kafka covers all queries, so that the number of requests does not grow with the number of queries.
"""

from __future__ import annotations

import functools
import gc
import itertools
import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_stream_provider.lag.batched_lookup import OffsetSearch
from airflow_stream_provider.lag.burrow import evaluate
from airflow_stream_provider.lag.byte_retention import first_times, left_by_size, near
from airflow_stream_provider.lag.committed_offsets import Committed, LastCommits, refuse_others
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lag.partition_offsets import PartitionOffsets
from airflow_stream_provider.lag.record_age import UnreadRange, first_at, oldest
from airflow_stream_provider.lag.report import LagReport, PartitionLag, PartitionState, QueryLag, Verdict
from airflow_stream_provider.lag.topic_ids import recreated
from airflow_stream_provider.lag.transactions import OpenTransactions

# Fewer commits show no pace to compare the present silence with.
MIN_COMMITS = 3
# Burrow compares a commit with the last ten log ends, polled every ten seconds: newer records do not make it STOP.
RING_SECONDS = 100.0
# They compare it with the pace of its last commits, which says nothing of one that waits by design.
BY_PACE = (Verdict.STOP, Verdict.STALL)

P = TypeVar("P", bound=tuple[str, int])


def verdicts(
    window: LastCommits, lags: Mapping[P, int], ends: Mapping[P, int], now: float, quiet_until: float | None = None
) -> OffsetSearch[P, dict[P, Verdict | None]]:
    """Find a verdict for each partition in `lags`; None where there are too few commits yet.

    None, too, instead of those BY_PACE where it is not known how long the query waits by design.

    Past log ends are looked up by timestamp, at most once for each commit, and only for partitions whose verdict
    depends on them; see `test_a_lag_that_becomes_known_never_makes_it_worse_than_a_warning`.

    :param window: time in seconds and offsets of the last commits, oldest first.
    :param lags: records not committed, by partition; a partition is a tuple that begins with topic and number.
    :param ends: the present log ends.
    :param now: seconds since 1970.
    :param quiet_until: until when the query may commit nothing by its own promise; None = not known.
    """
    waits = max(0.0, (quiet_until or 0.0) - window[-1][0]) if window else 0.0
    past: dict[P, dict[int, int]] = {p: {} for p in lags}
    lately: dict[P, int] = {}

    def ends_at(partitions: Sequence[P], seconds: float) -> OffsetSearch[P, dict[P, int]]:
        answers = (yield dict.fromkeys(partitions, round(seconds * 1000))) if partitions else {}
        # The end of one who reads committed records only may lie before the record that Kafka names.
        return {p: min(answers[p][0], ends[p]) if p in answers else ends[p] for p in partitions}

    def judge(p: P) -> Verdict | None:
        if lags[p] and len(window) < MIN_COMMITS:
            return None
        commits = _commits(window, p, past[p])
        known_ends = [ends[p], lately.get(p, ends[p])]
        commits = commits if len(commits) >= MIN_COMMITS else []
        # The time for which it waits by design is no silence.
        found = evaluate(commits, known_ends, lags[p], now - waits)
        return Verdict.WARN if found is Verdict.STALL and window[-1][0] - window[0][0] < waits else found

    found = {p: judge(p) for p in lags}
    stopped = [p for p, verdict in found.items() if verdict is Verdict.STOP]
    if stopped:
        lately = yield from ends_at(stopped, now - _ring(window))
        found.update({p: judge(p) for p in stopped})
    for number in reversed(range(len(window))):
        unsure = [p for p, verdict in found.items() if verdict in (Verdict.WARN, Verdict.STALL)]
        for p, end in (yield from ends_at(unsure, window[number][0])).items():
            past[p][number] = end
            found[p] = judge(p)
    return {p: None if quiet_until is None and verdict in BY_PACE else verdict for p, verdict in found.items()}


def _commits(
    window: LastCommits, partition: tuple[str, int], past: Mapping[int, int]
) -> list[tuple[int, int, int | None]]:
    commits: list[tuple[int, int, int | None]] = []
    for number, (at, offsets) in enumerate(window):
        offset = offsets.get(partition[0], {}).get(partition[1])
        if offset is not None:
            commits.append((offset, round(at * 1000), max(0, past[number] - offset) if number in past else None))
    return commits


def _ring(window: LastCommits) -> float:
    """Seconds that a log end may lie back for a silent reader not to be STOP: twice its usual pause, at least 100."""
    times = [at for at, _ in window]
    return max(RING_SECONDS, 2 * statistics.median(later - earlier for earlier, later in itertools.pairwise(times)))


@functools.cache
def freeze_heap() -> None:
    """Leave the present objects out of all later collections, once in this process.

    Reference counting still frees them. Only what is cyclic garbage at this moment stays; a second call would add to
    that, and does nothing.
    """
    gc.freeze()


if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.client import KafkaClient

    # By number of the query, and partition; grouped by query and retention.
    _Key = tuple[int, TopicPartition]
    _Group = tuple[int, float | None]
    _Unread = dict[_Key, UnreadRange[TopicPartition, _Group]]
    _Times = tuple[Mapping[_Group, int], Mapping[_Key, int]]


K = TypeVar("K", bound=Hashable)


def measure_each(
    client: KafkaClient, committed: Mapping[K, Iterable[Committed]], moments: Mapping[K, Moments]
) -> dict[K, LagReport]:
    """Return a report for each key, from the committed offsets of its queries.

    :param committed: read before the log ends, or a batch that is committed in between would seem to be ahead of them.
    :param moments: what each report must say exactly.

    Queries of different keys may have the same name. A query that reads nothing from Kafka is left out. Needs DESCRIBE
    on the topics and the group, and DESCRIBE_CONFIGS on the topics to know when unread records are deleted. A number
    that cannot be read is unknown in the report, and its query says why.

    :raises StreamError: Kafka does not answer, or refuses the connection.
    """
    freeze_heap()
    found = ((key, query) for key, each in committed.items() for query in each if query.offsets or query.problem)
    queries = refuse_others(client, found)
    logs = PartitionOffsets(client, [query for _, query in queries])
    measured = [_Query(number, query, logs, moments[key]) for number, (key, query) in enumerate(queries)]
    retention = logs.retention(set().union(*(query.topics for query in measured)))
    sizes = logs.sizes(set().union(*(query.crowded for query in measured)))
    now = round(logs.at * 1000)
    unread: _Unread = {}
    asked: dict[int, set[TopicPartition]] = {}
    for query in measured:
        unread.update(query.unread(retention))
        for at in query.asked:
            asked.setdefault(at, set()).update(query.behind)
    searches: list[OffsetSearch[TopicPartition, Any]] = [
        oldest(unread, now),
        *(first_at(at, partitions) for at, partitions in asked.items()),
        *(query.verdicts() for query in measured),
        first_times(sizes),
    ]
    times, *others, first_written = logs.search(searches)
    firsts, verdicts_found = dict(zip(asked, others, strict=False)), others[len(asked) :]
    transactions = logs.transactions({tp for query in measured for tp in query.held})
    reports: dict[K, list[QueryLag]] = {key: [] for key in committed}
    for (key, _), query, partition_verdicts in zip(queries, measured, verdicts_found, strict=True):
        by_size = left_by_size(query.crowded, logs.size_limits, sizes, query.partitions, first_written, now)
        reports[key].append(query.lag(times, transactions, partition_verdicts, firsts, by_size))
    return {key: LagReport(logs.at, tuple(lags)) for key, lags in reports.items()}


class _Query:
    """One query while it is measured; `number` identifies it among all queries of the measurement."""

    def __init__(self, number: int, committed: Committed, logs: PartitionOffsets, moments: Moments) -> None:
        self._number = number
        self._committed = committed
        self._logs = logs
        self._now = round(logs.at * 1000)
        self.partitions = {tp: logs.lag(committed, tp) for tp in logs.partitions(committed)}
        # Only partitions whose lag is known.
        self._lags = {tp: found.lag for tp, found in self.partitions.items() if found.lag is not None}
        self._ends = {tp: self.partitions[tp].end or 0 for tp in self._lags}
        self._unread: _Unread = {}
        self._moments = {moment: round(moment * 1000) for moment in moments.at}
        self._ages = {age: round((logs.at - age) * 1000) for age in moments.ages}

    @property
    def asked(self) -> set[int]:
        """The moments that are asked for, in milliseconds since 1970."""
        return {*self._moments.values(), *self._ages.values()}

    @property
    def behind(self) -> list[TopicPartition]:
        """The partitions with records that are not committed, those behind an open transaction included."""
        return [tp for tp, lag in self._lags.items() if lag or self.partitions[tp].held]

    @property
    def topics(self) -> set[str]:
        """The topics with unread records."""
        return {tp.topic for tp, lag in self._lags.items() if lag}

    @cached_property
    def crowded(self) -> list[TopicPartition]:
        """The partitions from which Kafka may delete unread records by size; to be asked after their retention."""
        return near(self._logs.size_limits, self.partitions)

    def unread(self, retention: Mapping[str, float | None]) -> _Unread:
        """Return the unread records, grouped by their topic's retention."""
        number, ends = self._number, self._ends
        groups = {topic: (number, limit) for topic, limit in retention.items()}
        self._unread = {
            (number, tp): UnreadRange(tp, ends[tp] - lag, ends[tp], groups[tp.topic])
            for tp, lag in self._lags.items()
            if lag
        }
        return self._unread

    @property
    def held(self) -> list[TopicPartition]:
        """The partitions with records behind an open transaction."""
        return [tp for tp, partition in self.partitions.items() if partition.held]

    def verdicts(self) -> OffsetSearch[TopicPartition, dict[TopicPartition, Verdict | None]]:
        """Return the search for Burrow's verdict on each partition."""
        return verdicts(self._committed.window, self._lags, self._ends, self._logs.at, self._committed.quiet_until)

    def lag(
        self,
        times: _Times,
        transactions: OpenTransactions,
        verdicts: Mapping[TopicPartition, Verdict | None],
        firsts: Mapping[int, Mapping[TopicPartition, int]],
        by_size: Sequence[tuple[float, float]] | None,
    ) -> QueryLag:
        """Return the query's lag, from the results of the searches.

        :param by_size: seconds until Kafka deletes unread records by size, each with those for which it keeps them.
        """
        query, logs = self._committed, self._logs
        if not query.offsets:
            return QueryLag(query.query, problem=query.problem, found=query.found)
        ages = {tp: self._age(times[1].get((number, tp))) for number, tp in self._unread}
        by_retention = {group[1]: self._age(times[0].get(group)) for group in {w.group for w in self._unread.values()}}
        # A leader may be lost at any request.
        failed = {tp for tp in self._lags if not logs.readable(tp)}
        partitions = self.partitions | {tp: logs.lag(query, tp) for tp in failed}
        age = max(0.0, logs.at - query.window[-1][0]) if query.window else None
        for tp, partition in partitions.items():
            partition.commit_age = age
            if partition.state is PartitionState.AHEAD_OF_END:
                partition.verdict = Verdict.REWIND
            elif tp in self._lags and tp not in failed:
                partition.seconds = ages.get(tp, 0.0)
                partition.verdict = verdicts.get(tp)
        by_age = [
            (max(0.0, limit - old), limit)
            for limit, old in by_retention.items()
            if limit is not None and old is not None
        ]
        left, retained = min((*by_age, *(by_size or ())), default=(None, math.inf))
        found = {topic: each for topic in query.offsets if (each := logs.topic_ids.get(topic))}
        held = transactions.hiding(self.held)
        ages_known = not failed and None not in ages.values()
        late = {at: self._late(firsts[at], partitions) for at in self.asked}
        return QueryLag(
            query.query,
            tuple(partitions.values()),
            commit_age=age,
            batch=query.batch,
            seconds=None if failed or not self._lags else _known(by_retention.values(), ages_known),
            retention_seconds=left,
            held_seconds=held.seconds if any(p.held is not None for p in partitions.values()) else None,
            held_timeout=held.timeout,
            held_by=held.by,
            problem=logs.problem(partitions) or held.problem,
            retained=retained,
            ages_known=ages_known,
            retention_known=by_size is not None
            and logs.retention_known(self.topics)
            and all(ages[tp] is not None or w.group[1] is None for (_, tp), w in self._unread.items()),
            id=query.id,
            topic_ids=found,
            recreated=recreated(query.noted, found),
            quiet_until=query.quiet_until,
            unread_before={moment: late[at] for moment, at in self._moments.items()},
            unread_for={age: late[at] for age, at in self._ages.items()},
        )

    def _late(
        self, first: Mapping[TopicPartition, int], partitions: Mapping[TopicPartition, PartitionLag]
    ) -> bool | None:
        """Return whether a record before the moment is not committed; `first`: the first records that are not."""
        for tp in self.behind:
            partition = partitions[tp]
            end, position = (partition.end or 0) + (partition.held or 0), partition.position or 0
            if partition.state.known and position < min(end, first.get(tp, end)):
                return True
        return False if all(partition.state.known for partition in partitions.values()) else None

    def _age(self, at: int | None) -> float | None:
        return None if at is None else max(0, self._now - at) / 1000


def _known(ages: Iterable[float | None], all_known: bool) -> float | None:
    """Return the largest age that is known; None when none is, 0 when there are none."""
    return max((age for age in ages if age is not None), default=0.0 if all_known else None)
