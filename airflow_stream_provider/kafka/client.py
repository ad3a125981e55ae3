"""The Kafka client of this package; it may be used from several threads."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_stream_provider.control.topic import Fetched
from airflow_stream_provider.kafka import cluster_requests
from airflow_stream_provider.kafka.answers import Answers, Problem
from airflow_stream_provider.kafka.cluster_requests import LogFolder, Quorum
from airflow_stream_provider.kafka.connect import BrokerUnreachable, KafkaDenied, KafkaThrottled, connect, stream_error
from airflow_stream_provider.kafka.coordinators import Transaction, group_offsets, open_transactions
from airflow_stream_provider.kafka.internals import Internals
from airflow_stream_provider.kafka.records import RecordBatch, fetch, fetch_batches, fetch_request, produce
from airflow_stream_provider.kafka.requests import Requests, offsets_found, offsets_request
from airflow_stream_provider.kafka.settings import OTHER_ADDRESSES, with_ports
from airflow_stream_provider.lifecycle.errors import StreamError
from airflow_stream_provider.lifecycle.kafka_source import addresses

if TYPE_CHECKING:
    from uuid import UUID

    from kafka import TopicPartition
    from kafka.structs import OffsetAndTimestamp

T = TypeVar("T")

# Bytes of messages that a partition may send at once.
READ_BYTES = 1_048_576


class KafkaClient:
    """A client for one Kafka cluster, shared by several threads.

    Only `create_topic` creates a topic. The client cannot be used after a fork: in another process every call raises
    StreamError. After the brokers refused its credentials (KafkaDenied), every further call fails; open a new client.

    :param conn_id: id of the Airflow connection, for error messages.
    :param extra: the connection's extra, with librdkafka's names.
    :raises SpecError: the connection is not valid.
    :raises BrokerUnreachable: no broker answers within 10 s.
    :raises KafkaDenied: the brokers refuse the credentials.
    """

    def __init__(self, conn_id: str, extra: Mapping[str, Any]) -> None:
        self.conn_id = conn_id
        self._process = os.getpid()
        self._closed = False
        self.refused = False
        """Whether the brokers refused its credentials, or a request: open a new one for what comes next."""
        self.unreachable_since: float | None = None
        """Monotonic time of the first request since the last answer; None: the last one was answered. kafka-python
        knows the brokers of back then only: if others have replaced all of them, only a new client finds these."""
        self._admin = connect(conn_id, extra)
        self._other_addresses = str(extra.get(OTHER_ADDRESSES, ""))
        self._kafka = Internals(self._admin)
        self._requests = Requests(self._kafka)

    def __enter__(self) -> KafkaClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the client. Does nothing if it is closed, or in a process that did not open it."""
        if not self._closed and self._process == os.getpid():
            self._closed = True
            self._admin.close()

    @property
    def addresses(self) -> tuple[str, ...]:
        """The bootstrap servers of the connection, and what else its extra calls this Kafka; as ``host:port``."""
        servers = with_ports(",".join(self._admin.config["bootstrap_servers"]))
        return addresses(",".join((*servers, self._other_addresses)))

    def topics(self, names: Iterable[str] | None = None) -> Answers[str, dict[str, Any]]:
        """Describe topics.

        :param names: the topics; default all.
        :return: `topic_id` and `partitions` of each topic, with their leaders and replicas. The id is None where topics
            have none: before Kafka 2.8, or while its brokers speak to each other as before.
        """
        return self._run("to describe topics", Requests.topics, None if names is None else sorted(set(names)))

    def offsets(
        self, specs: Mapping[TopicPartition, int], read_committed: bool = False
    ) -> Answers[TopicPartition, OffsetAndTimestamp]:
        """Return one offset for each partition. All leaders are asked at the same time.

        :param specs: which offset to return, by partition. -2: the start of the log. -1: its end. -3: the record with
            the largest timestamp. Otherwise a time in milliseconds since 1970: the first record at or after that time,
            offset -1 if there is none.
        :param read_committed: return the last stable offset as the end of the log; default False.
        """
        return self._run(
            "for offsets",
            Requests.ask_leaders,
            dict(specs),
            lambda wanted: offsets_request(wanted, read_committed),
            offsets_found,
        )

    def batches(self, positions: Mapping[TopicPartition, int]) -> Answers[TopicPartition, tuple[RecordBatch, ...]]:
        """Return the first batches of records from an offset on. All leaders are asked at the same time.

        Needs READ on the topics. A partition sends at most 16 KiB and a broker 1 MiB, so that the batches of some
        partitions, or the last ones, may be missing.

        :param positions: an offset by partition, which may lie within the first batch.
        """
        return self._run("for records", fetch_batches, positions)

    def read(
        self,
        positions: Mapping[TopicPartition, int],
        ids: Mapping[str, UUID],
        *,
        partition_bytes: int = READ_BYTES,
    ) -> Answers[TopicPartition, Fetched]:
        """Return the messages from an offset on. All leaders are asked at the same time.

        Needs READ on the topics, and Kafka 3.1 (`version_without_ids`).

        When a broker sends less than there is, read on from `Fetched.next_offset`.

        :param positions: an offset by partition.
        :param ids: of the topics, from `topics`. One that was made anew since is not read: UNKNOWN_TOPIC_ID.
        :param partition_bytes: that a partition may send; a larger message comes alone. Default 1 MiB.
        """
        return self._run("for messages", fetch, positions, ids, partition_bytes)

    def version_without_ids(self) -> str:
        """Return the version of a Kafka that cannot `read`, such as ``3.0``: before 3.1; empty if it can."""
        return self._kafka.version_without(fetch_request({}, 0, 0, {}))

    def write(
        self, partition: TopicPartition, key: bytes, value: bytes | None, headers: Mapping[str, bytes], seconds: float
    ) -> Answers[TopicPartition, int]:
        """Write one message, acknowledged by all replicas in sync, and return its offset.

        Needs WRITE on the topic. It is never sent twice; when a broker did not answer, or says that not enough
        replicas have it, it may be there all the same.

        :param seconds: that the leader waits for the replicas.
        """
        return self._run("to write", produce, partition, key, value, headers, round(seconds * 1000))

    def create_topic(self, name: str, replicas: int, settings: Mapping[str, str]) -> Problem | None:
        """Make a topic with one partition, and return why that did not succeed; None: it was made.

        Needs CREATE on the topic or on the cluster. Some brokers may not know it yet; see `is_known`.

        :param settings: the topic's own settings, by Kafka's names.
        """
        return self._run("to make a topic", cluster_requests.create_topic, name, replicas, settings)

    def is_known(self, name: str, replicas: int) -> bool:
        """Return whether every broker that answers knows the leaders of a topic, and so many replicas in sync."""
        return self._run("to describe topics", cluster_requests.is_known, name, replicas)

    def allowed(self, names: Iterable[str]) -> Answers[str, frozenset[str]]:
        """Return what the connection's user may do with topics, of READ, WRITE, DESCRIBE and DESCRIBE_CONFIGS."""
        return self._run("for its rights", cluster_requests.operations, sorted(set(names)))

    def transactions(self) -> Answers[int, tuple[Transaction, ...]]:
        """Return the open transactions of all brokers, by their coordinator's id.

        Kafka silently leaves out those whose transactional id the user may not describe.
        """
        return self._run("for open transactions", open_transactions)

    def groups_offsets(self, groups: Iterable[str]) -> Answers[str, dict[TopicPartition, int]]:
        """Return the committed offsets of several consumer groups, with two requests to each coordinator.

        -1 for a partition that a member reads now and of which Kafka tells no commit: there is none, or the user may
        not describe the topic, which Kafka then leaves out silently. Such topics are missing for a group without
        members, or with members of the protocol of KIP-848.
        """
        wanted = sorted(set(groups))
        return self._run("to describe groups", group_offsets, wanted) if wanted else Answers()

    def configs(
        self, *, topics: Iterable[str] = (), brokers: Iterable[int] = (), keys: Iterable[str] | None = None
    ) -> Answers[str | int, dict[str, str | None]]:
        """Return the effective settings of topics and brokers, including defaults.

        :param topics: names of topics.
        :param brokers: ids of brokers.
        :param keys: names of the settings to return; default all.
        """
        wanted = None if keys is None else sorted(keys)
        return self._run("for configs", Requests.configs, sorted(set(topics)), sorted(set(brokers)), wanted)

    def describe_cluster(self) -> dict[str, Any]:
        """Return `cluster_id`, `controller_id` and `brokers`, each with `broker_id`, `host`, `port` and `rack`.

        Brokers since Kafka 4.0 also list those that are fenced, and give each one `is_fenced`.
        """
        return self._run("to describe the cluster", cluster_requests.describe_cluster)

    def eligible_leaders(self, topics: Iterable[str]) -> dict[TopicPartition, tuple[int, ...]]:
        """Return each partition's eligible leader replicas: out of sync, but able to lead without loss (KIP-966).

        :raises StreamError: the brokers are older than 3.7 and do not report them.
        """
        from kafka import TopicPartition

        names = sorted(set(topics))
        found: dict[TopicPartition, tuple[int, ...]] = {}
        cursor: dict[str, Any] | None = None
        while names:
            with self._asking("to describe partitions"):
                page = self._admin.describe_topic_partitions(names, cursor=cursor)
            for topic in page["topics"]:
                for each in topic["partitions"]:
                    brokers = {*(each["eligible_leader_replicas"] or ()), *(each["last_known_elr"] or ())}
                    found[TopicPartition(topic["name"], each["partition_index"])] = tuple(sorted(brokers))
            cursor = page["next_cursor"]
            if cursor is None:
                break
        return found

    def log_folders(
        self, partitions: Iterable[TopicPartition], brokers: Iterable[int]
    ) -> Answers[int, tuple[LogFolder, ...]]:
        """Return the log folders of brokers, by broker id. All brokers are asked at the same time.

        :param partitions: the partitions whose sizes are returned.
        :param brokers: ids of the brokers.
        """
        wanted = list(partitions), sorted(set(brokers))
        return self._run("to describe log folders", cluster_requests.log_folders, *wanted)

    def quorum(self) -> Quorum | None:
        """Return the quorum of controllers; None if the cluster uses ZooKeeper, or is older than Kafka 3.3.

        :raises KafkaDenied: the user lacks DESCRIBE on the cluster.
        """
        return self._run("to describe the quorum", cluster_requests.quorum)

    @contextlib.contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        from kafka.errors import KafkaError

        if self._process != os.getpid():
            raise StreamError("This Kafka client was opened in another process.", next_step="Open one after the fork.")
        if self._closed:
            raise StreamError("This Kafka client is closed.", next_step="Open a new one.")
        asked = time.monotonic()
        try:
            yield
        except (KafkaError, OSError) as error:
            found = stream_error(self.conn_id, self._admin.config["bootstrap_servers"], what, error)
            self.refused |= isinstance(found, KafkaDenied)
            if not isinstance(found, BrokerUnreachable) or isinstance(found, KafkaThrottled):
                self.unreachable_since = None
            elif self.unreachable_since is None:
                self.unreachable_since = asked
            raise found from error
        self.unreachable_since = None

    def _run(self, what: str, call: Callable[..., Awaitable[T]], *args: Any) -> T:
        with self._asking(what):
            return self._kafka.run(call, self._requests, *args)
