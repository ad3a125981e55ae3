from __future__ import annotations

from tests.support.one_broker import client, kafka, new_topic

import pytest

from airflow_stream_provider.kafka.client import KafkaClient
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


@pytest.fixture(scope="module")
def new_topic(client: KafkaClient) -> Callable[..., str]:
    """Creates topics with unique names and given settings."""
    numbers = itertools.count(1)

    def make(partitions: int = 1, **settings: object) -> str:
        name = f"topic-{next(numbers)}"
        configs = {key.replace("_", "."): str(value) for key, value in settings.items()}
        client._admin.create_topics({name: {"num_partitions": partitions, "configs": configs}}, wait_for_metadata=True)
        return name

    return make
