"""The lag report: how far queries are behind Kafka. Pure values.

Times are seconds. An unknown number is None, never zero, and is left out of sums.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from airflow_stream_provider.lag.burrow import GroupVerdict as GroupVerdict
from airflow_stream_provider.lag.burrow import Verdict as Verdict
from airflow_stream_provider.lag.burrow import group_verdict


class PartitionState(StrEnum):
    """Whether the lag of one partition is known, and why not."""

    OK = "ok"
    NEW_PARTITION = (
        "new_partition"  # no commit yet; Spark will read it from the start of its log, so all its records count
    )
    NO_COMMIT = "no_commit"  # the group has not committed it, and where its consumers will begin is unknown
    NO_LEADER = "no_leader"  # it has no leader, so Kafka cannot serve it now
    UNKNOWN_TOPIC = "unknown_topic"  # the topic, or this partition of it, does not exist
    UNREADABLE = "unreadable"  # Kafka refused or did not answer; the query's `problem` says why
    AHEAD_OF_END = "ahead_of_end"  # the commit is past the log end: the topic was recreated or truncated

    @property
    def known(self) -> bool:
        """Whether the lag is known in this state."""
        return self is PartitionState.OK or self is PartitionState.NEW_PARTITION


@dataclass
class PartitionLag:
    """The lag of one partition.

    :param committed: next offset that the query reads.
    :param log_start: offset of the first record that Kafka still has.
    :param end: log end for the query's isolation level.
    :param markers: offsets right behind `committed` that hold only markers of transactions, and count as committed.
    :param loss_known: False when the one offset that Kafka deleted may have been such a marker; `lost` is then 0.
    :param held: records behind an open transaction (high watermark minus last stable offset); None when the query reads
        uncommitted records too.
    :param seconds: age of the oldest unread record, an estimate for display.
    :param commit_age: seconds since the query's last commit.
    :param verdict: Burrow's; None when there are too few commits or the lag is unknown.

    Not frozen: a frozen one takes three times as long to make, and there may be thousands.
    """

    topic: str
    partition: int
    state: PartitionState
    committed: int | None = None
    log_start: int | None = None
    end: int | None = None
    held: int | None = None
    seconds: float | None = None
    commit_age: float | None = None
    verdict: Verdict | None = None
    markers: int = 0
    loss_known: bool = True

    @property
    def raw_lag(self) -> int | None:
        """`end` minus `committed`; negative when the commit is past the end."""
        return None if self.end is None or self.committed is None else self.end - self.committed

    @property
    def lag(self) -> int | None:
        """Records that Kafka has and the query has not committed, never negative; None when unknown."""
        position = self.position
        if self.end is None or position is None or not self.state.known:
            return None
        return max(0, self.end - position)

    @property
    def position(self) -> int | None:
        """Next offset to be read: `committed` and the markers behind it, or `log_start` if that is larger."""
        if self.log_start is None or self.committed is None:
            return self.committed if self.log_start is None else self.log_start
        return max(self.committed + self.markers, self.log_start)

    @property
    def lost(self) -> int:
        """Records that Kafka deleted before they were read."""
        if not self.state.known or not self.loss_known or self.log_start is None or self.committed is None:
            return 0
        return max(0, self.log_start - self.committed - self.markers)


# A coordinator looks for transactions to abort every ten seconds by default; a minute is plenty.
ABORT_SECONDS = 60.0


@dataclass(frozen=True)
class QueryLag:
    """The lag of one query, or consumer group.

    :param commit_age: seconds since its last commit.
    :param batch: number of its last committed batch.
    :param seconds: age of the oldest record that is not committed, for display; 0 when there is none.
    :param ages_known: False when the age of some unread record is unknown; `seconds` is then a lower bound.
    :param retention_seconds: at least so many seconds until Kafka deletes a record that is not committed, by the
        topic's `retention.ms`, or by its `retention.bytes` at the pace at which the log was written; None: not soon, or
        unknown.
    :param retention_known: False when it is unknown when some unread record is deleted.
    :param held_seconds: for how long the transaction that hides records has been open, by its coordinator; of several
        the one that is the longest beyond its own timeout; 0 without any, None = unknown or not a reader of committed
        records.
    :param held_timeout: after how long the coordinator aborts that transaction.
    :param held_by: its transactional id.
    :param problem: why something is unknown, one sentence.
    :param found: False when Kafka has no commit of this group.
    :param retained: seconds for which the topic of `retention_seconds` keeps its records.
    :param id: Spark's id of the query; empty when unknown, or of a group.
    :param topic_ids: Kafka's id of each topic, as far as it is known.
    :param recreated: topics that were deleted and made anew since the query began to read them.
    :param unread_before: by each moment that was asked for (seconds since 1970), whether a record older than that is
        not committed: exact, None = unknown.
    :param unread_for: the same by age in seconds at the measurement.
    :param quiet_until: until when it may commit nothing more by its own promise, seconds since 1970; None = not known.

    The properties are cached: there may be thousands of partitions, and hundreds of sensors that share a report.
    """

    query: str
    partitions: tuple[PartitionLag, ...] = ()
    commit_age: float | None = None
    batch: int | None = None
    seconds: float | None = None
    retention_seconds: float | None = None
    held_seconds: float | None = None
    held_timeout: float = 900.0
    held_by: str = ""
    problem: str = ""
    found: bool = True
    retained: float = math.inf
    ages_known: bool = True
    retention_known: bool = True
    id: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    recreated: tuple[str, ...] = ()
    unread_before: Mapping[float, bool | None] = field(default_factory=dict)
    unread_for: Mapping[float, bool | None] = field(default_factory=dict)
    quiet_until: float | None = None

    @cached_property
    def _lags(self) -> tuple[int | None, ...]:
        return tuple(partition.lag for partition in self.partitions)

    @cached_property
    def unknown(self) -> tuple[PartitionLag, ...]:
        """The partitions whose lag is unknown."""
        return tuple(p for p, lag in zip(self.partitions, self._lags, strict=False) if lag is None)

    @cached_property
    def complete(self) -> bool:
        """Whether every partition's lag is known; False for a query without partitions."""
        return bool(self.partitions) and None not in self._lags

    @cached_property
    def records(self) -> int | None:
        """Sum of the known lags; None when none is known."""
        known = [lag for lag in self._lags if lag is not None]
        return sum(known) if known else None

    @cached_property
    def max_records(self) -> int | None:
        """Largest known lag of a partition; None when none is known."""
        return None if self.worst is None else self.worst.lag

    @cached_property
    def worst(self) -> PartitionLag | None:
        """The partition with the largest known lag; None when none is known."""
        return max((p for p in self.partitions if p.lag is not None), key=lambda p: p.lag or 0, default=None)

    @cached_property
    def furthest(self) -> tuple[PartitionLag, ...]:
        """At most 100 partitions to look at first: those with unknown lag, then those with the largest lag."""
        unknown = self.unknown[:100]
        known = (partition for partition in self.partitions if partition.lag is not None)
        return (*unknown, *heapq.nlargest(100 - len(unknown), known, key=lambda p: p.lag or 0))

    @cached_property
    def by_verdict(self) -> Mapping[Verdict | None, tuple[PartitionLag, ...]]:
        """The partitions, grouped by Burrow's verdict."""
        found: dict[Verdict | None, list[PartitionLag]] = {}
        for partition in self.partitions:
            found.setdefault(partition.verdict, []).append(partition)
        return {verdict: tuple(partitions) for verdict, partitions in found.items()}

    @cached_property
    def lost(self) -> int:
        """Records that Kafka deleted before they were read."""
        return sum(partition.lost for partition in self.partitions)

    @cached_property
    def verdict(self) -> GroupVerdict:
        """Burrow's verdict on all partitions together; NOTFOUND when Kafka has no commit of this group."""
        if not self.found:
            return GroupVerdict.NOTFOUND
        return group_verdict(self.by_verdict or [None])

    def older(self, seconds: float) -> bool | None:
        """Return whether a record older than this is not committed; None when that is unknown.

        Exact for an age that was asked for; for any other one by `seconds`.
        """
        if seconds in self.unread_for:
            return self.unread_for[seconds]
        if self.seconds is not None and self.seconds > seconds:
            return True
        return False if self.complete and self.ages_known and self.seconds is not None else None

    def alarm(self, alarm: Alarm, ceilings: Ceilings) -> bool | None:
        """Return whether an alarm is raised beyond these ceilings; None when that cannot be judged."""
        if alarm is Alarm.COMMIT_AGE:
            return self._commit_age(ceilings.commit_age)
        if alarm is Alarm.RETENTION:
            # A topic that keeps records for less than the ceiling would always raise it: half of its retention counts.
            ceiling = min(ceilings.retention, self.retained / 2)
            if self.retention_seconds is not None and self.retention_seconds < ceiling:
                return True
            return False if self.retention_known else None
        if alarm is Alarm.STUCK_TRANSACTION:
            if self.held_seconds is None:
                return None if any(partition.held for partition in self.partitions) else False
            overdue = self.held_timeout + ABORT_SECONDS if ceilings.transaction is None else ceilings.transaction
            return self.held_seconds > overdue
        if alarm is Alarm.TOPIC_RECREATED:
            return bool(self.recreated)
        if self.lost > 0:
            return True
        return False if all(partition.loss_known for partition in self.partitions) else None

    def _commit_age(self, ceiling: float | None) -> bool | None:
        if ceiling is None or (self.commit_age is not None and self.commit_age <= ceiling):
            return False
        old = self.older(ceiling)
        return old if not old or self.commit_age is not None else None

    def alarms(self, ceilings: Ceilings) -> tuple[Alarm, ...]:
        """Return the alarms that are raised beyond these ceilings."""
        return tuple(alarm for alarm in Alarm if self.alarm(alarm, ceilings))

    def undecided(self, ceilings: Ceilings) -> tuple[Alarm, ...]:
        """Return the alarms that cannot be judged, because what they are about is unknown."""
        return tuple(alarm for alarm in Alarm if self.alarm(alarm, ceilings) is None)


