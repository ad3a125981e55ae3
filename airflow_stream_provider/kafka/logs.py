"""Where the logs begin and end that some queries read: each partition asked once for all of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_stream_provider.kafka.committed import Committed, Missing
from airflow_stream_provider.kafka.oldest import Lookup
from airflow_stream_provider.model.lag import PartitionLag, PartitionState

if TYPE_CHECKING:
    from kafka import TopicPartition

    from airflow_stream_provider.kafka.client import KafkaClient

# A leader that has just changed can name an end that is too small (KAFKA-7703); Spark too looks again after a second.
LOOK_AGAIN_SECONDS = 1.0
EARLIEST, LATEST = -2, -1


class Logs:
    """The logs of all partitions that these queries read, as they are now (`at`, seconds since 1970).

    :raises StreamError: Kafka does not answer, or refuses us altogether.
    """

    def __init__(self, client: KafkaClient, queries: Sequence[Committed]) -> None:
        self._client = client
        self._states: dict[TopicPartition, PartitionState] = {}
        self._reasons: dict[TopicPartition, str] = {}
        self._partitions = self._describe({topic for query in queries for topic in query.offsets})
        by_level: dict[bool, set[TopicPartition]] = {}
        for query in queries:
            by_level.setdefault(query.read_committed, set()).update(self.partitions(query))
        self._starts = self._offsets(set().union(*by_level.values()), EARLIEST, False)
        self._ends = {level: self._offsets(partitions, LATEST, level) for level, partitions in by_level.items()}
        for query in queries:
            self._look_again(query)
        # After the last stable offsets, which then are never ahead of it.
        self._watermarks = self._offsets(by_level.get(True, ()), LATEST, False)
        self.at = time.time()

    def partitions(self, query: Committed) -> list[TopicPartition]:
        """Return the partitions that a query reads: what it has committed, and what it will find."""
        from kafka import TopicPartition

        found = {TopicPartition(topic, number) for topic, numbers in query.offsets.items() for number in numbers}
        if query.missing is not Missing.NOT_READ:
            found.update(tp for topic in query.offsets for tp in self._partitions[topic])
        return sorted(found)

    def lag(self, query: Committed, partition: TopicPartition) -> PartitionLag:
        """Return where a query stands in one of its partitions."""
        committed = query.offsets[partition.topic].get(partition.partition)
        end, start = self._ends[query.read_committed].get(partition), self._starts.get(partition)
        if end is None or start is None:
            state = self._states.get(partition, PartitionState.UNREADABLE)
        elif committed is None and query.missing is Missing.UNKNOWN and start < end:
            state = PartitionState.NO_COMMIT
        elif committed is None:
            state = PartitionState.NEW_PARTITION
        else:
            state = PartitionState.AHEAD_OF_END if committed > end else PartitionState.OK
        watermark = self._watermarks.get(partition) if query.read_committed else None
        held = None if watermark is None or end is None else max(0, watermark - end)
        return PartitionLag(partition.topic, partition.partition, state, committed, start, end, held)

    def problem(self, partitions: Iterable[TopicPartition]) -> str:
        """Return why the first of these partitions that cannot be read cannot; empty when all can."""
        return next((self._reasons[tp] for tp in partitions if tp in self._reasons), "")

    def lookup(self, read_committed: bool) -> Lookup[TopicPartition]:
        """Return what asks for the first record not older than a time, as `oldest` and `window` do."""

        def ask(times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, tuple[int, int]]:
            found = self._ask(times, read_committed)
            return {tp: (each.offset, each.timestamp) for tp, each in found.items() if each.offset >= 0}

        return ask

    def retention(self, topics: Iterable[str]) -> Mapping[str, float | None]:
        """Return after how many seconds Kafka deletes a topic's records; None = never, or not to be known."""
        return {topic: None for topic in topics}

    def _describe(self, topics: Iterable[str]) -> dict[str, list[TopicPartition]]:
        from kafka import TopicPartition

        found = {topic: [] for topic in topics}
        for topic, described in self._client.topics(found).items():
            for partition in described["partitions"]:
                tp = TopicPartition(topic, partition["partition_index"])
                found[topic].append(tp)
                if partition["leader_id"] < 0:
                    self._states[tp] = PartitionState.NO_LEADER
        return found

    def _ask(self, times, read_committed):
        known = {tp for tps in self._partitions.values() for tp in tps}
        wanted = {tp: at for tp, at in times.items() if tp in known and tp not in self._states}
        for tp in times:
            if tp not in known:
                self._states[tp] = PartitionState.UNKNOWN_TOPIC
        return self._client.offsets(wanted, read_committed) if wanted else {}

    def _look_again(self, query: Committed) -> None:
        ends = self._ends[query.read_committed]
        ahead = [tp for tp, end in ends.items() if query.offsets.get(tp.topic, {}).get(tp.partition, end) > end]
        if ahead:
            time.sleep(LOOK_AGAIN_SECONDS)
            ends.update(self._offsets(ahead, LATEST, query.read_committed))

    def _offsets(
        self, partitions: Iterable[TopicPartition], spec: int, read_committed: bool
    ) -> dict[TopicPartition, int]:
        return {tp: each.offset for tp, each in self._ask(dict.fromkeys(partitions, spec), read_committed).items()}
