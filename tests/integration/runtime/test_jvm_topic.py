"""A control log in a topic of a real broker, through the Kafka client of a real driver's JVM."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka import TopicPartition

from airflow_stream_provider.control.topic_index import COUNT, INDEX, READ_TO, from_header
from airflow_stream_provider.kafka import control_topic_setup as topic_setup
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.control_root import KafkaTopic
from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from devstack.kafka_cluster import KafkaCluster
from tests.support.jvm_drivers import Driver, driver
from tests.support.log_in_topic import log_in_topic
from tests.support.one_broker import client, kafka, new_topic
from tests.support.story import NEW, OLD, RUNNING, write

__all__ = ["client", "driver", "kafka", "new_topic"]


def test_a_driver_and_airflow_use_one_log_and_a_driver_outlives_an_outage(
    driver: Callable[..., Driver], kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(cleanup_policy="compact", message_timestamp_type="LogAppendTime")
    log = log_in_topic(client, topic)
    there = driver(kafka.servers, topic)
    assert there.says() == "open"
    assert there.says("read") == "0 None"
    write(log, *RUNNING)
    assert there.says("read") == f"{len(RUNNING)} {OLD}"
    assert there.says("beat 7") == "beaten"
    found = log.heartbeat(OLD)
    assert found is not None
    assert found.counter == 7
    kafka.stop(1)
    try:
        for order in ("read", "beat 8"):
            assert there.says(order).startswith("ControlUnavailable: The control log in the topic")
    finally:
        kafka.start(1)
    kafka.wait(lambda: there.says("beat 9") == "beaten")
    assert there.says("read") == f"{len(RUNNING)} {OLD}"


def test_a_driver_and_airflow_open_a_long_log_by_each_others_index(
    driver: Callable[..., Driver], kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(cleanup_policy="compact", message_timestamp_type="LogAppendTime")
    log = log_in_topic(client, topic)
    write(log, *RUNNING)
    for number in range(120):
        log.beat(NEW, Heartbeat(counter=number))
    there = driver(kafka.servers, topic)
    assert there.says() == "open"
    assert there.says("read") == f"{len(RUNNING)} {OLD}"
    assert there.says("beat 500") == "beaten"
    known = KafkaTopic(lambda: client, client.conn_id, topic)
    last = known.read(len(RUNNING) + 120).messages[-1]
    index = from_header(last, known.topic_id(), "orders")
    assert index is not None
    assert list(index.offsets) == list(range(1, len(RUNNING) + 1))
    # What other tools write: a header without a value, and names that this package uses.
    strange = dict.fromkeys(("trace", READ_TO, INDEX, COUNT))
    client.write(TopicPartition(topic, 0), b"look", b"-", strange, 5.0)  # type: ignore[arg-type]  # as above
    assert there.says("read") == f"{len(RUNNING)} {OLD}"
    fresh = log_in_topic(client, topic)
    assert Heartbeat.from_json(fresh.store.heartbeat(OLD) or b"", OLD).counter == 500
    assert fresh.refresh() == log.refresh()


def test_a_driver_learns_every_few_seconds_who_leads_whatever_its_settings_say(
    driver: Callable[..., Driver], kafka: KafkaCluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(cleanup_policy="compact", message_timestamp_type="LogAppendTime")
    there = driver(kafka.servers, topic, "metadata.max.age.ms=3600000")
    assert there.says() == "open"
    assert there.says("recovery") == "rebootstrap"
    assert there.says("beat 1") == "beaten"
    ages = [0.0]

    def learned_again() -> bool:
        ages.append(float(there.says("age")))
        return ages[-1] < ages[-2]

    for _ in range(2):  # the first time may be what a new client does
        kafka.wait(learned_again)


def test_a_deleted_topic_that_a_drivers_write_makes_anew_is_named(
    driver: Callable[..., Driver], kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str]
) -> None:
    """The test's brokers make topics for whoever writes to them (auto.create.topics.enable)."""
    topic = new_topic(cleanup_policy="compact", message_timestamp_type="LogAppendTime")
    write(log_in_topic(client, topic), *RUNNING)
    there = driver(kafka.servers, topic)
    assert there.says() == "open"
    assert there.says("read") == f"{len(RUNNING)} {OLD}"
    assert there.says("beat 1") == "beaten"
    client._admin.delete_topics([topic])
    kafka.wait(lambda: there.says("beat 2") and topic_setup.exists(client, topic))
    with pytest.raises(SpecError, match="was deleted and made anew by a broker"):
        topic_setup.check(client, topic)
    kafka.wait(lambda: there.says("read").startswith("ControlLogReplaced"))


@pytest.mark.parametrize(
    ("settings", "jars", "says"),
    [
        ((), True, "ControlUnavailable: .* UnknownTopicOrPartitionException"),
        (("security.protocol=NONE",), True, "SpecError: .* refuses its settings"),
        ((), False, "SpecError: The driver's JVM has no Kafka client"),
    ],
    ids=["no such topic", "settings", "no jars"],
)
def test_what_is_missing_is_said(
    driver: Callable[..., Driver], kafka: KafkaCluster, settings: tuple[str, ...], jars: bool, says: str
) -> None:
    import re

    assert re.match(says, driver(kafka.servers, "nowhere", *settings, jars=jars).says())
