"""Which of a source's options connect to Kafka; the commits are in tests/integration/runtime/test_offsets_group.py."""

from __future__ import annotations

import pytest

from airflow_stream_provider.runtime.kafka_client import ConsumerGroup, connection_options


@pytest.mark.parametrize(
    ("options", "connection"),
    [
        ({}, ()),
        ({"kafka.bootstrap.servers": "a:1"}, (("bootstrap.servers", "a:1"),)),
        ({"Kafka.Bootstrap.Servers": "A:1"}, (("bootstrap.servers", "A:1"),)),
        (
            {
                "kafka.ssl.truststore.location": "/t",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.security.protocol": "SASL_SSL",
                "kafka.client.dns.lookup": "use_all_dns_ips",
            },
            (
                ("client.dns.lookup", "use_all_dns_ips"),
                ("sasl.mechanism", "PLAIN"),
                ("security.protocol", "SASL_SSL"),
                ("ssl.truststore.location", "/t"),
            ),
        ),
        ({"kafka.fetch.max.bytes": "5", "subscribe": "orders", "sasl.mechanism": "PLAIN"}, ()),
    ],
)
def test_the_connection_is_a_sources_options_for_it(
    options: dict[str, str], connection: tuple[tuple[str, str], ...]
) -> None:
    assert connection_options(options) == connection


def test_two_sources_of_one_cluster_connect_alike() -> None:
    one = {"kafka.bootstrap.servers": "a:1", "kafka.sasl.mechanism": "PLAIN", "kafka.fetch.max.bytes": "5"}
    other = {"KAFKA.SASL.MECHANISM": "PLAIN", "kafka.bootstrap.servers": "a:1", "subscribe": "clicks"}
    assert connection_options(one) == connection_options(other)


def test_without_queries_there_is_no_cluster_and_nothing_to_close() -> None:
    group = ConsumerGroup("orders-stream", lambda: [])
    assert group.clusters() == {}
    group.close()
