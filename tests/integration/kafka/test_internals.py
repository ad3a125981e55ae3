"""All that is used of kafka-python beside its public methods: an upgrade that breaks one fails here by its name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaTimeoutError, RequestTimedOutError
from kafka.protocol.metadata import MetadataRequest

from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.internals import Internals
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_tools import KafkaTools


@pytest.fixture(scope="module")
def internals(kafka: KafkaCluster) -> Iterator[Internals]:
    admin = KafkaAdminClient(bootstrap_servers=kafka.servers, request_timeout_ms=70_000)
    yield Internals(admin)
    admin.close()


def metadata() -> MetadataRequest:
    return MetadataRequest(
        topics=[],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def test_brokers_and_the_time_out_of_a_connection(internals: Internals) -> None:
    assert (internals.brokers(), internals.any_broker(), internals.seconds) == ([1], 1, 70.0)
    internals.run(internals.refresh_brokers)
    assert internals.brokers() == [1]


@pytest.mark.parametrize("node", [None, 1])
def test_a_request_is_sent_to_a_broker_or_any(internals: Internals, node: int | None) -> None:
    found = internals.run(internals.send, metadata(), node)
    assert [broker.node_id for broker in found.brokers] == [1]


def test_a_request_may_have_a_time_out_of_its_own(internals: Internals) -> None:
    with pytest.raises((RequestTimedOutError, KafkaTimeoutError)):
        internals.run(internals.send, metadata(), 1, 0.0)


def test_requests_are_started_and_pause(internals: Internals) -> None:
    async def pauses() -> float:
        began = time.monotonic()
        sleeps = [internals.soon(internals.sleep, 0.5) for _ in range(8)]
        for each in sleeps:
            await each
        return time.monotonic() - began

    assert not asyncio.iscoroutine(internals.soon(internals.sleep, 0.0))
    assert internals.run(pauses) >= 0.5


def test_a_request_waits_as_long_as_a_quota_says(
    kafka: KafkaCluster, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic()
    KafkaTools(tmp_path / "bin").run(
        f"kafka-configs.sh --bootstrap-server {kafka.servers} --alter --add-config producer_byte_rate=1000 "
        "--entity-type clients --entity-name throttled"
    )
    partition = TopicPartition(topic, 0)
    with KafkaClient("throttled", {**kafka.extra, "client.id": "throttled"}) as client:
        written = [client.write(partition, b"k", b"v" * 12_000, {}, 60.0)]
        kafka.wait(lambda: written.append(client.write(partition, b"k", b"v" * 12_000, {}, 60.0)) or _paused(client))
        written.append(client.write(partition, b"k", b"v", {}, 60.0))
        assert [each.get(partition) for each in written] == list(range(len(written)))


def _paused(client: KafkaClient) -> bool:
    return client._kafka._throttled(1) > 0 and client._kafka._throttled(None) > 0
