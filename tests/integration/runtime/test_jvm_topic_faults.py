"""A driver's control log on three real brokers that fail, in a topic that is made anew, and without rights."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping

import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.kafka import control_topic_setup as topic_setup
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.lifecycle.errors import ControlLogDamaged, ControlUnavailable, StreamError
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from devstack.certificates import Certificates
from devstack.kafka_cluster import USERS, KafkaCluster
from tests.support.jvm_drivers import Driver, driver
from tests.support.log_in_topic import log_in_topic
from tests.support.story import OLD, PREPARED, RUNNING, declared, write
from tests.support.three_brokers import (
    alter,
    brokers,
    certificates,
    client,
    control_topic,
    follower,
    in_sync,
    leader,
    two_copies,
)

__all__ = ["alter", "brokers", "certificates", "client", "control_topic", "driver", "two_copies"]

pytestmark = pytest.mark.system


def test_a_driver_outlives_a_frozen_leader_which_comes_back(
    driver: Callable[..., Driver], brokers: KafkaCluster, client: KafkaClient, control_topic: str
) -> None:
    write(log_in_topic(client, control_topic), *RUNNING)
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
        log = log_in_topic(client, control_topic)
        assert isinstance(log.store, TopicStore)
        with contextlib.suppress(ControlUnavailable):
            log.store.catch_up()
            beat = log.heartbeat(OLD)
            found.append(beat.counter if beat else 0)
        return bool(found)

    brokers.wait(caught_up)
    assert found == [3]
    assert there.says("beat 4") == "beaten"


def test_a_driver_says_that_too_few_replicas_are_in_sync_and_goes_on_when_they_are(
    driver: Callable[..., Driver], brokers: KafkaCluster, client: KafkaClient, two_copies: str
) -> None:
    log = log_in_topic(client, two_copies)
    write(log, *RUNNING)
    there = driver(brokers.servers, two_copies)
    assert there.says() == "open"
    assert there.says("beat 1") == "beaten"
    gone = follower(client, two_copies)
    brokers.kill(gone)
    try:
        sentence = (
            "cannot be used now: fewer of its replicas are in sync than its min.insync.replicas asks for: "
            "NotEnoughReplicasException. Start its brokers again. Nothing is lost"
        )
        brokers.wait(lambda: sentence in there.says("beat 2"))
        assert in_sync(client, two_copies) == 1
        assert there.says("read") == f"{len(RUNNING)} {OLD}"
    finally:
        brokers.start(gone)
    brokers.wait(lambda: there.says("beat 3") == "beaten")
    found = log.heartbeat(OLD)
    assert found is not None
    assert found.counter == 3
    write(log, *PREPARED[len(RUNNING) :])
    assert there.says("read") == f"{len(PREPARED)} {OLD}"


@pytest.mark.parametrize("first", ["others", "driver"])
def test_whoever_has_read_what_an_unclean_election_lost_goes_no_further(
    driver: Callable[..., Driver],
    brokers: KafkaCluster,
    client: KafkaClient,
    two_copies: str,
    alter: Callable[[str, Mapping[str, str]], None],
    first: str,
) -> None:
    """The follower is behind, as such settings allow, when the leader goes; `first` writes to the follower first."""
    alter(two_copies, {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"})
    log = log_in_topic(client, two_copies)
    write(log, *RUNNING)
    there = driver(brokers.servers, two_copies)
    assert there.says() == "open"
    ahead, behind = leader(client, two_copies), follower(client, two_copies)
    brokers.kill(behind)
    brokers.wait(lambda: in_sync(client, two_copies) == 1)
    write(log, *PREPARED[len(RUNNING) :])
    assert there.says("read") == f"{len(PREPARED)} {OLD}"
    brokers.kill(ahead)
    brokers.start(behind)

    def refused(sentence: str) -> bool:
        """Whether both say so."""
        pattern = re.compile(sentence)
        return bool(pattern.match(_said(log)) and pattern.match(there.says("read")))

    try:
        brokers.wait(lambda: leader(client, two_copies) == behind)
        brokers.wait(lambda: refused(r"ControlLogDamaged: .* does not have offset \d+, .* or its end is lost\."))
        stranger = log_in_topic(client, two_copies)
        if first == "others":
            assert stranger.refresh().seq == len(RUNNING)
            write(stranger, *(declared(f"orders-{number}-cccc") for number in range(8)))
            replaced = r"ControlLogReplaced: Record \d+ .*, which was read before, is another one now: .* lost its end"
            brokers.wait(lambda: refused(replaced))
            assert re.match(replaced, there.says("beat 2"))
            with pytest.raises(StreamError, match="which was read before, is another one now"):
                log.beat(OLD, Heartbeat(counter=2))
        else:
            # A driver that is told to say why it waits has written how far it had read: nobody goes on from there.
            assert there.says("beat 2").startswith("ControlLogDamaged: ")
            for each in (stranger, log_in_topic(client, two_copies)):
                with pytest.raises(
                    ControlLogDamaged, match=rf"Record {len(RUNNING) + 1} .* is missing, though somebody"
                ):
                    each.append(declared("orders-9-cccc"), len(RUNNING))
    finally:
        brokers.start(ahead)
    brokers.wait(lambda: in_sync(client, two_copies) == 2)
    lost = "ControlLogReplaced: " if first == "others" else "ControlLogDamaged: "
    brokers.wait(lambda: refused(lost))


def _said(log: ControlLog) -> str:
    try:
        return str(log.refresh().seq)
    except StreamError as error:
        return f"{type(error).__name__}: {error}"


def test_a_driver_halts_at_a_topic_that_was_made_anew(
    driver: Callable[..., Driver], brokers: KafkaCluster, client: KafkaClient, control_topic: str
) -> None:
    write(log_in_topic(client, control_topic), *RUNNING)
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
    write(log_in_topic(client, control_topic), *longer)
    for each, order in zip(drivers, ("read", "beat 2"), strict=True):
        # As long as its client has not learned of the new topic, it is an outage.
        brokers.wait(lambda each=each, order=order: "not the one that was read before" in each.says(order))  # type: ignore[misc]
    assert log_in_topic(client, control_topic).refresh().seq == len(longer)


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
