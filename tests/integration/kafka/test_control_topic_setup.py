"""The topic of a control log on three real brokers: how it is made, and what is said when it is not as it must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from airflow_stream_provider.kafka import control_topic_setup as topic_setup
from airflow_stream_provider.kafka.answers import UNKNOWN_TOPIC_OR_PARTITION
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.control_topic_rules import SETTINGS
from airflow_stream_provider.kafka.requests import Requests, topics_request
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlUnavailable, SpecError
from devstack.certificates import Certificates
from devstack.kafka_cluster import USERS, KafkaCluster
from devstack.kafka_writes import wait_until_known
from tests.support.three_brokers import alter, brokers, certificates, client, control_topic

__all__ = ["alter", "brokers", "certificates", "client", "control_topic"]


def test_a_topic_is_made_as_it_must_be(client: KafkaClient, control_topic: str) -> None:
    (found,) = topic_setup.facts(client, [control_topic])
    (partition,) = found.partitions
    assert len(partition["replica_nodes"]) == len(partition["isr_nodes"]) == 3
    assert {key: found.settings[key] for key in SETTINGS} == SETTINGS
    assert (found.settings["min.insync.replicas"], found.start, found.brokers) == ("2", 0, 3)
    topic_setup.create(client, control_topic)  # once more, as a second deployment does
    assert topic_setup.exists(client, control_topic)


def test_many_are_checked_at_once(client: KafkaClient, control_topic: str) -> None:
    found = topic_setup.problems(client, [control_topic, "streams.nowhere"])
    assert list(found) == ["streams.nowhere"]
    assert isinstance(found["streams.nowhere"], ControlUnavailable)
    assert not topic_setup.exists(client, "streams.nowhere")


def test_what_kafka_refuses_to_make_is_said(client: KafkaClient, control_topic: str) -> None:
    with pytest.raises(SpecError, match="collides with existing topic"):
        topic_setup.create(client, control_topic.replace(".", "_"))


@pytest.mark.parametrize(
    "settings",
    [
        {"cleanup.policy": "delete"},
        {"unclean.leader.election.enable": "true"},
        {"message.timestamp.type": "CreateTime"},
        {"min.insync.replicas": "1"},
        {"max.message.bytes": "1000000"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_a_setting_that_somebody_changed_is_named(
    client: KafkaClient,
    control_topic: str,
    alter: Callable[[str, Mapping[str, str]], None],
    brokers: KafkaCluster,
    settings: dict[str, str],
) -> None:
    alter(control_topic, settings)
    ((name, value),) = settings.items()
    brokers.wait(lambda: topic_setup.problems(client, [control_topic]))
    with pytest.raises(SpecError, match=f"has {name}={value};.*kafka-configs.sh"):
        topic_setup.check(client, control_topic)


def test_a_topic_that_was_made_otherwise_is_refused(client: KafkaClient) -> None:
    for name, options, says in (
        ("streams.none", {"num_partitions": 2, "configs": {}}, "has 2 partitions.* made anew by a broker"),
        ("streams.two", {"num_partitions": 2}, "has 2 partitions; a control log needs one"),
        ("streams.one", {"num_partitions": 1, "replication_factor": 1}, "has 1 replica; with 3 brokers it needs 3"),
    ):
        made = {"replication_factor": 3, "configs": {"cleanup.policy": "compact"}, **options}
        client._admin.create_topics({name: made}, wait_for_metadata=True)
        wait_until_known(client, [name])
        with pytest.raises(SpecError, match=says):
            topic_setup.create(client, name)


def test_a_log_whose_beginning_was_deleted_is_named(
    client: KafkaClient,
    control_topic: str,
    alter: Callable[[str, Mapping[str, str]], None],
    brokers: KafkaCluster,
) -> None:
    partition = TopicPartition(control_topic, 0)
    for _ in range(3):
        client.write(partition, b"key", b"value", {}, 60.0)
    # While the policy is compact, Kafka deletes nothing.
    with pytest.raises(Exception, match="PolicyViolation"):
        client._admin.delete_records({partition: 2})
    alter(control_topic, {"cleanup.policy": "compact,delete"})
    brokers.wait(lambda: topic_setup.problems(client, [control_topic]))
    client._admin.delete_records({partition: 2})
    alter(control_topic, {"cleanup.policy": "compact"})
    brokers.wait(
        lambda: isinstance(topic_setup.problems(client, [control_topic]).get(control_topic), ControlLogDamaged)
    )
    with pytest.raises(ControlLogDamaged, match="begins at offset 2, and a control log at 0"):
        topic_setup.check(client, control_topic)


def topic_errors(client: KafkaClient, topic: str) -> set[int]:
    """Return the error codes that the brokers give for a topic: each may know another state of it and of its ACLs."""
    asks = topics_request([topic])
    answers = client._run("to describe topics", Requests.ask_brokers, client._kafka.brokers(), lambda _: asks)
    return {each.error_code for answer in answers.values() for each in answer.topics}


def test_rights_are_checked(
    client: KafkaClient, brokers: KafkaCluster, certificates: Certificates, control_topic: str
) -> None:
    def grant(*operations: ACLOperation, topic: str = control_topic) -> None:
        resource = ResourcePattern(ResourceType.TOPIC, topic)
        client._admin.create_acls(
            [ACL("User:reader", "*", each, ACLPermissionType.ALLOW, resource) for each in operations]
        )

    extra: dict[str, Any] = {
        "bootstrap.servers": brokers.at("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(certificates.authority),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "reader",
        "sasl.password": USERS["reader"],
    }

    def says(sentence: str) -> None:
        def said() -> bool:
            found = topic_setup.problems(theirs, [control_topic]).get(control_topic)
            return sentence in str(found or "")

        brokers.wait(said)

    with KafkaClient("theirs", extra) as theirs:
        says("needs READ and WRITE and DESCRIBE and DESCRIBE_CONFIGS")
        with pytest.raises(SpecError, match="needs READ and WRITE"):
            topic_setup.create(theirs, control_topic)
        grant(ACLOperation.READ)  # it brings DESCRIBE
        says("needs WRITE and DESCRIBE_CONFIGS")
        grant(ACLOperation.WRITE)
        says("needs DESCRIBE_CONFIGS")
        grant(ACLOperation.DESCRIBE_CONFIGS)
        brokers.wait(lambda: not topic_setup.problems(theirs, [control_topic]))
        grant(ACLOperation.DESCRIBE, topic="streams.new")
        brokers.wait(lambda: topic_errors(theirs, "streams.new") == {UNKNOWN_TOPIC_OR_PARTITION})
        with pytest.raises(SpecError, match="may not make it"):
            topic_setup.create(theirs, "streams.new")


def test_brokers_that_are_down_are_said(client: KafkaClient, brokers: KafkaCluster, control_topic: str) -> None:
    brokers.kill(3)
    try:
        brokers.wait(lambda: sum(not each["is_fenced"] for each in client.describe_cluster()["brokers"]) == 2)
        # Two in sync are enough, once one of them leads.
        brokers.wait(lambda: not topic_setup.problems(client, [control_topic]))
        with pytest.raises(ControlUnavailable, match="cannot be made now: 2 of 3 brokers are up, and it needs 3"):
            topic_setup.create(client, "streams.later")
    finally:
        brokers.start(3)
    brokers.wait(lambda: len(client.topics([control_topic])[control_topic]["partitions"][0]["isr_nodes"]) == 3)
