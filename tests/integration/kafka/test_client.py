"""Known problems of kafka-python 3.0 and how the client avoids them, on real brokers."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka import KafkaProducer, TopicPartition

from airflow_stream_provider.kafka import connect
from airflow_stream_provider.kafka.answers import LEADER_NOT_AVAILABLE, NO_ANSWER, UNKNOWN_TOPIC_OR_PARTITION
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.connect import BrokerUnreachable
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics, wait_until_known
from devstack.ports import HOST, free_port
from tests.support.leftovers import nothing_left_behind

EARLIEST, LATEST = -2, -1
TIMES = 20


def produce(kafka: KafkaCluster, topic: str, count: int, partition: int = 0) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.servers)
    for _ in range(count):
        producer.send(topic, b"x", partition=partition)
    producer.close()


def test_one_unknown_partition_does_not_hide_the_others(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    produce(kafka, topic, 3)
    wanted = [TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 7), TopicPartition("none", 0)]
    found = client.offsets(dict.fromkeys(wanted, LATEST))
    assert {tp: each.offset for tp, each in found.items()} == {wanted[0]: 3, wanted[1]: 0}
    assert {tp: problem.code for tp, problem in found.problems.items()} == dict.fromkeys(
        wanted[2:], UNKNOWN_TOPIC_OR_PARTITION
    )
    assert found.problems[wanted[2]].reason == f"There is no partition 7 of the topic {topic}."
    assert found.problems[wanted[3]].reason == "There is no topic none."


def test_reading_about_a_topic_never_creates_it(client: KafkaClient) -> None:
    """The broker allows it: a KafkaConsumer that asks for the end offset creates the topic."""
    before = set(client.topics())
    missing = TopicPartition("looked-for", 0)
    described = client.topics([missing.topic])
    assert not described
    assert described.problems[missing.topic].code == UNKNOWN_TOPIC_OR_PARTITION
    assert not client.offsets({missing: EARLIEST})
    assert not client.configs(topics=[missing.topic])
    time.sleep(1.0)
    assert set(client.topics()) == before


def test_a_deleted_topic_is_noticed_although_its_leader_is_cached(
    client: KafkaClient, kafka: KafkaCluster, new_topic: Callable[..., str]
) -> None:
    topic, other = new_topic(), new_topic()
    both = dict.fromkeys([TopicPartition(topic, 0), TopicPartition(other, 0)], LATEST)
    assert len(client.offsets(both)) == 2
    with kafka.client() as admin:
        admin._admin.delete_topics([topic])
    kafka.wait(lambda: topic in client.topics([topic]).problems)
    found = client.offsets(both)
    assert list(found) == [TopicPartition(other, 0)]
    assert found.problems[TopicPartition(topic, 0)].code == UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_created_again_has_another_id(
    client: KafkaClient, kafka: KafkaCluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    first = client.topics([topic])[topic]["topic_id"]
    client._admin.delete_topics([topic])
    kafka.wait(lambda: topic in client.topics([topic]).problems)
    kafka.wait(lambda: not create_topics(client, {topic: 1}) and topic in client.topics([topic]))
    assert client.topics([topic])[topic]["topic_id"] != first


def test_offsets_of_every_kind(client: KafkaClient, kafka: KafkaCluster, new_topic: Callable[..., str]) -> None:
    partition = TopicPartition(new_topic(retention_ms=-1), 0)
    assert client.offsets({partition: 0})[partition].offset == -1, "an empty log has no record that late"
    producer = KafkaProducer(bootstrap_servers=kafka.servers)
    for at in (1000, 3000, 2000):
        producer.send(partition.topic, b"x", partition=0, timestamp_ms=at)
        producer.flush()
    producer.close()
    asked = {EARLIEST: 0, LATEST: 3, -3: 1, 0: 0, 1000: 0, 1001: 1, 3000: 1, 3001: -1}
    assert {spec: client.offsets({partition: spec})[partition].offset for spec in asked} == asked


def test_a_bootstrap_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "CONNECT_MS", 1000)  # on a busy machine, 200 ms can pass without any answer
    extra = {"bootstrap.servers": f"{HOST}:{free_port()}"}
    with pytest.raises(BrokerUnreachable):
        KafkaClient("k", extra)
    with nothing_left_behind():
        for _ in range(TIMES):
            # The last try of a second may be cut off before it is refused.
            with pytest.raises(BrokerUnreachable, match=r"when asked to connect: .*(ECONNREFUSED|timed out)"):
                KafkaClient("k", extra)


def test_a_connection_that_cannot_be_used_leaves_nothing_behind() -> None:
    with nothing_left_behind():
        for extra in ({}, {"bootstrap.servers": "a:b:c"}, {"bootstrap.servers": "a", "security.protocol": "x"}):
            with pytest.raises(SpecError):
                KafkaClient("k", extra)


def test_opening_and_closing_leaves_nothing_behind(kafka: KafkaCluster) -> None:
    kafka.client().close()
    with nothing_left_behind():
        for _ in range(TIMES):
            with kafka.client() as client:
                client.describe_cluster()
            client.close()
    with pytest.raises(StreamError, match="is closed"):
        client.topics()


def test_eight_threads_share_one_client(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(20)
    produce(kafka, topic, 5, partition=3)
    partitions = [TopicPartition(topic, number) for number in range(20)]

    def ask(_: int) -> int:
        return sum(each.offset for each in client.offsets(dict.fromkeys(partitions, LATEST)).values())

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(400))) == {5}


def test_requests_of_hundreds_of_threads_are_all_answered(client: KafkaClient, new_topic: Callable[..., str]) -> None:
    partition = TopicPartition(new_topic(), 0)
    with ThreadPoolExecutor(300) as pool:
        asked = [pool.submit(client.offsets, {partition: LATEST}) for _ in range(300)]
        asked += [pool.submit(client.topics, [partition.topic]) for _ in range(300)]
        assert all(len(answer.result()) == 1 for answer in asked)


def test_a_client_after_a_fork_raises_at_once(client: KafkaClient) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            client.describe_cluster()
        except StreamError as error:
            os.write(write, str(error).encode())
        finally:
            client.close()
            os._exit(0)
    os.close(write)
    until = time.monotonic() + 300
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.05)
    assert os.read(read, 1000) == b"This Kafka client was opened in another process. Open one after the fork."
    os.close(read)
    assert client.describe_cluster()["brokers"], "the child's close() must not touch ours"


def test_settings_include_defaults_and_a_missing_broker_is_reported(
    client: KafkaClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(retention_ms=1234567)
    found = client.configs(topics=[topic, "none"], brokers=[1, 9], keys=["retention.ms", "cleanup.policy", "node.id"])
    assert found == {topic: {"retention.ms": "1234567", "cleanup.policy": "delete"}, 1: {"node.id": "1"}}
    assert {name: problem.code for name, problem in found.problems.items()} == {
        "none": UNKNOWN_TOPIC_OR_PARTITION,
        9: NO_ANSWER,
    }
    assert len(client.configs(topics=[topic])[topic]) > 20, "without keys all are told, defaults too"


def test_log_ins_are_not_logged(kafka: KafkaCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    extra = {**kafka.extra, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    with pytest.raises(StreamError) as caught:
        KafkaClient("k", {**extra, "sasl.username": "me", "sasl.password": "hunter2"})
    assert "hunter2" not in f"{caught.value} {caught.value.fields}"
    assert "Starting KafkaAdminClient" in caplog.text
    assert "hunter2" not in caplog.text


class TestTwoBrokers:
    """Two brokers, of which some are stopped."""

    @pytest.fixture(scope="class")
    def pair(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
        with KafkaCluster(tmp_path_factory.mktemp("pair"), 2) as brokers, brokers.client() as client:
            spread = {"one-each": {0: [1], 1: [2]}, "copied": {0: [2, 1], 1: [1, 2]}}
            wanted = {name: {"assignments": assignments} for name, assignments in spread.items()}
            client._admin.create_topics(wanted, wait_for_metadata=True)
            wait_until_known(client, wanted)
            for topic in spread:
                for partition in (0, 1):
                    produce(brokers, topic, 3 + partition, partition)
            yield brokers

    def test_partitions_with_a_leader_are_returned_if_others_have_none(self, pair: KafkaCluster) -> None:
        wanted = [TopicPartition(topic, number) for topic in ("one-each", "copied") for number in (0, 1)]
        with pair.client() as client:
            assert {tp: e.offset for tp, e in client.offsets(dict.fromkeys(wanted, LATEST)).items()} == dict(
                zip(wanted, (3, 4, 3, 4), strict=True)
            )
            pair.stop(2)
            # Before and after the cluster notices it: never an error, and never a wrong number.
            until = time.monotonic() + 300
            while True:
                found = client.offsets(dict.fromkeys(wanted, LATEST))
                assert found[wanted[0]].offset == 3
                assert wanted[1] not in found
                assert found.problems[wanted[1]].code in (LEADER_NOT_AVAILABLE, NO_ANSWER)
                if found.problems[wanted[1]].code == LEADER_NOT_AVAILABLE and len(found) == 3:
                    break
                assert time.monotonic() < until
            assert found.problems[wanted[1]].reason == "Partition 1 of the topic one-each has no leader."
            assert (found[wanted[2]].offset, found[wanted[3]].offset) == (3, 4), "the other broker leads them now"
            assert client.configs(brokers=[1, 2]).problems.keys() == {2}
            pair.start(2)
            pair.wait(lambda: len(client.offsets(dict.fromkeys(wanted, LATEST))) == 4)

    def test_a_broker_that_hangs_is_left_out_where_any_broker_can_answer(self, pair: KafkaCluster) -> None:
        """TCP stays up, but nobody answers."""
        with KafkaClient("k", {**pair.extra, "socket.timeout.ms": 10_000}) as client:
            client.topics(["one-each"])
            client.configs(brokers=[1, 2])  # connected to both
            os.kill(pair.pid(2), signal.SIGSTOP)
            try:
                for _ in range(10):
                    assert client.topics(["one-each"])["one-each"]
                    assert client.configs(topics=["one-each"])["one-each"]
                wanted = [TopicPartition("one-each", number) for number in (0, 1)]
                found = client.offsets(dict.fromkeys(wanted, LATEST))
                assert found[wanted[0]].offset == 3
                assert wanted[1] not in found
            finally:
                os.kill(pair.pid(2), signal.SIGCONT)
            pair.wait(lambda: len(client.offsets(dict.fromkeys(wanted, LATEST))) == 2)

    def test_a_client_outlives_all_brokers(self, pair: KafkaCluster) -> None:
        partition = TopicPartition("one-each", 0)
        with pair.client() as client:
            assert client.offsets({partition: LATEST})[partition].offset == 3
            for number in pair.numbers:
                pair.stop(number)
            with pytest.raises(BrokerUnreachable, match="does not answer when asked to describe topics"):
                client.topics([partition.topic])
            for number in pair.numbers:
                pair.start(number)

            def answers() -> bool:
                try:
                    return partition in client.offsets({partition: LATEST})
                except BrokerUnreachable:
                    return False

            pair.wait(answers)
