"""Fixtures: three real brokers, each also a controller, so that any of them may fail; and a client of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pytest

from airflow_stream_provider.control.topic import topic_name
from airflow_stream_provider.kafka import control_topic_setup as topic_setup
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.control_topic_rules import SETTINGS
from devstack.certificates import Certificates
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import alter_topic

HEAP = "224m"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[KafkaCluster]:
    """Three brokers; their TLS and SASL listeners check ACLs, the plain one does not."""
    # The cleaner's buffer is half of the heap otherwise. One that is frozen or killed counts as gone after 6 s.
    settings = {"auto.create.topics.enable": "false", "log.cleaner.dedupe.buffer.size": 4 * 2**20}
    folder = tmp_path_factory.mktemp("brokers")
    with KafkaCluster(folder, 3, settings, certificates, heap=HEAP, controllers=3) as cluster:
        yield cluster


@pytest.fixture
def client(brokers: KafkaCluster) -> Iterator[KafkaClient]:
    with brokers.client() as client:
        yield client


_numbers = itertools.count(1)


@pytest.fixture
def control_topic(client: KafkaClient) -> str:
    """The topic of a stream, as a deployment makes it, with a name that no other test uses."""
    name = topic_name("streams", f"orders-{next(_numbers)}")
    topic_setup.create(client, name)
    return name


@pytest.fixture
def two_copies(client: KafkaClient) -> str:
    """The topic of a stream on two of the brokers, as two that go together leave no controller.

    One of the two is too few for what must be in sync.
    """
    name = topic_name("streams", f"orders-{next(_numbers)}")
    assert client.create_topic(name, 2, {**SETTINGS, "min.insync.replicas": "2"}) is None
    topic_setup._wait_for(client, name, 2)
    return name


@pytest.fixture
def alter(client: KafkaClient) -> Callable[[str, Mapping[str, str]], None]:
    """Changes settings of a topic, as a person does."""
    return partial(alter_topic, client)


def leader(client: KafkaClient, topic: str) -> int:
    """Return the broker that leads a topic of one partition; -1: none."""
    return int(client.topics([topic])[topic]["partitions"][0]["leader_id"])


def in_sync(client: KafkaClient, topic: str) -> int:
    """Return how many replicas of such a topic are in sync."""
    return len(client.topics([topic])[topic]["partitions"][0]["isr_nodes"])


def follower(client: KafkaClient, topic: str) -> int:
    """Return a broker that has a topic of one partition and does not lead it."""
    partition = client.topics([topic])[topic]["partitions"][0]
    return next(int(number) for number in partition["replica_nodes"] if number != partition["leader_id"])
