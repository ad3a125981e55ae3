"""A control log in a topic of a real broker, beside what every store has to hold (`test_store.py`)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka import TopicPartition

from airflow_stream_provider.control.log import make_record
from airflow_stream_provider.control.topic_index import record_key
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.control_root import KafkaTopic
from airflow_stream_provider.lifecycle.record import Record
from devstack.kafka_cluster import KafkaCluster
from tests.support.one_broker import client, kafka, new_topic

__all__ = ["client", "kafka", "new_topic"]

DRIVER = "orders-1-aaaaaaaa.00000001"


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic(cleanup_policy="compact", message_timestamp_type="LogAppendTime")


def store(client: KafkaClient, topic: str) -> TopicStore:
    return TopicStore(KafkaTopic(lambda: client, client.conn_id, topic), "orders")


def append(log: TopicStore) -> int:
    """Append a record to what this store has read; return its number."""
    seq = 0
    while (data := log.read(seq + 1)) is not None:
        seq, previous = seq + 1, Record.read(data, seq + 1).nonce
    log.create(seq + 1, make_record("kind", "me").numbered(seq + 1, previous if seq else "").to_json())
    return seq + 1


def test_records_that_are_not_in_memory_any_more_are_read_again(
    client: KafkaClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_stream_provider.control.topic_reader._KEPT", 2)
    mine = store(client, topic)
    written = [append(mine) for _ in range(5)]
    assert written == [1, 2, 3, 4, 5]
    assert [Record.read(mine.read(seq) or b"", seq).by for seq in (1, 5, 2)] == ["me"] * 3


def test_a_log_is_opened_from_its_end_and_a_heartbeat_is_removed(client: KafkaClient, topic: str) -> None:
    mine = store(client, topic)
    for _ in range(4):
        append(mine)
        for beat in range(25):
            mine.put_heartbeat(DRIVER, b"%d" % beat)
    fresh = store(client, topic)
    assert fresh.next_number(4) is None
    assert fresh.heartbeat(DRIVER) == b"24"
    assert not fresh._reader._whole
    assert list(fresh._reader._records) == []
    assert fresh.read(4) == mine.read(4)
    assert fresh.idle_heartbeats(3600.0) == []
    fresh.remove_heartbeat(DRIVER)
    assert mine.heartbeats() == store(client, topic).heartbeats() == []
    assert [store(client, topic).read(seq) for seq in range(1, 6)] == [mine.read(seq) for seq in range(1, 6)]


def test_compaction_keeps_every_record_and_the_last_heartbeat(
    client: KafkaClient, kafka: KafkaCluster, new_topic: Callable[..., str]
) -> None:
    # Each message in a segment of its own, and all of them compacted as soon as can be.
    topic = new_topic(cleanup_policy="compact", segment_ms=50, min_cleanable_dirty_ratio="0.001", delete_retention_ms=1)
    mine = store(client, topic)
    for number in range(40):
        mine.put_heartbeat(DRIVER, str(number).encode())
        if number % 10 == 0:
            append(mine)
    partition, first = TopicPartition(topic, 0), 0
    topic_id = {topic: client.topics([topic])[topic]["topic_id"]}

    def compacted() -> bool:
        mine.put_heartbeat(DRIVER, b"last")  # the segment that is written to is never compacted
        left = client.read({partition: first}, topic_id)[partition].messages
        return len(left) < 25

    kafka.wait(compacted)
    fresh = store(client, topic)
    assert [fresh.read(seq) for seq in range(1, 6)] == [*(mine.read(seq) for seq in range(1, 5)), None]
    assert fresh.heartbeat(DRIVER) == b"last"


def test_the_key_of_a_record_never_comes_twice(client: KafkaClient, topic: str) -> None:
    mine = store(client, topic)
    data = make_record("kind", "me").numbered(1).to_json()
    mine.create(1, data)
    mine.create(1, data)  # the same record, sent again after a lost answer
    topic_id = {topic: client.topics([topic])[topic]["topic_id"]}
    partition = TopicPartition(topic, 0)
    sent = [each.key for each in client.read({partition: 0}, topic_id)[partition].messages]
    assert len(sent) == len(set(sent)) == 2
    assert record_key(1) != record_key(1)
