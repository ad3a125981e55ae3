"""How far a stream is behind Kafka: the values that are measured, carried, shown and judged. Pure.

Everything counts records and offsets by partition; times are seconds. What is not known is None, never zero, and no sum
contains it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from airflow_stream_provider.lag.burrow import GroupVerdict, Verdict, evaluate, group_verdict

__all__ = [
    "Alarm",
    "Ceilings",
    "GroupVerdict",
    "LagReport",
    "PartitionLag",
    "PartitionState",
    "QueryLag",
    "Verdict",
    "evaluate",
    "group_verdict",
]


class PartitionState(StrEnum):
    """How well the numbers of one partition are known."""

    OK = "ok"
    NEW_PARTITION = "new_partition"  # not read yet: counts from the start of its log, where Spark begins
    NO_COMMIT = "no_commit"  # a group that has not committed it: where it begins is not known
    NO_LEADER = "no_leader"  # Kafka cannot serve it now
    UNKNOWN_TOPIC = "unknown_topic"  # the topic, or this partition of it, does not exist
    UNREADABLE = "unreadable"  # refused, or no answer; the query's `problem` says why
    AHEAD_OF_END = "ahead_of_end"  # committed more than there is: the topic was made anew, or cut off

    @property
    def known(self) -> bool:
        """Whether there is a lag to speak of."""
        return self is PartitionState.OK or self is PartitionState.NEW_PARTITION


@dataclass
class PartitionLag:
    """One partition. Offsets are the next to be read; `end` is that of the query's own isolation level.

    `held`: records that stand behind an open transaction (high watermark minus last stable offset); None when the query
    reads them anyway. `seconds`: an estimate, for display, of the age of its oldest unread record. `commit_age`:
    seconds since the query's last commit. `verdict`: Burrow's, None when it cannot be judged.

    Not frozen, as making it then takes three times as long: there may be thousands.
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

    @property
    def raw_lag(self) -> int | None:
        """End minus committed as they were read; negative when the commit is ahead of the end."""
        return None if self.end is None or self.committed is None else self.end - self.committed

    @property
    def lag(self) -> int | None:
        """Records that are there and not committed, never negative; None when not known."""
        position = self.position
        if self.end is None or position is None or not self.state.known:
            return None
        return max(0, self.end - position)

    @property
    def position(self) -> int | None:
        """Where reading goes on: what is committed, or the start of the log if that is later."""
        if self.log_start is None or self.committed is None:
            return self.committed if self.log_start is None else self.log_start
        return max(self.committed, self.log_start)

    @property
    def lost(self) -> int:
        """Records that Kafka deleted before they were read."""
        known = self.state.known and self.log_start is not None and self.committed is not None
        return max(0, self.log_start - self.committed) if known else 0  # type: ignore[operator]


