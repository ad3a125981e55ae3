"""How the topic of a control log is made on Kafkas that no test starts; on real ones the integration test shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from airflow_stream_provider.kafka import control_topic_setup as topic_setup
from airflow_stream_provider.kafka.answers import UNKNOWN_TOPIC_OR_PARTITION, Answers, Problem
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.cluster_requests import OPERATIONS
from airflow_stream_provider.kafka.control_topic_rules import SETTINGS
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError

NAME = "streams.orders"
POLICY_VIOLATION = 44


class Kafka:
    """A Kafka 3.9 as its client shows it: of three brokers, of which it lists those that are up.

    `refuses`: the settings that nobody may set, with their values.
    """

    conn_id = "kafka"

    def __init__(self, up: Iterable[int] = (1, 2, 3)) -> None:
        self.up = list(up)
        self.replicas: dict[str, list[int]] = {"others": [2, 3]}
        self.settings: dict[str, dict[str, str]] = {"others": {}}
        self.refuses: dict[str, str] = {}
        self.topic_id: UUID | None = UUID(int=7)

    @property
    def client(self) -> KafkaClient:
        return cast("KafkaClient", self)

    def topics(self, names: Iterable[str] | None = None) -> Answers[str, dict[str, Any]]:
        found: Answers[str, dict[str, Any]] = Answers()
        for name in self.replicas if names is None else names:
            if name in self.replicas:
                nodes = self.replicas[name]
                partition = {"leader_id": nodes[0], "replica_nodes": nodes, "isr_nodes": nodes}
                found[name] = {"topic_id": self.topic_id, "partitions": [partition]}
            else:
                found.problems[name] = Problem(UNKNOWN_TOPIC_OR_PARTITION, "There is none.")
        return found

    def version_without_ids(self) -> str:
        return ""

    def describe_cluster(self) -> dict[str, Any]:
        return {"brokers": [{"broker_id": each} for each in self.up]}

    def create_topic(self, name: str, replicas: int, settings: Mapping[str, str]) -> Problem | None:
        refused = sorted(self.refuses.keys() & settings)
        if refused:
            return Problem(POLICY_VIOLATION, f"Config property {refused[0]!r} is refused.")
        self.replicas[name] = self.up[:replicas]
        self.settings[name] = {**self.refuses, **settings}
        return None

    def is_known(self, name: str, replicas: int) -> bool:
        return True

    def allowed(self, names: Iterable[str]) -> Answers[str, frozenset[str]]:
        return _all(names, frozenset(OPERATIONS))

    def configs(self, topics: Iterable[str], keys: Iterable[str]) -> Answers[str, dict[str, str]]:
        found: Answers[str, dict[str, str]] = Answers()
        found.update({name: self.settings[name] for name in topics})
        return found

    def offsets(self, specs: Iterable[Any]) -> Answers[Any, Any]:
        return _all(specs, SimpleNamespace(offset=0))


def _all(keys: Iterable[Any], value: Any) -> Answers[Any, Any]:
    found: Answers[Any, Any] = Answers()
    found.update(dict.fromkeys(keys, value))
    return found


def test_a_topic_is_made_with_three_replicas() -> None:
    kafka = Kafka()
    topic_setup.create(kafka.client, NAME)
    assert kafka.replicas[NAME] == [1, 2, 3]
    assert kafka.settings[NAME] == {**SETTINGS, "min.insync.replicas": "2"}


def test_no_topic_is_made_with_too_few_replicas_while_a_broker_is_down_that_is_not_listed() -> None:
    kafka = Kafka(up=(1, 2))
    with pytest.raises(ControlUnavailable, match="cannot be made now: 2 of 3 brokers are up, and it needs 3"):
        topic_setup.create(kafka.client, NAME)
    assert NAME not in kafka.replicas


def test_a_kafka_of_two_brokers_has_topics_with_two_replicas() -> None:
    kafka = Kafka(up=(2, 3))
    topic_setup.create(kafka.client, NAME)
    assert kafka.replicas[NAME] == [2, 3]
    assert kafka.settings[NAME]["min.insync.replicas"] == "1"


def test_what_a_service_lets_nobody_set_is_left_to_it() -> None:
    kafka = Kafka()
    kafka.refuses = {"compression.type": "producer", "segment.ms": "604800000"}
    topic_setup.create(kafka.client, NAME)
    assert kafka.settings[NAME]["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"compression.type": "zstd"}, "has compression.type=zstd; a control log needs uncompressed"),
        ({"max.message.bytes": "8388608"}, "cannot be made: .*'max.message.bytes' is refused"),
    ],
)
def test_what_will_not_do_is_said(setting: dict[str, str], says: str) -> None:
    kafka = Kafka()
    kafka.refuses = setting
    with pytest.raises(SpecError, match=says):
        topic_setup.create(kafka.client, NAME)


def test_no_topic_is_made_where_topics_have_no_ids() -> None:
    kafka = Kafka()
    kafka.topic_id = None
    with pytest.raises(SpecError, match=r"The topic others .* has no id.*Raise inter\.broker\.protocol\.version"):
        topic_setup.create(kafka.client, NAME)
    assert NAME not in kafka.replicas
