"""Where the logs begin and end that some queries read: each partition asked once for all of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.kafka.requests import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, Problem, named
from airflow_stream_provider.lag.batched_lookup import Asking, look_up_together
from airflow_stream_provider.lag.committed_offsets import Committed, Missing
from airflow_stream_provider.lag.report import PartitionLag, PartitionState

if TYPE_CHECKING:
    from kafka import TopicPartition
    from kafka.structs import OffsetAndTimestamp

    from airflow_stream_provider.kafka.client import KafkaClient

# A leader that has just changed can name an end that is too small (KAFKA-7703); Spark too looks again after a second.
LOOK_AGAIN_SECONDS = 1.0
EARLIEST, LATEST = -2, -1

_STATES = {
    UNKNOWN_TOPIC_OR_PARTITION: PartitionState.UNKNOWN_TOPIC,
    LEADER_NOT_AVAILABLE: PartitionState.NO_LEADER,
}


class Logs:
    """The logs of all partitions that these queries read, as they are now (`at`, seconds since 1970).

    A partition that once could not be read is not asked again, and unknown from then on.

    :raises StreamError: Kafka does not answer, or refuses us altogether.
    """

    def __init__(self, client: KafkaClient, queries: Sequence[Committed]) -> None:
        self._client = client
        self._problems: dict[TopicPartition, Problem] = {}
        self._retention_problems: dict[str, str] = {}
        self._partitions = self._describe(queries)
        # By identity: offsets have no hash. Putting thousands of partitions in order is done once.
        self._read = {id(query): self._partitions_of(query) for query in queries}
        by_level: dict[bool, set[TopicPartition]] = {}
        for query in queries:
            by_level.setdefault(query.read_committed, set()).update(self.partitions(query))
        self._starts = self._offsets(set().union(*by_level.values()), EARLIEST, False)
        self._ends = {level: self._offsets(partitions, LATEST, level) for level, partitions in by_level.items()}
        self._look_again(queries)
        # After the last stable offsets, which then are never ahead of it.
        self._watermarks = self._offsets(by_level.get(True, ()), LATEST, False)
        self.at = time.time()

    def partitions(self, query: Committed) -> list[TopicPartition]:
        """Return the partitions that a query reads: what it has committed, and what it will find."""
        return self._read[id(query)]

    def _partitions_of(self, query: Committed) -> list[TopicPartition]:
        from kafka import TopicPartition

        found = {TopicPartition(topic, number) for topic, numbers in query.offsets.items() for number in numbers}
        if query.missing is not Missing.NOT_READ:
            found.update(tp for topic in query.offsets for tp in self._partitions[topic])
        return sorted(found)

    def lag(self, query: Committed, partition: TopicPartition) -> PartitionLag:
        """Return where a query stands in one of its partitions."""
        committed = query.offsets[partition.topic].get(partition.partition)
        if partition in self._problems:
            state = _STATES.get(self._problems[partition].code, PartitionState.UNREADABLE)
            return PartitionLag(partition.topic, partition.partition, state, committed)
        end, start = self._ends[query.read_committed][partition], self._starts[partition]
        if committed is None:
            unknown = query.missing is Missing.UNKNOWN and start < end
            state = PartitionState.NO_COMMIT if unknown else PartitionState.NEW_PARTITION
        else:
            state = PartitionState.AHEAD_OF_END if committed > end else PartitionState.OK
        held = max(0, self._watermarks[partition] - end) if query.read_committed else None
        return PartitionLag(partition.topic, partition.partition, state, committed, start, end, held)

    def readable(self, partition: TopicPartition) -> bool:
        """Whether all that was asked of a partition was answered so far."""
        return partition not in self._problems

    def problem(self, partitions: Mapping[TopicPartition, PartitionLag]) -> str:
        """Return why something of these partitions is not known, the first reason of perhaps many; or nothing."""
        for partition, lag in partitions.items():
            if not lag.state.known:
                return self._problems[partition].reason if partition in self._problems else _reason(lag)
        topics = {partition.topic for partition in partitions}
        return next((reason for topic, reason in self._retention_problems.items() if topic in topics), "")

    def ask(self, askings: Sequence[tuple[bool, Asking[TopicPartition, Any]]]) -> list[Any]:
        """Return what each of them finds out; the first of each pair is whether it reads committed records only."""
        results: list[Any] = [None] * len(askings)
        for level in (False, True):
            numbers = [number for number, (read_committed, _) in enumerate(askings) if read_committed is level]

            def lookup(
                times: Mapping[TopicPartition, int], level: bool = level
            ) -> dict[TopicPartition, tuple[int, int]]:
                found = self._ask(times, level)
                return {tp: (each.offset, each.timestamp) for tp, each in found.items() if each.offset >= 0}

            for number, result in zip(numbers, look_up_together(lookup, [askings[n][1] for n in numbers]), strict=True):
                results[number] = result
        return results

    def retention(self, topics: Iterable[str]) -> dict[str, float | None]:
        """Return after how many seconds Kafka deletes a topic's records; None = never, or not to be known."""
        wanted = set(topics)
        if not wanted:
            return {}
        answers = self._client.configs(topics=wanted, keys=("cleanup.policy", "retention.ms"))
        for topic, problem in answers.problems.items():
            reason = f"When Kafka deletes unread records of the topic {topic} is not known: {problem.reason}"
            self._retention_problems[str(topic)] = reason
        return {topic: _seconds(answers.get(topic, {})) for topic in wanted}

    def _describe(self, queries: Sequence[Committed]) -> dict[str, list[TopicPartition]]:
        from kafka import TopicPartition

        wanted = {topic for query in queries for topic in query.offsets}
        found: dict[str, list[TopicPartition]] = {topic: [] for topic in wanted}
        topics = self._client.topics(wanted)
        for topic, described in topics.items():
            found[topic] = [TopicPartition(topic, each["partition_index"]) for each in described["partitions"]]
        for query in queries:
            for topic, numbers in query.offsets.items():
                if topic in topics.problems:
                    problem = topics.problems[topic]
                    self._problems.update({TopicPartition(topic, number): problem for number in numbers})
        return found

    def _ask(
        self, times: Mapping[TopicPartition, int], read_committed: bool
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        wanted = {tp: at for tp, at in times.items() if self.readable(tp)}
        if not wanted:
            return {}
        answers = self._client.offsets(wanted, read_committed)
        self._problems.update(answers.problems)
        return answers

    def _offsets(
        self, partitions: Iterable[TopicPartition], spec: int, read_committed: bool
    ) -> dict[TopicPartition, int]:
        return {tp: each.offset for tp, each in self._ask(dict.fromkeys(partitions, spec), read_committed).items()}

    def _look_again(self, queries: Sequence[Committed]) -> None:
        """Ask once more for the ends that something seems to have been read beyond, of all queries at once."""
        ahead: dict[bool, set[TopicPartition]] = {}
        for query in queries:
            ends = self._ends[query.read_committed]
            passed = (tp for tp, end in ends.items() if query.offsets.get(tp.topic, {}).get(tp.partition, end) > end)
            ahead.setdefault(query.read_committed, set()).update(passed)
        if any(ahead.values()):
            time.sleep(LOOK_AGAIN_SECONDS)
            for level, partitions in ahead.items():
                self._ends[level].update(self._offsets(partitions, LATEST, level))


def _reason(lag: PartitionLag) -> str:
    where = named(lag.topic, lag.partition)
    if lag.state is PartitionState.NO_COMMIT:
        return f"There is no commit for {where}."
    return (
        f"{where[0].upper()}{where[1:]} ends at {lag.end}, before what is committed ({lag.committed}): "
        "the topic was made anew, or cut off."
    )


def _seconds(settings: Mapping[str, str | None]) -> float | None:
    """Return `retention.ms` in seconds; None where nothing is deleted by age, or it is not known."""
    milliseconds = int(settings.get("retention.ms") or -1)
    deletes = "delete" in (settings.get("cleanup.policy") or "")
    return milliseconds / 1000 if deletes and milliseconds >= 0 else None
