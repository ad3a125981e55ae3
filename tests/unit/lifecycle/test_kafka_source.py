"""What a driver says of a query's Kafka sources, and what a reader of any other version makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.kafka_source import KafkaSource, addresses, kafka_source, kafka_sources


@pytest.mark.parametrize(
    ("servers", "found"),
    [
        ("b:9092, A.example:9093", ("a.example:9093", "b:9092")),
        ("SASL_SSL://b:9092,b:09092", ("b:9092",)),
        ("[::1]:9092", ("::1:9092",)),
        ("user:hunter2@b:9092", ()),
        ("b,:9092,b:port,", ()),
        ("", ()),
    ],
)
def test_addresses_are_host_and_port_and_nothing_else(servers: str, found: tuple[str, ...]) -> None:
    assert addresses(servers) == found


def test_a_source_is_said_without_its_credentials_and_read_back() -> None:
    options = {
        "SUBSCRIBE": "orders, returns",
        "Kafka.Bootstrap.Servers": "b:9092,a:9092",
        "kafka.isolation.level": "read_committed",
        "kafka.sasl.jaas.config": "hunter2",
    }
    found = kafka_source(options)
    assert found == KafkaSource("subscribe", "orders, returns", ("a:9092", "b:9092"), True)
    stored = json.dumps({"name": "q", "kafka_sources": [found.to_json()]})
    assert "hunter2" not in stored
    assert kafka_sources(json.loads(stored)) == (found,)


@pytest.mark.parametrize(
    ("source", "reads", "not_read"),
    [
        (KafkaSource("subscribe", "a, b"), ["a", "b"], ["ab", ""]),
        (KafkaSource("subscribePattern", "(a+)+$"), ["a", "a" * 60 + "!"], []),
        (KafkaSource("assign", '{"a": [0]}'), ["a"], ["b"]),
        (KafkaSource("assign", "{"), [], ["a"]),
        (KafkaSource("assign", "1"), [], ["a"]),
        (KafkaSource("assign", "[" * 100_000), [], ["a"]),
    ],
)
def test_a_source_may_read_the_topics_of_its_option(source: KafkaSource, reads: list[str], not_read: list[str]) -> None:
    assert [source.may_read(topic) for topic in (*reads, *not_read)] == [True] * len(reads) + [False] * len(not_read)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (None, ()),
        ("a", ()),
        ([1], ()),
        ([{}], (KafkaSource("", ""),)),
        ([{"servers": "a:1", "read_committed": "yes"}], (KafkaSource("", ""),)),
        ([{"servers": ["a:1", 2, None, "a:" + "9" * 5000]}], (KafkaSource("", "", ("a:1",)),)),
    ],
)
def test_what_another_version_says_never_fails(said: Any, found: tuple[KafkaSource, ...]) -> None:
    assert kafka_sources({"kafka_sources": said}) == found
    assert kafka_sources({}) == ()
