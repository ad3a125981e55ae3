"""The contract of every store, held by topics of a real Kafka: through Airflow's client, and through a driver's JVM."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_stream_provider.kafka.client import KafkaClient
from devstack.kafka_cluster import KafkaCluster
from tests.support.jvm_topics import Jvm
from tests.support.one_broker import client, kafka
from tests.support.store_contract.brokers import OwnPlace, TheirPlace
from tests.support.store_contract.files import FilesPlace
from tests.support.store_contract.place import Place
from tests.support.store_contract.suite import StoreContract, StoreOutages, StoreRaces

__all__ = ["client", "kafka"]

# A Kafka of yours: the extra of an Airflow connection as JSON; and a file with settings of Kafka's Java clients, as
# STREAM_CONTROL_PROPERTIES names one for drivers.
REAL, REAL_PROPERTIES = "AIRFLOW_STREAM_TEST_KAFKA", "AIRFLOW_STREAM_TEST_KAFKA_PROPERTIES"
PREFIX = f"airflow-stream-test-{secrets.token_hex(4)}"

Jvms = Callable[[int], Jvm]


@contextlib.contextmanager
def starting(properties: str = "") -> Iterator[Jvms]:
    """Return one of several JVMs, which is started when it is asked for first."""
    with contextlib.ExitStack() as opened:
        found: dict[int, Jvm] = {}

        def jvm(number: int) -> Jvm:
            if number not in found:
                found[number] = Jvm(properties)
                opened.callback(found[number].close)
            return found[number]

        yield jvm


@pytest.fixture(scope="module")
def jvms() -> Iterator[Jvms]:
    with starting() as found:
        yield found


@pytest.fixture(scope="module")
def real_jvms() -> Iterator[Jvms]:
    with starting(os.environ.get(REAL_PROPERTIES, "")) as found:
        yield found


@pytest.fixture
def files(tmp_path: Path) -> FilesPlace:
    return FilesPlace(tmp_path)


@pytest.fixture
def topic(kafka: KafkaCluster, client: KafkaClient) -> Iterator[Place]:
    with contextlib.closing(OwnPlace(kafka, client)) as made:
        yield made


@pytest.fixture
def driver(kafka: KafkaCluster, client: KafkaClient, jvms: Jvms) -> Iterator[Place]:
    with contextlib.closing(OwnPlace(kafka, client, jvms)) as made:
        yield made


@pytest.fixture
def real_topic() -> Iterator[Place]:
    yield from real()


@pytest.fixture
def real_driver(real_jvms: Jvms) -> Iterator[Place]:
    yield from real(real_jvms)


def real(jvms: Jvms | None = None) -> Iterator[Place]:
    if REAL not in os.environ:
        pytest.skip(f"{REAL} names no real Kafka")
    extra = json.loads(os.environ[REAL])
    with (
        KafkaClient("kafka_test", extra) as client,
        contextlib.closing(TheirPlace(client, extra, PREFIX, jvms)) as made,
    ):
        yield made


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("place", ["topic", "real_topic"], indirect=True)
class TestContract(StoreContract):
    pass


@pytest.mark.system
@pytest.mark.parametrize("place", ["driver", "real_driver"], indirect=True)
class TestContractOfDrivers(StoreContract):
    pass


@pytest.mark.system
@pytest.mark.parametrize("place", ["topic", "driver", "real_topic", "real_driver"], indirect=True)
class TestOutages(StoreOutages):
    pass


TOPICS = [pytest.param(name, marks=pytest.mark.system) for name in ("topic", "driver", "real_topic", "real_driver")]


@pytest.mark.parametrize("place", ["files", *TOPICS], indirect=True)
class TestRaces(StoreRaces):
    pass
