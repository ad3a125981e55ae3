"""A control log in a topic, read as a task reads it."""

from __future__ import annotations

from airflow_stream_provider.control.log import ControlLog
from airflow_stream_provider.control.topic_store import TopicStore
from airflow_stream_provider.kafka.client import KafkaClient
from airflow_stream_provider.kafka.control_root import KafkaTopic


def log_in_topic(client: KafkaClient, topic: str) -> ControlLog:
    """Return the log of the stream orders in this topic, of which nothing has been read yet."""
    return ControlLog(TopicStore(KafkaTopic(lambda: client, client.conn_id, topic), "orders"), "orders")
