"""Make a topic, and ask what the connection's user may do with topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from airflow_stream_provider.kafka.answers import Answers, Problem, error_sentence
from airflow_stream_provider.kafka.requests import topics_request

if TYPE_CHECKING:
    from airflow_stream_provider.kafka.cluster_requests import ClusterRequests
    from airflow_stream_provider.kafka.requests import Requests

# Kafka's error code.
TOPIC_ALREADY_EXISTS = 36
# Kafka's codes of operations on a topic (KIP-430).
OPERATIONS = {"READ": 3, "WRITE": 4, "DESCRIBE": 8, "DESCRIBE_CONFIGS": 10}
# Milliseconds that the controller may take.
CREATE_MS = 10_000


class TopicRequests:
    """Requests over one admin client. All methods run on the client's own thread."""

    def __init__(self, requests: Requests, cluster: ClusterRequests) -> None:
        self._requests = requests
        self._cluster = cluster

    async def create(self, name: str, replicas: int, settings: Mapping[str, str]) -> Problem | None:
        """Make a topic of one partition; see `KafkaClient.create_topic`."""
        from kafka.protocol.admin import CreateTopicsRequest

        topic = CreateTopicsRequest.CreatableTopic
        configs = [topic.CreatableTopicConfig(name=key, value=value) for key, value in settings.items()]
        wanted = topic(name=name, num_partitions=1, replication_factor=replicas, assignments=[], configs=configs)
        # With ZooKeeper only the controller makes topics; without it, every broker passes the request on.
        controller = (await self._cluster.describe())["controller_id"]
        response = await self._requests.send(
            lambda: CreateTopicsRequest(topics=[wanted], timeout_ms=CREATE_MS, validate_only=False), controller
        )
        (made,) = response.topics
        if not made.error_code:
            return None
        said = f" Kafka says: {made.error_message.rstrip('. ')}." if made.error_message else ""
        return Problem(made.error_code, error_sentence(made.error_code, f"topic {name}") + said)

    async def is_known(self, name: str, replicas: int) -> bool:
        """Return whether all brokers know a topic; see `KafkaClient.is_known`."""
        answers = await self._requests.ask_brokers(self._requests.brokers(), lambda _: topics_request([name]))
        topics = [topic for response in answers.values() for topic in response.topics]
        return bool(topics) and not any(
            topic.error_code or any(each.leader_id < 0 or len(each.isr_nodes) < replicas for each in topic.partitions)
            for topic in topics
        )

    async def operations(self, names: Iterable[str]) -> Answers[str, frozenset[str]]:
        """Return what the user may do; see `KafkaClient.allowed`."""
        asked = list(names)
        response = await self._requests.send(lambda: topics_request(asked, operations=True))
        found: Answers[str, frozenset[str]] = Answers()
        for each in response.topics:
            if each.error_code:
                found.problems[each.name] = Problem(
                    each.error_code, error_sentence(each.error_code, f"topic {each.name}")
                )
            else:
                codes = set(each.authorized_operations)
                found[each.name] = frozenset(name for name, code in OPERATIONS.items() if code in codes)
        return found