class Alarm(StrEnum):
    """Dangers that Burrow's rules do not detect."""

    COMMIT_AGE = "COMMIT_AGE"  # no commit for longer than the ceiling, while an unread record is as old
    RETENTION = "RETENTION"  # Kafka is about to delete unread records
    STUCK_TRANSACTION = (
        "STUCK_TRANSACTION"  # an open transaction hides records, so that the lag looks smaller than it is
    )
    LOST_DATA = "LOST_DATA"  # Kafka deleted unread records
    TOPIC_RECREATED = "TOPIC_RECREATED"  # the offsets count in a topic that was deleted; one of its name was made anew


@dataclass(frozen=True)
class Ceilings:
    """Limits beyond which alarms are raised, in seconds.

    :param commit_age: time since the last commit; None = not judged. Burrow has no such limit, and takes nine days to
        notice that a daily batch is missing.
    :param retention: how long before the deletion of unread records, or half of the topic's retention if that is less.
    :param transaction: how long a transaction may be open. Default: its own timeout, which Kafka limits by
        `transaction.max.timeout.ms`, and a minute; one that is open for longer hangs (KIP-664).
    """

    commit_age: float | None = None
    retention: float = 3600.0
    transaction: float | None = None


@dataclass(frozen=True)
class LagReport:
    """The lag of all queries of a stream, or of a consumer group, at one moment (`at`, seconds since 1970)."""

    at: float
    queries: tuple[QueryLag, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the lag of every partition is known."""
        return bool(self.queries) and all(query.complete for query in self.queries)

    @property
    def records(self) -> int | None:
        """Largest known lag of a query, in records; None when none is known."""
        return max((query.records for query in self.queries if query.records is not None), default=None)

    @property
    def seconds(self) -> float | None:
        """Age of the oldest record that a query has not committed; None when none is known."""
        return max((query.seconds for query in self.queries if query.seconds is not None), default=None)

    @property
    def verdict(self) -> GroupVerdict:
        """The worst of the queries' verdicts; UNKNOWN without queries."""
        found = {query.verdict for query in self.queries}
        order = (GroupVerdict.ERR, GroupVerdict.WARN, GroupVerdict.NOTFOUND, GroupVerdict.UNKNOWN, GroupVerdict.OK)
        return next((verdict for verdict in order if verdict in found), GroupVerdict.UNKNOWN)

    def unread_before(self, moment: float) -> bool | None:
        """Return whether a record older than a moment is not committed; None when that is unknown, or was not asked.

        :param moment: seconds since 1970.
        """
        found = {query.unread_before.get(moment) for query in self.queries}
        if True in found:
            return True
        return False if found == {False} else None
