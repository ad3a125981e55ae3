"""A control topic through this package's Kafka client, at a Kafka of the test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_stream_provider.control.topic import Fetched
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.control_root import KafkaTopic
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from tests.support.wire_control_topic import WireControlTopic
from tests.support.wire_kafka import END, wait_for_it

NAME = "streams.orders"
LONG_MS = 60_000


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireControlTopic]:
    wait_for_it(monkeypatch)
    started = WireControlTopic()
    yield started
    started.close()


@pytest.fixture
def topic(kafka: WireControlTopic) -> Iterator[KafkaTopic]:
    with KafkaClient("kafka", {"bootstrap.servers": kafka.servers, "socket.timeout.ms": 60_000}) as client:
        yield KafkaTopic(lambda: client, "kafka", NAME)


def test_a_fetch_that_a_quota_throttles_is_asked_again_when_it_may_be(
    topic: KafkaTopic, kafka: WireControlTopic
) -> None:
    kafka.throttles = [100, 100]
    assert topic.read(0) == Fetched((), 0, END)
    assert not kafka.throttles


def test_a_write_waits_until_the_quota_takes_it_and_is_sent_once(topic: KafkaTopic, kafka: WireControlTopic) -> None:
    kafka.throttles = [300]
    assert [topic.write(b"k", b"v", {}), topic.write(b"k", b"v", {})] == [END, END]
    assert kafka.written == [NAME, NAME]


def test_that_a_quota_throttles_for_long_is_said(topic: KafkaTopic, kafka: WireControlTopic) -> None:
    topic.topic_id()
    kafka.throttles = [LONG_MS]
    says = "A quota of Kafka throttles this client: broker 1"
    for use in (lambda: topic.read(0), lambda: topic.read(0), lambda: topic.write(b"k", b"v", {})):
        with pytest.raises(ControlUnavailable, match=says) as found:
            use()
        assert "no quota, or a wider one" in found.value.next_step
    assert not kafka.written


def test_what_any_broker_knows_waits_for_a_quota_too(topic: KafkaTopic, kafka: WireControlTopic) -> None:
    kafka.throttles = [LONG_MS]
    topic.write(b"k", b"v", {})
    with pytest.raises(ControlUnavailable, match="a quota of Kafka throttles this client") as found:
        topic.topic_id()
    assert "no quota, or a wider one" in found.value.next_step
