"""How far a stream is behind Kafka: in records, and whether a record of a given age still waits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, TopicPartition

# Topic -> partition -> offset of the first record that is not committed, as Spark's Kafka source writes it.
Offsets = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Lag:
    """How far a stream is behind: its slowest query in `records`, all of them in `queries`.

    `late`: whether a query has not committed a record that is older than the seconds asked for; None if not asked.
    """

    records: int
    late: bool | None = None
    queries: Mapping[str, int] = field(default_factory=dict)


def is_kafka(offsets: Any) -> bool:
    """Whether a source's offset is that of Spark's Kafka source: topics, each with numbered partitions."""
    return (
        isinstance(offsets, Mapping)
        and bool(offsets)
        and all(isinstance(p, Mapping) and p and all(str(n).isdigit() for n in p) for p in offsets.values())
    )


def measure(client: KafkaAdminClient, committed: Mapping[str, Sequence[Offsets]], seconds: float | None) -> Lag:
    """Return the lag of these queries.

    :param committed: by query, the committed offsets of its Kafka sources. Read them before calling this, so that the
        end of a partition is never older than the commit it is held against.
    :param seconds: also say whether a record older than this waits. Exact: the first offset of that age or younger is
        asked from the broker, nothing is interpolated.
    :raises kafka.errors.KafkaError: a broker does not answer, or a partition is unknown or has no leader.
    """
    from kafka.admin import OffsetSpec

    partitions = {partition for sources in committed.values() for source in sources for partition, _ in _each(source)}
    if not partitions:
        return Lag(0, None if seconds is None else False, dict.fromkeys(committed, 0))
    ends = {tp: found.offset for tp, found in _list(client, partitions, OffsetSpec.LATEST).items()}
    due: dict[TopicPartition, int] = {}
    if seconds is not None:
        at = int((time.time() - seconds) * 1000)
        # -1: no record is that young, so all there is should be committed.
        due = {tp: f.offset if f.offset >= 0 else ends[tp] for tp, f in _list(client, partitions, at).items()}
    queries = {
        name: sum(max(0, ends[tp] - offset) for source in sources for tp, offset in _each(source))
        for name, sources in committed.items()
    }
    late = any(offset < due[tp] for s in committed.values() for source in s for tp, offset in _each(source) if due)
    return Lag(max(queries.values()), None if seconds is None else late, queries)


def _list(client: KafkaAdminClient, partitions: set[TopicPartition], spec: int) -> Mapping[TopicPartition, Any]:
    found: Mapping[TopicPartition, Any] = client.list_partition_offsets(dict.fromkeys(partitions, spec))
    return found


def _each(source: Offsets) -> list[tuple[TopicPartition, int]]:
    from kafka import TopicPartition

    return [(TopicPartition(t, int(p)), int(o)) for t, partitions in source.items() for p, o in partitions.items()]
