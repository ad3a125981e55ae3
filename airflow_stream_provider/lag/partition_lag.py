"""How far one partition is behind, in records and offsets. Pure values; an unknown number is None, never zero."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from airflow_stream_provider.lag.burrow import Verdict


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
