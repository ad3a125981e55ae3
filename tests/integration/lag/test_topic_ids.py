"""A topic of a real broker that is deleted and made anew, and whose new log passes the old offset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kafka import KafkaProducer

from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.lag.committed_offsets import CommittedOffsets
from airflow_stream_provider.lag.report import Alarm, Ceilings, LagReport
from airflow_stream_provider.lag.topic_ids import note, read
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from devstack.kafka_cluster import KafkaCluster
from devstack.kafka_writes import create_topics
from tests.support.control_root import new_log
from tests.support.lag_reports import measure


def test_records_that_were_skipped_are_noticed_by_the_id_of_the_topic(
    kafka: KafkaCluster, client: KafkaClient, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic()
    store = new_log(tmp_path.as_uri(), "orders").store

    def produce(records: int) -> None:
        producer = KafkaProducer(bootstrap_servers=kafka.servers)
        for _ in range(records):
            producer.send(topic, b"x", partition=0)
        producer.close()

    def look() -> LagReport:
        progress = QueryProgress("q", id="spark-1", batch=1, committed=({topic: {"0": 3}},))
        report = measure(client, [CommittedOffsets("q", Heartbeat(queries=(progress,)), noted=read(store))])
        note(store, report)
        return report

    produce(3)
    assert look().queries[0].alarms(Ceilings()) == ()
    assert look().queries[0].alarms(Ceilings()) == ()
    client._admin.delete_topics([topic])
    kafka.wait(lambda: topic in client.topics([topic]).problems)
    kafka.wait(lambda: not create_topics(client, {topic: 1}) and topic in client.topics([topic]))
    produce(5)
    (found,) = look().queries
    assert (found.records, found.complete, found.lost) == (2, True, 0), "three records were skipped"
    assert (found.recreated, found.alarms(Ceilings())) == ((topic,), (Alarm.TOPIC_RECREATED,))
