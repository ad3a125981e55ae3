"""Requests about topics, partitions and settings, as coroutines of kafka-python's own thread.

kafka-python's admin calls (3.0.12) fail as a whole if one of thousands of partitions has no leader, ask one broker
after another, cache coordinators that have moved, and ignore the errors of `describe_configs`. The requests here
return for each partition, topic and broker either its answer or the reason why there is none.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_stream_provider.kafka.answers import (
    LEADER_NOT_AVAILABLE,
    THROTTLED,
    UNKNOWN_TOPIC_OR_PARTITION,
    Answers,
    named,
    no_answer,
    take,
)

if TYPE_CHECKING:
    from kafka import TopicPartition
    from kafka.structs import OffsetAndTimestamp

    from airflow_stream_provider.kafka.internals import Internals

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

# Pauses in seconds between tries, while leaders or coordinators change.
PAUSES = (0.1, 0.4, 1.0)
# Seconds in which any broker has to answer what all of them know; then another one is asked.
ANY_SECONDS = 10.0
# Seconds for which a broker that did not answer is left out where another one can be asked.
SILENT_SECONDS = 60.0
# Kafka's resource types of DescribeConfigs.
TOPIC, BROKER = 2, 4
# The version of ListOffsets, and what it says of who asks: a consumer, which takes any epoch of the leader.
OFFSETS_VERSION, CONSUMER, ANY_EPOCH = 7, -1, -1
# The fields of a partition in the description of its topic.
PARTITION_FIELDS = ("partition_index", "leader_id", "replica_nodes", "isr_nodes", "offline_replicas")


class Requests:
    """Requests over one admin client. All methods run on the client's own thread.

    :param internals: of a client that is connected to a broker.
    """

    def __init__(self, internals: Internals) -> None:
        self.kafka = internals
        self._silent: dict[int, float] = {}
        self._leaders: dict[str, dict[int, int]] = {}

    async def send(self, request: Callable[[], Any], node: int | None = None) -> Any:
        """Send a request, with up to three more tries while its broker cannot be reached.

        :param request: builds the request, once for each try.
        :param node: broker id; default any broker. One that does not answer within ANY_SECONDS is left out for a
            minute, and another one is asked.
        """
        from kafka.errors import KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError, RequestTimedOutError

        for pause in (*PAUSES, None):
            asked = self._any() if node is None else node
            try:
                return await self.kafka.send(
                    request(), asked, min(ANY_SECONDS, self.kafka.seconds) if node is None else None
                )
            except (NodeNotReadyError, KafkaConnectionError):
                if pause is None:
                    raise
                await self.kafka.sleep(pause)
            except (RequestTimedOutError, KafkaTimeoutError):
                if pause is None or node is not None:
                    raise
                if asked is not None:
                    self._silent[asked] = time.monotonic() + SILENT_SECONDS
        raise AssertionError("the last try returns or raises")

    def _any(self) -> int | None:
        """Return a broker that has not been silent lately; if all have been, any."""
        now = time.monotonic()
        self._silent = {node: until for node, until in self._silent.items() if until > now}
        first = self.kafka.any_broker()
        if first not in self._silent:
            return first
        others = [node for node in self.kafka.brokers() if node not in self._silent]
        return random.choice(others) if others else first

    async def topics(self, names: list[str] | None) -> Answers[str, dict[str, Any]]:
        """Describe topics; see `KafkaClient.topics`. Also caches their leaders."""
        found: Answers[str, dict[str, Any]] = Answers()
        response = await self.send(lambda: topics_request(names))
        if {broker.node_id for broker in response.brokers} - set(self.kafka.brokers()):
            await self.kafka.refresh_brokers()
        for each in response.topics:
            if each.error_code:
                self._leaders.pop(each.name, None)
                found.refuse(each.name, each.error_code, f"topic {each.name}")
            else:
                # to_dict() takes three times as long, and there may be thousands of partitions.
                partitions = [{name: getattr(p, name) for name in PARTITION_FIELDS} for p in each.partitions]
                found[each.name] = described = {"topic_id": each.topic_id, "partitions": partitions}
                self._leaders[each.name] = _leaders(described)
        return found

    async def ask_leaders(
        self,
        wanted: dict[TopicPartition, V],
        request: Callable[[Mapping[TopicPartition, V]], Any],
        answers: Callable[[Any], Iterable[tuple[str, int, int, R]]],
        *,
        once: bool = False,
        seconds: float | None = None,
    ) -> Answers[TopicPartition, R]:
        """Ask the leader of each partition, all leaders at once, and try again where the leader has changed.

        :param wanted: the partitions, each with a value for the request.
        :param request: builds the request to one leader.
        :param answers: yields topic, partition, error code and value for each partition of a leader's response.
        :param once: do not ask again: what was asked may have been done, whatever the answer.
        :param seconds: after which a leader has not answered, and is not asked again; default the connection's.
        """
        from kafka.errors import KafkaError, RequestTimedOutError

        found: Answers[TopicPartition, R] = Answers()
        until = time.monotonic() + (self.kafka.seconds if seconds is None else seconds)
        left = wanted
        for pause in (*PAUSES, None):
            again: dict[TopicPartition, V] = {}
            sent: list[tuple[int, Mapping[TopicPartition, V], Awaitable[Any]]] = [
                (leader, asked, self.kafka.soon(self.kafka.send, request(asked), leader, seconds))
                for leader, asked in (await self._by_leader(left, found)).items()
            ]
            for leader, asked, future in sent:
                try:
                    response = await future
                except (KafkaError, OSError) as error:
                    found.problems.update(dict.fromkeys(asked, no_answer(leader, error)))
                    if isinstance(error, RequestTimedOutError):
                        # It may be frozen: by the next request there may be another leader.
                        for tp in asked:
                            self._leaders.pop(tp.topic, None)
                    else:
                        again.update(asked)
                    continue
                again.update(take(leader, response, asked, answers, found))
            # Their cached leaders are out of date, but for those that only a quota keeps from answering.
            for partition in again:
                if found.problems[partition].code != THROTTLED:
                    self._leaders.pop(partition.topic, None)
            if not again or once or pause is None or time.monotonic() > until:
                break
            await self.kafka.sleep(pause)
            left = again
        for partition in found.keys() & found.problems.keys():
            del found.problems[partition]
        return found

    async def _by_leader(
        self, wanted: Mapping[TopicPartition, V], found: Answers[TopicPartition, R]
    ) -> dict[int, dict[TopicPartition, V]]:
        # A copy: while this request waits, another thread's request may drop entries from the cache.
        leaders = {topic: self._leaders.get(topic, {}) for topic in {partition.topic for partition in wanted}}
        unknown = {tp.topic for tp in wanted if leaders[tp.topic].get(tp.partition, -1) < 0}
        described = await self.topics(sorted(unknown)) if unknown else Answers[str, dict[str, Any]]()
        leaders.update({topic: _leaders(each) for topic, each in described.items()})
        by_leader: dict[int, dict[TopicPartition, V]] = {}
        for partition, value in wanted.items():
            leader = leaders[partition.topic].get(partition.partition)
            if leader is not None and leader >= 0:
                by_leader.setdefault(leader, {})[partition] = value
            elif partition.topic in described.problems:
                found.problems[partition] = described.problems[partition.topic]
            else:
                code = UNKNOWN_TOPIC_OR_PARTITION if leader is None else LEADER_NOT_AVAILABLE
                found.refuse(partition, code, named(partition.topic, partition.partition))
        return by_leader

    async def configs(
        self, topics: list[str], brokers: list[int], keys: list[str] | None
    ) -> Answers[str | int, dict[str, str | None]]:
        """Return the effective settings of topics and brokers; see `KafkaClient.configs`."""
        from kafka.protocol.admin import DescribeConfigsRequest

        found: Answers[str | int, dict[str, str | None]] = Answers()

        def request(kind: int, names: Iterable[str]) -> Any:
            return DescribeConfigsRequest(resources=[(kind, name, keys) for name in names])

        # Only the broker itself knows its settings; every broker knows those of all topics.
        responses = await self.ask_brokers(brokers, lambda broker: request(BROKER, [str(broker)]))
        for broker, problem in responses.problems.items():
            found.problems[broker] = problem
        of_topics = [await self.send(lambda: request(TOPIC, topics))] if topics else []
        for response in (*responses.values(), *of_topics):
            for each in response.results:
                is_topic = each.resource_type == TOPIC
                name: str | int = each.resource_name if is_topic else int(each.resource_name)
                if each.error_code:
                    what = f"{'topic' if is_topic else 'broker'} {each.resource_name}"
                    found.refuse(name, each.error_code, what)
                else:
                    found[name] = {config.name: config.value for config in each.configs}
        return found

    async def ask_brokers(self, brokers: Iterable[int], request: Callable[[int], Any]) -> Answers[int, Any]:
        """Ask several brokers, perhaps a hundred, at the same time, and return their responses by broker.

        :param request: builds the request to one broker, which is its argument.
        """
        from kafka.errors import KafkaError

        found: Answers[int, Any] = Answers()
        sent = [(each, self.kafka.soon(self.send, partial(request, each), each)) for each in brokers]
        for broker, future in sent:
            try:
                found[broker] = await future
            except (KafkaError, OSError) as error:
                found.problems[broker] = no_answer(broker, error)
        return found


def topics_request(names: Iterable[str] | None, *, operations: bool = False) -> Any:
    """Build a request for what a broker knows of topics, which makes none.

    :param names: the topics; None: all.
    :param operations: ask what the user may do with them, too.
    """
    from kafka.protocol.metadata import MetadataRequest

    topic = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(
        topics=None if names is None else [topic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=operations,
    )


def offsets_request(times: Mapping[TopicPartition, int], read_committed: bool) -> Any:
    """Build a ListOffsets request of Kafka 3.0 (KIP-734); see `KafkaClient.offsets`."""
    from kafka.protocol.consumer import ListOffsetsRequest

    # Rows, since an object for each of thousands of partitions takes as long as to send all of them.
    topics: dict[str, list[tuple[int, int, int]]] = {}
    for partition, at in times.items():
        topics.setdefault(partition.topic, []).append((partition.partition, ANY_EPOCH, at))
    return ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=int(read_committed),
        topics=list(topics.items()),
        min_version=OFFSETS_VERSION,
        max_version=OFFSETS_VERSION,
    )


def offsets_found(response: Any) -> Iterator[tuple[str, int, int, OffsetAndTimestamp]]:
    """Yield topic, partition, error code and offset for each partition of an answer to `offsets_request`."""
    from kafka.structs import OffsetAndTimestamp

    for topic in response.topics:
        for each in topic.partitions:
            yield (
                topic.name,
                each.partition_index,
                each.error_code,
                OffsetAndTimestamp(each.offset, each.timestamp, None),
            )


def _leaders(topic: Mapping[str, Any]) -> dict[int, int]:
    return {partition["partition_index"]: partition["leader_id"] for partition in topic["partitions"]}