@dataclass(frozen=True)
class QueryLag:
    """One query, or consumer group.

    `commit_age`: seconds since its last commit. `batch`: its number. `seconds`: age of the oldest record that is not
    committed, exact within a second; 0 when there is none. `retention_seconds`: until Kafka deletes, by the topic's
    `retention.ms`, a record that is not committed (not less; None: never, or not known). `held_seconds`: age of the
    oldest record behind an open transaction. `problem`: why it, or a part of it, is not known. `retained`: seconds for
    which the topic of `retention_seconds` keeps its records.

    What follows from the partitions is worked out once: there may be thousands, and hundreds of sensors that ask.
    """

    query: str
    partitions: tuple[PartitionLag, ...] = ()
    commit_age: float | None = None
    batch: int | None = None
    seconds: float | None = None
    retention_seconds: float | None = None
    held_seconds: float | None = None
    problem: str = ""
    found: bool = True
    retained: float = math.inf

    @cached_property
    def _lags(self) -> tuple[int | None, ...]:
        return tuple(partition.lag for partition in self.partitions)

    @cached_property
    def unknown(self) -> tuple[PartitionLag, ...]:
        """The partitions whose lag is not known."""
        return tuple(p for p, lag in zip(self.partitions, self._lags, strict=False) if lag is None)

    @cached_property
    def complete(self) -> bool:
        """Whether every partition's lag is known; one that cannot be read at all has none and is not."""
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
        """The partitions to look at first, at most 100: those that are not known, then by their lag."""
        unknown = self.unknown[:100]
        known = (partition for partition in self.partitions if partition.lag is not None)
        return (*unknown, *heapq.nlargest(100 - len(unknown), known, key=lambda p: p.lag or 0))

    @cached_property
    def by_verdict(self) -> Mapping[Verdict | None, tuple[PartitionLag, ...]]:
        """The partitions by Burrow's verdict on them."""
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
        """Burrow's verdict on all its partitions; UNKNOWN when nothing is known, NOTFOUND when nobody committed."""
        if not self.found:
            return GroupVerdict.NOTFOUND
        return group_verdict(self.by_verdict or [None])

    def alarms(self, ceilings: Ceilings) -> tuple[Alarm, ...]:
        """Return what is wrong beyond Burrow's rules."""
        found = []
        waits = min(self.commit_age or 0.0, self.seconds or 0.0)
        if ceilings.commit_age is not None and waits > ceilings.commit_age:
            found.append(Alarm.COMMIT_AGE)
        # Of what is kept for less than the ceiling, everything that waits would be about to be deleted.
        if self.retention_seconds is not None and self.retention_seconds < min(ceilings.retention, self.retained / 2):
            found.append(Alarm.RETENTION)
        if self.held_seconds is not None and self.held_seconds > ceilings.transaction:
            found.append(Alarm.STUCK_TRANSACTION)
        if self.lost:
            found.append(Alarm.LOST_DATA)
        return tuple(found)


class Alarm(StrEnum):
    """What Burrow's rules do not see."""

    COMMIT_AGE = "COMMIT_AGE"  # nothing committed for longer than the ceiling, while a record as old waits
    RETENTION = "RETENTION"  # Kafka is about to delete records that are not read
    STUCK_TRANSACTION = "STUCK_TRANSACTION"  # an open transaction hides records that look like no lag
    LOST_DATA = "LOST_DATA"  # Kafka has deleted records that were not read


@dataclass(frozen=True)
class Ceilings:
    """Beyond what an alarm is raised; seconds.

    `commit_age`: None = not judged. Burrow has no such ceiling and takes nine days to miss a daily batch. `retention`:
    how long before the deletion, or half of the time that a topic keeps its records, if that is less. `transaction`:
    the broker's `transaction.max.timeout.ms` (15 min) and a minute: no transaction may be open for longer, so one that
    is hangs (KIP-664).
    """

    commit_age: float | None = None
    retention: float = 3600.0
    transaction: float = 960.0


@dataclass(frozen=True)
class LagReport:
    """All queries of a stream at one moment (`at`, seconds since 1970)."""

    at: float
    queries: tuple[QueryLag, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether everything is known."""
        return bool(self.queries) and all(query.complete for query in self.queries)

    @property
    def records(self) -> int | None:
        """Known lag of the slowest query; None when none is known."""
        return max((query.records for query in self.queries if query.records is not None), default=None)

    @property
    def seconds(self) -> float | None:
        """Age of the oldest record that some query has not committed; None when none is known."""
        return max((query.seconds for query in self.queries if query.seconds is not None), default=None)

    @property
    def verdict(self) -> GroupVerdict:
        """The worst of the queries' verdicts; UNKNOWN without queries."""
        found = {query.verdict for query in self.queries}
        order = (GroupVerdict.ERR, GroupVerdict.WARN, GroupVerdict.NOTFOUND, GroupVerdict.UNKNOWN, GroupVerdict.OK)
        return next((verdict for verdict in order if verdict in found), GroupVerdict.UNKNOWN)

    def late(self, seconds: float) -> bool | None:
        """Return whether a record older than this is not committed; None when that is not known."""
        if self.seconds is not None and self.seconds > seconds:
            return True
        known = self.complete and all(query.seconds is not None for query in self.queries)
        return False if known else None
