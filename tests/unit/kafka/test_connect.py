"""Errors of kafka-python become ours, with what to do and without secrets."""

from __future__ import annotations

import logging

import pytest
from kafka.errors import KafkaTimeoutError, SaslAuthenticationFailedError, TopicAuthorizationFailedError

from airflow_stream_provider.kafka import connect
from airflow_stream_provider.kafka.connect import BrokerUnreachable, KafkaDenied, stream_error


@pytest.mark.parametrize(
    ("error", "kind", "text", "next_step"),
    [
        (
            SaslAuthenticationFailedError("bad password"),
            KafkaDenied,
            "refuses the connection's credentials",
            "password",
        ),
        (TopicAuthorizationFailedError("orders"), KafkaDenied, "denies the connection's user the request", "ACL"),
        (KafkaTimeoutError("too slow"), BrokerUnreachable, "does not answer when asked for offsets", "brokers run"),
        (ConnectionRefusedError(), BrokerUnreachable, "ConnectionRefusedError", "listeners"),
    ],
)
def test_each_error_names_connection_request_and_next_step(
    error: Exception, kind: type[Exception], text: str, next_step: str
) -> None:
    found = stream_error("kafka_default", ["one:9092", "two:9092"], "for offsets", error)
    assert type(found) is kind
    assert found.message.startswith("Kafka at one:9092,two:9092 (connection 'kafka_default') ")
    assert text in found.message
    assert next_step in found.next_step
    assert found.fields == {"conn_id": "kafka_default"}


def test_the_text_of_an_error_that_is_not_kafkas_is_never_shown() -> None:
    found = stream_error("kafka_default", ["one:9092"], "to connect", ValueError("password=hunter2"))
    assert "hunter2" not in str(found)
    assert "ValueError" in found.message


@pytest.mark.parametrize(("level", "kept"), [(logging.NOTSET, logging.WARNING), (logging.INFO, logging.INFO)])
def test_what_kafka_python_says_of_itself_is_no_line_of_a_task_unless_somebody_asks(level: int, kept: int) -> None:
    logger = logging.getLogger("kafka")
    before = logger.level
    try:
        logger.setLevel(level)
        connect._keep_out_of_logs()
        assert logger.level == kept
        assert logging.getLogger("kafka.net.connection").isEnabledFor(logging.INFO) is (kept == logging.INFO)
    finally:
        logger.setLevel(before)
