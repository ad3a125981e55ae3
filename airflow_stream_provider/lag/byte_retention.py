"""When Kafka deletes unread records because a partition grows beyond `retention.bytes`. Pure.

Kafka deletes a record by size only once `retention.bytes` lie behind it. How many bytes are unread is taken from the
unread offsets' share of the log, and in how many seconds the others fill from the pace at which the log was written.
The two numbers are those of a deletion by age: the seconds until it, and those for which the topic keeps a record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from airflow_stream_provider.lag.batched_lookup import OffsetSearch

if TYPE_CHECKING:
    from airflow_stream_provider.lag.report import PartitionLag

# The settings of a topic that `size_limit` reads.
KEYS = ("cleanup.policy", "retention.bytes", "segment.bytes", "remote.storage.enable")
# A log that was written all at once has no pace.
SHORTEST_SECONDS = 1.0

P = TypeVar("P", bound=tuple[str, int])


@dataclass(frozen=True)
class SizeLimit:
    """How large the partitions of a topic may grow.

    :param bytes: `retention.bytes`.
    :param segment: `segment.bytes`: Kafka deletes whole segments, so a log may be larger by one.
    :param remote: part of the log is in remote storage, whose size no broker tells.
    """

    bytes: int
    segment: int
    remote: bool = False

    def near(self, partition: PartitionLag) -> bool:
        """Return whether half of the bytes may be unread; if not, the log's size need not be known."""
        return _unread(partition) * (self.bytes + self.segment) > self.bytes / 2

    def left(self, partition: PartitionLag, size: int, age: float) -> tuple[float, float]:
        """Return the seconds until an unread record is deleted, and for how many seconds a record is kept.

        :param size: bytes that the log has.
        :param age: of the log's first record, in seconds.
        """
        pace = max(size, 1) / max(age, SHORTEST_SECONDS)
        return max(0.0, self.bytes - _unread(partition) * size) / pace, self.bytes / pace


def size_limit(settings: Mapping[str, str | None]) -> SizeLimit | None:
    """Return the limit of a topic; None where nothing is deleted by size.

    :param settings: those of KEYS, as the brokers tell them: a topic without its own `retention.bytes` has theirs.
    """
    limit = int(settings.get("retention.bytes") or -1)
    if limit < 0 or "delete" not in (settings.get("cleanup.policy") or ""):
        return None
    return SizeLimit(limit, int(settings.get("segment.bytes") or 0), settings.get("remote.storage.enable") == "true")


def near(limits: Mapping[str, SizeLimit], partitions: Mapping[P, PartitionLag]) -> list[P]:
    """Return the partitions whose unread records may take half of the bytes that they may have.

    :param limits: by topic.
    """
    return [tp for tp, found in partitions.items() if tp[0] in limits and found.lag and limits[tp[0]].near(found)]


def first_times(partitions: Collection[P]) -> OffsetSearch[P, dict[P, int]]:
    """Find the time of each log's first record in milliseconds since 1970, in one request; empty logs are left out."""
    answers = (yield dict.fromkeys(partitions, 0)) if partitions else {}
    return {partition: at for partition, (_, at) in answers.items()}


def left_by_size(
    crowded: Iterable[P],
    limits: Mapping[str, SizeLimit],
    sizes: Mapping[P, int],
    partitions: Mapping[P, PartitionLag],
    firsts: Mapping[P, int],
    now: int,
) -> list[tuple[float, float]] | None:
    """Return `SizeLimit.left` of each partition that is near its limit; None when one is unknown.

    :param limits: by topic.
    :param sizes: bytes of each log.
    :param firsts: what `first_times` found.
    :param now: milliseconds since 1970.
    """
    known = [tp for tp in crowded if partitions[tp].lag is not None]
    if any(tp not in sizes or tp not in firsts for tp in known):
        return None
    return [limits[tp[0]].left(partitions[tp], sizes[tp], (now - firsts[tp]) / 1000) for tp in known]


def _unread(partition: PartitionLag) -> float:
    """Return the share of the log's offsets that are unread."""
    retained = (partition.end or 0) - (partition.log_start or 0)
    return (partition.lag or 0) / retained if retained > 0 else 0.0
