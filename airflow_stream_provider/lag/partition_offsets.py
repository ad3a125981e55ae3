"""Start and end offsets of all partitions that some queries read; each partition is asked once for all queries."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_stream_provider.kafka.answers import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, Problem, named
from airflow_stream_provider.lag.batched_lookup import OffsetSearch, search_together
from airflow_stream_provider.lag.byte_retention import KEYS, SizeLimit, size_limit
from airflow_stream_provider.lag.committed_offsets import Committed, Missing
from airflow_stream_provider.lag.report import PartitionLag, PartitionState
from airflow_stream_provider.lag.transactions import OpenTransactions, may_wait_before_markers, pass_markers

if TYPE_CHECKING:
    from kafka import TopicPartition
    from kafka.structs import OffsetAndTimestamp

    from airflow_stream_provider.kafka.client import KafkaClient
    from airflow_stream_provider.kafka.records import RecordBatch

# A new leader may return an end that is too small (KAFKA-7703). Spark, too, asks again after a second.
RETRY_END_SECONDS = 1.0
EARLIEST, LATEST = -2, -1

_STATES = {
    UNKNOWN_TOPIC_OR_PARTITION: PartitionState.UNKNOWN_TOPIC,
    LEADER_NOT_AVAILABLE: PartitionState.NO_LEADER,
}


class PartitionOffsets:
    """The offsets of all partitions that these queries read, as they are now (`at`, seconds since 1970).

    A partition that could not be read once is unknown from then on and is not asked again.

    :raises StreamError: Kafka does not answer, or refuses the connection.
    """

    def __init__(self, client: KafkaClient, queries: Sequence[Committed]) -> None:
        self._client = client
        self._problems: dict[TopicPartition, Problem] = {}
        self._retention_problems: dict[str, str] = {}
        self._leaders: dict[TopicPartition, int] = {}
        # By topic, once `retention` has asked: how large its partitions may grow.
        self.size_limits: dict[str, SizeLimit] = {}
        # By topic; Kafka gives each topic an id of its own, also one of the same name. Empty before Kafka 2.8.
        self.topic_ids: dict[str, str] = {}
        self._partitions = self._describe(queries)
        # By identity: offsets have no hash. Thousands of partitions are sorted only once.
        self._read = {id(query): self._partitions_of(query) for query in queries}
        by_level: dict[bool, set[TopicPartition]] = {}
        for query in queries:
            for tp in self.partitions(query):
                by_level.setdefault(query.reads_committed(tp.topic), set()).add(tp)
        self._starts = self._offsets(set().union(*by_level.values()), EARLIEST, False)
        self._ends = {level: self._offsets(partitions, LATEST, level) for level, partitions in by_level.items()}
        self._retry_ends(queries)
        # Asked after the last stable offsets, so that these are never ahead of the high watermark.
        self._watermarks = self._offsets(by_level.get(True, ()), LATEST, False)
        self.at = time.time()
        self._batches = self._ask_batches(queries)

    def partitions(self, query: Committed) -> list[TopicPartition]:
        """Return the partitions that a query reads: those it has committed and those Spark will discover."""
        return self._read[id(query)]

    def _partitions_of(self, query: Committed) -> list[TopicPartition]:
        from kafka import TopicPartition

        known = (*query.offsets.items(), *query.assigned.items())
        found = {TopicPartition(topic, number) for topic, numbers in known for number in numbers}
        if query.missing is not Missing.NOT_READ:
            found.update(tp for topic in query.offsets for tp in self._partitions[topic])
        return sorted(found)

    def lag(self, query: Committed, partition: TopicPartition) -> PartitionLag:
        """Return the lag of a query in one partition; verdict and times are added later."""
        committed = query.committed(partition)
        if partition in self._problems:
            state = _STATES.get(self._problems[partition].code, PartitionState.UNREADABLE)
            return PartitionLag(partition.topic, partition.partition, state, committed)
        level = query.reads_committed(partition.topic)
        end, start = self._ends[level][partition], self._starts[partition]
        if committed is None:
            unknown = query.missing is Missing.UNKNOWN and start < end
            state = PartitionState.NO_COMMIT if unknown else PartitionState.NEW_PARTITION
        else:
            state = PartitionState.AHEAD_OF_END if committed > end else PartitionState.OK
        held = max(0, self._watermarks[partition] - end) if level else None
        found = PartitionLag(partition.topic, partition.partition, state, committed, start, end, held)
        if query.after_records and may_wait_before_markers(committed, start, end):
            pass_markers(found, self._batches.get(partition))
        return found

    def readable(self, partition: TopicPartition) -> bool:
        """Return whether Kafka has answered every request about a partition so far."""
        return partition not in self._problems

    def problem(self, partitions: Mapping[TopicPartition, PartitionLag]) -> str:
        """Return the first reason why something about these partitions is unknown; empty when all is known."""
        for partition, lag in partitions.items():
            if not lag.state.known:
                return self._problems[partition].reason if partition in self._problems else _reason(lag)
        topics = {partition.topic for partition in partitions}
        return next((reason for topic, reason in self._retention_problems.items() if topic in topics), "")

    def search(self, searches: Sequence[OffsetSearch[TopicPartition, Any]]) -> list[Any]:
        """Run offset searches together and return their results.

        Kafka names records behind an open transaction, too: who reads committed records only does not read so far.
        """

        def lookup(times: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
            found = self._ask(times, False)
            return {tp: (each.offset, each.timestamp) for tp, each in found.items() if each.offset >= 0}

        return search_together(lookup, searches)

    def retention(self, topics: Iterable[str]) -> dict[str, float | None]:
        """Return the retention of each topic in seconds; None where nothing is deleted by age, or it is unknown."""
        wanted = set(topics)
        if not wanted:
            return {}
        answers = self._client.configs(topics=wanted, keys=("retention.ms", *KEYS))
        for topic, problem in answers.problems.items():
            self._no_retention(str(topic), problem.reason)
        limits = {topic: size_limit(answers.get(topic, {})) for topic in wanted}
        self.size_limits = {topic: limit for topic, limit in limits.items() if limit is not None}
        return {topic: retention_seconds(answers.get(topic, {})) for topic in wanted}

    def sizes(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return how many bytes partitions of topics with a limit have; those that no broker tells of are left out."""
        local = [tp for tp in partitions if not self.size_limits[tp.topic].remote]
        leaders = {self._leaders[tp] for tp in local if tp in self._leaders}
        answers = self._client.log_folders(local, leaders) if local else {}
        found = {
            tp: folder.sizes[tp]
            for tp in local
            for folder in answers.get(self._leaders.get(tp, -1), ())
            if tp in folder.sizes
        }
        for tp in partitions:
            if tp not in found:
                why = "part of it is in remote storage" if tp not in local else "DESCRIBE on the cluster is needed"
                self._no_retention(tp.topic, f"the size that its `retention.bytes` limits is not told ({why}).")
        return found

    def _no_retention(self, topic: str, why: str) -> None:
        reason = f"When Kafka deletes unread records of the topic {topic} is unknown: {why}"
        self._retention_problems.setdefault(topic, reason)

    def transactions(self, held: Collection[TopicPartition]) -> OpenTransactions:
        """Return the open transactions, asked only if some partitions have records behind one.

        A transaction may end between two requests: then the last stable offset has moved.
        """
        if not held:
            return OpenTransactions(self.at)
        answers = self._client.transactions()
        problem = next((each.reason for each in answers.problems.values()), "")
        listed = [transaction for of_broker in answers.values() for transaction in of_broker]
        found = OpenTransactions(time.time(), listed, (), problem)
        unknown = [tp for tp in held if not found.knows(tp)]
        ends = self._offsets(unknown, LATEST, True)
        over = {tp for tp in unknown if ends.get(tp, 0) > self._ends[True][tp]}
        return OpenTransactions(time.time(), listed, over, problem)

    def retention_known(self, topics: Iterable[str]) -> bool:
        """Return whether it is known when Kafka deletes the records of these topics."""
        return not self._retention_problems.keys() & set(topics)

    def _describe(self, queries: Sequence[Committed]) -> dict[str, list[TopicPartition]]:
        from kafka import TopicPartition

        wanted = {topic for query in queries for topic in (*query.offsets, *query.assigned)}
        found: dict[str, list[TopicPartition]] = {topic: [] for topic in wanted}
        topics = self._client.topics(wanted)
        for topic, described in topics.items():
            found[topic] = [TopicPartition(topic, each["partition_index"]) for each in described["partitions"]]
            if described["topic_id"] is not None and described["topic_id"].int:
                self.topic_ids[topic] = str(described["topic_id"])
            leaders = (each["leader_id"] for each in described["partitions"])
            self._leaders.update(zip(found[topic], leaders, strict=True))
        for query in queries:
            for topic, numbers in (*query.offsets.items(), *query.assigned.items()):
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

    def _ask_batches(self, queries: Sequence[Committed]) -> Mapping[TopicPartition, tuple[RecordBatch, ...]]:
        """Return what lies at the ends of logs where markers of transactions may be all that is not committed.

        For all queries in one go. Partitions that cannot be read, say without READ on the topic, are left out.
        """
        wanted: dict[TopicPartition, int] = {}
        for query in queries:
            ends = self._ends[query.read_committed] if query.after_records else {}
            for tp in self.partitions(query):
                committed, start, end = query.committed(tp), self._starts.get(tp), ends.get(tp)
                if start is None or end is None or committed is None or start == end:
                    continue
                if may_wait_before_markers(committed, start, end):
                    position = max(committed, start)
                    wanted[tp] = min(position, wanted.get(tp, position))
        return self._client.batches(wanted) if wanted else {}

    def _retry_ends(self, queries: Sequence[Committed]) -> None:
        """Ask once more for ends that lie before a committed offset, for all queries in one go."""
        ahead: dict[bool, set[TopicPartition]] = {}
        for query in queries:
            for tp in self.partitions(query):
                level, committed = query.reads_committed(tp.topic), query.committed(tp) or 0
                if committed > self._ends[level].get(tp, committed):
                    ahead.setdefault(level, set()).add(tp)
        if any(ahead.values()):
            time.sleep(RETRY_END_SECONDS)
            for level, partitions in ahead.items():
                self._ends[level].update(self._offsets(partitions, LATEST, level))


def _reason(lag: PartitionLag) -> str:
    where = named(lag.topic, lag.partition)
    if lag.state is PartitionState.NO_COMMIT:
        return f"There is no commit for {where}."
    return (
        f"{where[0].upper()}{where[1:]} ends at {lag.end}, before what is committed ({lag.committed}): "
        "the topic was recreated or truncated."
    )


def retention_seconds(settings: Mapping[str, str | None]) -> float | None:
    """Return `retention.ms` of a topic in seconds; None where nothing is deleted by age, or it is unknown.

    :param settings: `retention.ms` and `cleanup.policy`, as the brokers tell them.
    """
    milliseconds = int(settings.get("retention.ms") or -1)
    deletes = "delete" in (settings.get("cleanup.policy") or "")
    return milliseconds / 1000 if deletes and milliseconds >= 0 else None
