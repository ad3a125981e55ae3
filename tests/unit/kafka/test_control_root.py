"""A control root in Kafka, at a Kafka of the test's own; that it is one, real brokers show."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from kafka.protocol.consumer import FetchRequest

from airflow_stream_provider.control.topic import Fetched
from airflow_stream_provider.kafka import control_root, requests
from airflow_stream_provider.kafka.control_root import KafkaTopic, TopicRoot
from airflow_stream_provider.lifecycle.errors import ControlUnavailable, SpecError
from tests.support.wire_control_topic import WireControlTopic
from tests.support.wire_kafka import END, wait_for_it


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireControlTopic]:
    wait_for_it(monkeypatch)
    monkeypatch.setattr(requests, "PAUSES", ())
    started = WireControlTopic()
    yield started
    started.close()


@pytest.fixture
def root(kafka: WireControlTopic) -> Iterator[TopicRoot]:
    made = TopicRoot("kafka://kafka/streams", "kafka", {"bootstrap.servers": kafka.servers}, "streams")
    yield made
    made.close()


def test_after_a_minute_without_an_answer_the_bootstrap_servers_are_asked_for_the_brokers(
    root: TopicRoot, kafka: WireControlTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.move()
    topic = KafkaTopic(root._client, "kafka", "streams.orders")
    assert topic.read(0) == Fetched((), 0, END)
    kafka.move()
    for _ in range(3):
        with pytest.raises(ControlUnavailable):
            topic.read(0)
    opened = root._client()
    monkeypatch.setattr(control_root, "REOPEN_SECONDS", 0.0)
    assert topic.read(0) == Fetched((), 0, END)
    assert root._client() is not opened
    assert opened._closed


def test_while_they_do_not_answer_either_the_client_stays(
    root: TopicRoot, kafka: WireControlTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = KafkaTopic(root._client, "kafka", "streams.orders")
    assert topic.read(0) == Fetched((), 0, END)
    opened = root._client()
    monkeypatch.setattr(control_root, "REOPEN_SECONDS", 0.0)
    kafka.close()
    for _ in range(2):
        with pytest.raises(ControlUnavailable):
            topic.read(0)
    assert root._opened is opened


def test_a_kafka_that_does_not_read_topics_by_their_ids_is_refused_with_its_version(
    root: TopicRoot, kafka: WireControlTopic
) -> None:
    kafka.known[FetchRequest] = (4, 12)
    for use in (root.make, root.check, lambda: root.store("orders"), lambda: root.store("orders", create=True)):
        with pytest.raises(SpecError, match=r"connection 'kafka' is 3\.0\. A control log needs 3\.1 or later"):
            use()


def test_a_kafka_that_gives_topics_no_ids_is_not_one_whose_topic_was_made_anew(
    root: TopicRoot, kafka: WireControlTopic
) -> None:
    kafka.topic_id = UUID(int=0)
    for use in (root.check, lambda: root.log_id("orders"), lambda: KafkaTopic(root._client, "kafka", "t").read(0)):
        with pytest.raises(SpecError, match=r"has no id.*Raise inter\.broker\.protocol\.version"):
            use()


def test_drivers_are_told_the_servers_with_ports_which_java_asks_for() -> None:
    root = TopicRoot("kafka://kafka/streams", "kafka", {"bootstrap.servers": "k1,k2.example:9093"}, "streams")
    assert root.driver_arguments() == ("--brokers", "k1:9092,k2.example:9093")
