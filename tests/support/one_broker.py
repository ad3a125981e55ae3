"""Fixtures: one real broker, a client of it, control roots in it, and topics that no other test uses."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator

import pytest
from kafka.errors import RetriableError, TopicAlreadyExistsError

from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.control_root import TopicRoot
from devstack.kafka_cluster import KafkaCluster


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One broker, without security."""
    with KafkaCluster(tmp_path_factory.mktemp("kafka")) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def client(kafka: KafkaCluster) -> Iterator[KafkaClient]:
    with kafka.client() as client:
        yield client


@pytest.fixture
def root_of(kafka: KafkaCluster) -> Iterator[Callable[[str], TopicRoot]]:
    """Opens a control root by its prefix. It is closed with the test: a client whose broker is gone tries for ever."""
    with contextlib.ExitStack() as opened:

        def root(prefix: str) -> TopicRoot:
            found = TopicRoot(f"kafka://kafka_test/{prefix}", "kafka_test", kafka.extra, prefix)
            opened.callback(found.close)
            return found

        yield root


@pytest.fixture(scope="module")
def new_topic(kafka: KafkaCluster, client: KafkaClient) -> Callable[..., str]:
    """Makes a topic with settings of its own, and a name that no other test uses.

    The test before may just have started the broker again, which the client learns at its next attempt.
    """
    numbers = itertools.count(1)

    def make(partitions: int = 1, **settings: object) -> str:
        name = f"topic-{next(numbers)}"
        configs = {key.replace("_", "."): str(value) for key, value in settings.items()}

        def made() -> bool:
            try:
                with contextlib.suppress(TopicAlreadyExistsError):  # an attempt whose answer was lost
                    client._admin.create_topics({name: {"num_partitions": partitions, "configs": configs}})
                client._admin.wait_for_topics([name])
            except RetriableError:
                return False
            return True

        kafka.wait(made)
        return name

    return make
