"""The alarm RETENTION for a topic of a real broker that deletes by size."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
from kafka import KafkaProducer, TopicPartition

from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.lag.report import Alarm, Ceilings, QueryLag
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import alter_topic, commit_group
from tests.support.lag_reports import measure, of_group

MIB = 1048576


def test_unread_records_that_the_size_of_the_topic_threatens(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str]
) -> None:
    """4 MiB in 4,000 seconds: with 10 MiB there are 6,000 seconds left for the first record, with 5 MiB 1,000."""
    topic = new_topic(segment_bytes=MIB, retention_bytes=10 * MIB)
    partition, now = TopicPartition(topic, 0), time.time()
    producer = KafkaProducer(bootstrap_servers=kafka.servers)
    for age in range(4000, 0, -40):
        at = round((now - age) * 1000)
        producer.send(topic, os.urandom(4 * MIB // 100), partition=0, timestamp_ms=at)
    producer.close()

    def behind(committed: int) -> QueryLag:
        commit_group(client, f"of-{topic}", {partition: committed})
        (found,) = measure(client, [of_group(client, f"of-{topic}")]).queries
        assert found.problem == ""
        return found

    roomy = behind(0)
    assert roomy.records == 100
    assert roomy.retention_seconds == pytest.approx(6000, rel=0.02)
    assert roomy.alarms(Ceilings()) == ()
    alter_topic(client, topic, {"retention.bytes": str(5 * MIB)})
    kafka.wait(lambda: (behind(0).retention_seconds or 0) < 1100)
    full = behind(0)
    assert full.retention_seconds == pytest.approx(1000, rel=0.1)
    assert full.alarms(Ceilings()) == (Alarm.RETENTION,)
    assert behind(90).alarms(Ceilings()) == ()
