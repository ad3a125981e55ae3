"""A control log in a topic of a real broker: one winner of each number, whatever happens to the topic meanwhile."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections import Counter
from collections.abc import Callable

import pytest
from kafka import TopicPartition

from airflow_stream_provider.control.log import ControlLog, make_record
from airflow_stream_provider.control.topic_index import READ_TO, ReadTo, record_key
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.connect import BrokerUnreachable
from airflow_stream_provider.kafka.control_topic import KafkaTopic
from airflow_stream_provider.lifecycle.errors import (
    ControlLogDamaged,
    ControlLogReplaced,
    ControlUnavailable,
    SeqTaken,
)
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat
from airflow_stream_provider.lifecycle.record import Record
from devstack.kafka_cluster import KafkaCluster
from tests.support.one_broker import client, kafka, new_topic
from tests.support.story import RUNNING, write

__all__ = ["client", "kafka", "new_topic"]

DRIVER = "orders-1-aaaaaaaa.00000001"
WRITERS, NUMBERS = 20, 15


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic(cleanup_policy="compact", message_timestamp_type="LogAppendTime")


def store(client: KafkaClient, topic: str) -> TopicStore:
    return TopicStore(KafkaTopic(lambda: client, client.conn_id, topic), "orders")


def _led(client: KafkaClient, topic: str) -> bool:
    with contextlib.suppress(BrokerUnreachable):
        return bool(client.topics([topic])[topic]["partitions"][0]["leader_id"] > 0)
    return False


def append(log: TopicStore, by: str = "me") -> int:
    """Append a record to what this store has read; return its number."""
    seq = 0
    while (data := log.read(seq + 1)) is not None:
        seq, previous = seq + 1, Record.read(data, seq + 1).nonce
    log.create(seq + 1, make_record("kind", by).numbered(seq + 1, previous if seq else "").to_json())
    return seq + 1


def test_of_twenty_writers_one_gets_each_number(client: KafkaClient, topic: str) -> None:
    wins: Counter[int] = Counter()
    begin = threading.Barrier(WRITERS)

    def contend(number: int) -> None:
        mine = store(client, topic)
        begin.wait()
        while mine.read(NUMBERS) is None:
            try:
                wins[append(mine, str(number))] += 1
            except SeqTaken:
                continue

    threads = [threading.Thread(target=contend, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [[each.by for each in ControlLog(store(client, topic), "orders").records()] for _ in range(2)]
    assert told[0] == told[1]
    assert len(told[0]) >= NUMBERS
    assert wins == Counter(range(1, len(told[0]) + 1))


def test_a_log_tells_the_same_to_whoever_reads_it(client: KafkaClient, topic: str) -> None:
    log, other = (ControlLog(store(client, topic), "orders") for _ in range(2))
    assert other.refresh().seq == 0
    write(log, *RUNNING)
    assert other.refresh() == log.refresh()
    assert other.state.holder
    log.beat(DRIVER, Heartbeat(counter=7))
    found = other.heartbeat(DRIVER)
    assert found is not None
    assert (found.counter, other.store.heartbeats()) == (7, [DRIVER])


def test_what_only_the_last_of_counts_is_replaced(client: KafkaClient, topic: str) -> None:
    mine, other = store(client, topic), store(client, topic)
    assert (other.saved_state(), other.topic_ids(), other.heartbeat(DRIVER)) == (None, None, None)
    for value in (b"old", b"new"):
        mine.put_saved_state(value)
        mine.put_topic_ids(value)
        mine.put_heartbeat(DRIVER, value)
    assert (other.saved_state(), other.topic_ids(), other.heartbeat(DRIVER)) == (b"new", b"new", b"new")


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


def test_a_lost_end_is_noticed_by_whoever_has_read_it_and_by_the_next_writer(client: KafkaClient, topic: str) -> None:
    mine = store(client, topic)
    append(mine)
    known = mine._reader.index.read_to
    # A log put back from an older copy: somebody still writes as one that has read record 2, which is not there.
    lost = ReadTo(2, uuid.uuid4().hex, known.first)
    headers = {READ_TO: lost.to_header()}
    client.write(TopicPartition(topic, 0), f"heartbeat/{DRIVER}".encode(), b"{}", headers, 5.0)
    for reader in (mine, store(client, topic)):
        with pytest.raises(ControlLogDamaged, match=r"Record 2 .* is missing"):
            reader.read(2)


def test_a_topic_whose_beginning_was_deleted_is_not_read(client: KafkaClient, new_topic: Callable[..., str]) -> None:
    topic = new_topic()  # of one that is only compacted, Kafka deletes no beginning
    mine = store(client, topic)
    append(mine)
    append(mine)
    client._admin.delete_records({TopicPartition(topic, 0): 1})
    with pytest.raises(ControlLogDamaged, match="does not have offset 0"):
        store(client, topic).read(1)


def test_a_topic_made_anew_is_another_one_also_when_it_is_longer(
    client: KafkaClient, kafka: KafkaCluster, topic: str
) -> None:
    mine = store(client, topic)
    append(mine)
    client._admin.delete_topics([topic])
    kafka.wait(lambda: topic in client.topics([topic]).problems)
    settings = {"num_partitions": 1, "configs": {"cleanup.policy": "compact"}}
    kafka.wait(lambda: not client._admin.create_topics({topic: settings}, wait_for_metadata=True) or True)
    other = store(client, topic)
    for _ in range(4):
        append(other)
    for use in (lambda: mine.read(2), lambda: append(mine), lambda: mine.put_heartbeat(DRIVER, b"{}")):
        with pytest.raises(ControlLogReplaced, match="is not the one that was read before"):
            use()


def test_a_writer_without_its_broker_does_not_know_and_finds_out(
    client: KafkaClient, kafka: KafkaCluster, topic: str
) -> None:
    mine = store(client, topic)
    append(mine)
    kafka.stop(1)
    try:
        with pytest.raises(ControlUnavailable, match="cannot be used now"):
            append(mine)
    finally:
        kafka.start(1)
    kafka.wait(lambda: _led(client, topic))
    log = ControlLog(store(client, topic), "orders")
    assert len(log.records()) in (1, 2)


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
