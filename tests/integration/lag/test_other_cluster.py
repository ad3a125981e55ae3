"""Which Kafka a query reads, by the addresses of a real broker."""

from __future__ import annotations

import pytest

from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.lag.committed_offsets import Committed, refuse_others
from devstack.kafka_cluster import KafkaCluster


@pytest.mark.parametrize(
    ("extra", "servers", "measured"),
    [
        ({}, "127.0.0.1:{port}", True),
        ({}, "kafka.internal:{port}", False),
        ({"stream.bootstrap.servers": "kafka.internal:{port}"}, "kafka.internal:{port}", True),
    ],
    ids=["advertised", "unknown", "named"],
)
def test_the_same_kafka_is_known_by_what_its_brokers_advertise_or_by_name(
    kafka: KafkaCluster, extra: dict[str, str], servers: str, measured: bool
) -> None:
    host, port = kafka.servers.split(":")
    assert host == "127.0.0.1"
    extra = {name: value.format(port=port) for name, value in extra.items()}
    with KafkaClient("k", {"bootstrap.servers": f"localhost:{port}", **extra}) as client:
        assert f"localhost:{port}" in client.addresses
        query = Committed("q", {"t": {0: 1}}, servers=((servers.format(port=port),),))
        ((_, found),) = refuse_others(client, [(None, query)])
    assert (found == query) is measured
    assert (found.problem == "") is measured
