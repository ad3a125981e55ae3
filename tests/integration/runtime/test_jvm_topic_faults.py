"""A driver's control log on three real brokers that fail, in a topic that is made anew, and without rights."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.kafka import control_topic_setup as topic_setup
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.control_topic import KafkaTopic
from airflow_stream_provider.lifecycle.errors import ControlUnavailable
from devstack.kafka_cluster import USERS, Certificates, KafkaCluster
from tests.support.jvm_drivers import Driver, driver
from tests.support.story import OLD, RUNNING, declared, write
from tests.support.three_brokers import brokers, certificates, client, control_topic, leader

__all__ = ["brokers", "certificates", "client", "control_topic", "driver"]

pytestmark = pytest.mark.system


def control_log(client: KafkaClient, topic: str) -> ControlLog:
    return ControlLog(TopicStore(KafkaTopic(lambda: client, client.conn_id, topic), "orders"), "orders")


def test_a_driver_outlives_a_frozen_leader_which_comes_back(
    driver: Callable[..., Driver], brokers: KafkaCluster, client: KafkaClient, control_topic: str
) -> None:
    write(control_log(client, control_topic), *RUNNING)
    there = driver(brokers.servers, control_topic)
    assert there.says() == "open"
    assert there.says("beat 1") == "beaten"
    frozen = leader(client, control_topic)
    brokers.freeze(frozen)
    try:
        said = there.says("beat 2")  # nobody knows whether it is written
        assert said == "beaten" or said.startswith("ControlUnavailable: The control log in the topic")
        brokers.wait(lambda: there.says("beat 3") == "beaten", 120.0)
        assert there.says("read") == f"{len(RUNNING)} {OLD}"
    finally:
        brokers.thaw(frozen)
    # The one that was frozen may go on answering for a while as if it led, and does not have what was written since.
    # Who writes first, and is acknowledged, has read all of it.
    found: list[int] = []

    def caught_up() -> bool:
        log = control_log(client, control_topic)
        assert isinstance(log.store, TopicStore)
        with contextlib.suppress(ControlUnavailable):
            log.store.catch_up()
            beat = log.heartbeat(OLD)
            found.append(beat.counter if beat else 0)
        return bool(found)

    brokers.wait(caught_up)
    assert found == [3]
    assert there.says("beat 4") == "beaten"


def test_a_driver_halts_at_a_topic_that_was_made_anew(
    driver: Callable[..., Driver], brokers: KafkaCluster, client: KafkaClient, control_topic: str
) -> None:
    write(control_log(client, control_topic), *RUNNING)
    drivers = [driver(brokers.servers, control_topic) for _ in range(2)]
    for each in drivers:
        assert each.says() == "open"
        assert each.says("read") == f"{len(RUNNING)} {OLD}"
    client._admin.delete_topics([control_topic])
    brokers.wait(lambda: not topic_setup.exists(client, control_topic))
    said = drivers[0].says("read")
    assert said.startswith(("ControlUnavailable: ", "ControlLogReplaced: ")), said
    brokers.wait(lambda: topic_setup.create(client, control_topic) is None)
    longer = [declared(f"orders-{number}-aaaa") for number in range(len(RUNNING) + 3)]
    write(control_log(client, control_topic), *longer)
    for each, order in zip(drivers, ("read", "beat 2"), strict=True):
        # As long as its client has not learned of the new topic, it is an outage.
        brokers.wait(lambda each=each, order=order: "not the one that was read before" in each.says(order))  # type: ignore[misc]
    assert control_log(client, control_topic).refresh().seq == len(longer)


def test_what_a_driver_may_not_do_is_said(
    driver: Callable[..., Driver],
    brokers: KafkaCluster,
    certificates: Certificates,
    client: KafkaClient,
    control_topic: str,
) -> None:
    def secure(password: str) -> Driver:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return driver(
            brokers.at("SASL_SSL"),
            control_topic,
            "security.protocol=SASL_SSL",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={certificates.authority}",
            "sasl.mechanism=SCRAM-SHA-512",
            f'sasl.jaas.config={module} required username="reader" password="{password}";',
        )

    wrong = secure("wrong").says()
    assert "Kafka refuses the driver's credentials: SaslAuthenticationException" in wrong
    denied = secure(USERS["reader"]).says()
    assert "the driver's user may not use it: TopicAuthorizationException. Grant READ, WRITE and DESCRIBE" in denied
    assert USERS["reader"] not in wrong + denied

    def grant(operation: ACLOperation) -> None:
        resource = ResourcePattern(ResourceType.TOPIC, control_topic)
        client._admin.create_acls([ACL("User:reader", "*", operation, ACLPermissionType.ALLOW, resource)])

    def wait_for(sentence: str) -> Driver:
        """Start drivers until all brokers know of a right."""
        started: list[Driver] = []

        def said() -> bool:
            started.append(secure(USERS["reader"]))
            return sentence in started[-1].says()

        brokers.wait(said)
        return started[-1]

    grant(ACLOperation.READ)  # it brings DESCRIBE
    wait_for("the driver's user may not use it: it lacks WRITE. Grant READ, WRITE and DESCRIBE")
    grant(ACLOperation.WRITE)
    there = wait_for("open")
    assert there.says("read") == "0 None"
    assert there.says("beat 1") == "beaten"
