"""A group that commits the offset after its last record, on a topic with transactions of a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from kafka import KafkaProducer, TopicPartition

from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.records import RecordBatch
from airflow_stream_provider.lag.limits import Moments
from airflow_stream_provider.lag.report import Alarm, Ceilings, QueryLag
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import commit_group
from tests.support.lag_reports import measure, of_group


def lag_of(client: KafkaClient, group: str, *moments: float) -> QueryLag:
    (found,) = measure(client, [of_group(client, group)], Moments(at=frozenset(moments))).queries
    return found


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_the_marker_at_the_end_is_no_record_that_waits_and_none_that_is_lost(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str], commits: bool
) -> None:
    topic = new_topic()
    partition, group = TopicPartition(topic, 0), f"sink-{topic}"
    with_marker = KafkaProducer(
        bootstrap_servers=kafka.servers, transactional_id=topic, compression_type="gzip", linger_ms=200
    )
    with_marker.init_transactions()
    with_marker.begin_transaction()
    for _ in range(3):
        with_marker.send(topic, b"x" * 500, partition=0)
    with_marker.flush()
    commit_group(client, group, {partition: 3})
    assert lag_of(client, group).records == 0
    (with_marker.commit_transaction if commits else with_marker.abort_transaction)()
    kafka.wait(lambda: client.offsets({partition: -1})[partition].offset == 4)
    assert client.batches({partition: 3})[partition] == (RecordBatch(3, 3, control=True, transactional=True),)
    assert client.batches({partition: 4})[partition] == ()
    now = time.time() + 1
    done = lag_of(client, group, now)
    assert (done.records, done.seconds, done.unread_before[now], done.older(0.0)) == (0, 0.0, False, False)
    commit_group(client, group, {partition: 2})
    assert lag_of(client, group).records == 2, "a record and the marker behind it"
    commit_group(client, group, {partition: 3})
    client._admin.delete_records({partition: 4})
    kafka.wait(lambda: client.offsets({partition: -2})[partition].offset == 4)
    emptied = lag_of(client, group)
    assert (emptied.lost, emptied.alarm(Alarm.LOST_DATA, Ceilings())) == (0, None), "nothing is left that tells"
    with_marker.begin_transaction()
    with_marker.send(topic, b"x", partition=0)
    with_marker.commit_transaction()
    with_marker.close()
    again = lag_of(client, group)
    assert (again.lost, again.alarm(Alarm.LOST_DATA, Ceilings()), again.records) == (0, False, 2)
