"""The one client of Kafka: what this package asks a cluster for, from any thread."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_stream_provider.kafka.connect import connect, stream_error
from airflow_stream_provider.kafka.group_requests import GroupRequests
from airflow_stream_provider.kafka.list_offsets import (
    PackedListOffsetsRequest,
    PackedListOffsetsResponse,
    PartitionOffset,
)
from airflow_stream_provider.kafka.requests import Answers, Requests
from airflow_stream_provider.lifecycle.errors import StreamError

if TYPE_CHECKING:
    from kafka import TopicPartition
    from kafka.structs import OffsetAndTimestamp

T = TypeVar("T")


class KafkaClient:
    """One connection to a Kafka cluster, for as many threads as want to ask it.

    Looking never creates a topic. Not to be carried into another process: there every call raises StreamError. After
    KafkaDenied for its credentials it stays refused; make a new one.

    :param conn_id: Airflow connection id, for messages. :param extra: the connection's extra.
    :raises SpecError: the connection cannot be used. :raises BrokerUnreachable: no broker answers within 10 s.
    :raises KafkaDenied: the brokers refuse its credentials.
    """

    def __init__(self, conn_id: str, extra: Mapping[str, Any]) -> None:
        self.conn_id = conn_id
        self._process = os.getpid()
        self._closed = False
        self._admin = connect(conn_id, extra)
        self._requests = Requests(self._admin)
        self._groups = GroupRequests(self._admin, self._requests)

    def __enter__(self) -> KafkaClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close it; nothing happens the second time, or in a process that it was not made in."""
        if not self._closed and self._process == os.getpid():
            self._closed = True
            self._admin.close()

    def topics(self, names: Iterable[str] | None = None) -> Answers[str, dict[str, Any]]:
        """Describe topics, by default all: `topic_id` and `partitions`, each with its leader and replicas."""
        return self._run("to describe topics", self._requests.topics, None if names is None else sorted(set(names)))

    def create_topics(self, partitions: Mapping[str, int]) -> None:
        """Create topics with these numbers of partitions, those that are not there yet, and wait for their leaders."""
        there = self.topics(partitions)
        new = {name: {"num_partitions": count} for name, count in partitions.items() if name not in there}
        if new:
            with self._asking("to create topics"):
                self._admin.create_topics(new, wait_for_metadata=True)

    def offsets(
        self, specs: Mapping[TopicPartition, int], read_committed: bool = False
    ) -> Answers[TopicPartition, OffsetAndTimestamp]:
        """Return for each partition the offset that a spec stands for, all leaders asked side by side.

        :param specs: -2: the start of the log, -1: its end, -3: the record with the largest timestamp, or a time in
            milliseconds since 1970: the first record not older (offset -1 when there is none).
        :param read_committed: the end is the last stable offset.
        """

        def request(wanted: Mapping[TopicPartition, int]) -> PackedListOffsetsRequest:
            return PackedListOffsetsRequest(wanted, read_committed)

        def answers(response: PackedListOffsetsResponse) -> Sequence[PartitionOffset]:
            return response.found

        return self._run("for offsets", self._requests.ask_leaders, dict(specs), request, answers)

    def producers(self, partitions: Iterable[TopicPartition]) -> Answers[TopicPartition, list[dict[str, Any]]]:
        """Return the producers that each partition knows, with `current_txn_start_offset` (-1: none is open)."""

        def request(wanted: Mapping[TopicPartition, None]) -> Any:
            topics: dict[str, list[int]] = {}
            for partition in wanted:
                topics.setdefault(partition.topic, []).append(partition.partition)
            return self._admin._describe_producers_request(topics)

        def answers(found: Any) -> Iterator[tuple[str, int, int, list[dict[str, Any]]]]:
            for topic in found.topics:
                for each in topic.partitions:
                    producers = [producer.to_dict() for producer in each.active_producers]
                    yield topic.name, each.partition_index, each.error_code, producers

        return self._run("for producers", self._requests.ask_leaders, dict.fromkeys(partitions), request, answers)

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Return all that a consumer group has committed; nothing for a group that is not known.

        :raises KafkaDenied: the user may not describe the group.
        """
        from kafka.errors import for_code

        found = self.groups_offsets([group])
        if group in found.problems:
            problem = found.problems[group]
            error = for_code(problem.code)(problem.reason if problem.code < 0 else "")
            raise self._failure(f"to describe the group {group}", error)
        return found[group]

    def groups_offsets(self, groups: Iterable[str]) -> Answers[str, dict[TopicPartition, int]]:
        """Return all that these groups have committed: however many they are, one request for each coordinator.

        Kafka leaves out, without a word, the topics that the user may not describe.
        """
        wanted = sorted(set(groups))
        return self._run("to describe groups", self._groups.offsets, wanted) if wanted else Answers()

    def commit_group(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """Commit offsets for a consumer group that has no members.

        :raises StreamError: the group has members, or Kafka refuses some of them: those others are committed.
        """
        self._run(f"to commit for the group {group}", self._groups.commit, group, dict(offsets), metadata)

    def configs(
        self, *, topics: Iterable[str] = (), brokers: Iterable[int] = (), keys: Iterable[str] | None = None
    ) -> Answers[str | int, dict[str, str | None]]:
        """Return the settings in force of topics (by name) and brokers (by number), defaults included.

        :param keys: only these; by default all.
        """
        wanted = None if keys is None else sorted(keys)
        return self._run("for configs", self._requests.configs, sorted(set(topics)), sorted(set(brokers)), wanted)

    def describe_cluster(self) -> dict[str, Any]:
        """Return `cluster_id`, `controller_id` and `brokers`, each with `broker_id`, `host`, `port` and `rack`."""
        return self._run("to describe the cluster", self._admin._describe_cluster)

    def eligible_leaders(self, topics: Iterable[str]) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the replicas that could lead each partition without loss though they are out of sync (KIP-966).

        :raises StreamError: these brokers cannot say; they are older than 3.7.
        """
        from kafka import TopicPartition

        describe, names = self._admin._async_describe_topic_partitions, sorted(set(topics))
        found: dict[TopicPartition, tuple[int, ...]] = {}
        cursor: dict[str, Any] | None = None
        while names:
            page = self._run("to describe partitions", describe, names, 2000, cursor)
            for topic in page["topics"]:
                for each in topic["partitions"]:
                    brokers = {*(each["eligible_leader_replicas"] or ()), *(each["last_known_elr"] or ())}
                    found[TopicPartition(topic["name"], each["partition_index"])] = tuple(sorted(brokers))
            cursor = page["next_cursor"]
            if cursor is None:
                break
        return found

    def log_sizes(self, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the bytes of each partition's log on its leader, where that names a size."""
        from kafka import TopicPartition

        topics: dict[str, list[int]] = {}
        for partition in leaders:
            topics.setdefault(partition.topic, []).append(partition.partition)
        brokers = sorted({leader for leader in leaders.values() if leader >= 0})
        answers = self._run(
            "to describe log folders", self._admin._async_describe_log_dirs, list(topics.items()), brokers
        )
        return {
            partition: int(each["partition_size"])
            for answer in answers
            for folder in answer["log_dirs"]
            for topic in folder["topics"]
            for each in topic["partitions"]
            # A copy that is being moved to another disk has an entry of its own.
            if leaders.get(partition := TopicPartition(topic["name"], each["partition_index"])) == answer["broker"]
            and not each["is_future_key"]
        }

    @contextlib.contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        from kafka.errors import KafkaError

        if self._process != os.getpid():
            raise StreamError("This Kafka client was made in another process.", next_step="Make one after the fork.")
        if self._closed:
            raise StreamError("This Kafka client is closed.", next_step="Make a new one.")
        try:
            yield
        except (KafkaError, OSError) as error:
            raise self._failure(what, error) from error

    def _failure(self, what: str, error: Exception) -> StreamError:
        return stream_error(self.conn_id, self._admin.config["bootstrap_servers"], what, error)

    def _run(self, what: str, call: Callable[..., Awaitable[T]], *args: Any) -> T:
        with self._asking(what):
            answer: T = self._admin._manager.run(call, *args)
            return answer
