import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from airflow_stream_provider.lifecycle.errors import StreamError
from devstack.stack import LocalStack


def test_records_go_in_and_come_out(stack: LocalStack) -> None:
    stack.broker.create_topics({"greetings": 2})
    producer = KafkaProducer(bootstrap_servers=stack.bootstrap_servers)
    for partition in range(2):
        producer.send("greetings", b"hello", partition=partition)
    producer.close()
    with KafkaConsumer(
        "greetings",
        bootstrap_servers=stack.bootstrap_servers,
        auto_offset_reset="earliest",
        group_id="greeted",
        consumer_timeout_ms=600_000,
    ) as consumer:
        records = [next(consumer) for _ in range(2)]
    assert {(record.partition, record.value) for record in records} == {(0, b"hello"), (1, b"hello")}


def test_a_topic_that_is_there_is_nobody_elses(stack: LocalStack) -> None:
    stack.broker.create_topics({"taken": 1})
    with pytest.raises(StreamError, match="topics of these names already: taken"):
        stack.broker.create_topics({"free": 1, "taken": 1})
    with KafkaAdminClient(bootstrap_servers=stack.bootstrap_servers) as admin:
        assert "free" not in admin.list_topics()


def test_a_topic_that_nobody_created_is_an_error(stack: LocalStack) -> None:
    producer = KafkaProducer(bootstrap_servers=stack.bootstrap_servers, max_block_ms=2_000)
    with pytest.raises(KafkaError):
        producer.send("typo", b"hello").get(60)
    producer.close()
    admin = KafkaAdminClient(bootstrap_servers=stack.bootstrap_servers)
    assert "typo" not in admin.list_topics()
    admin.close()
