"""Reasons for missing answers, as sentences."""

from __future__ import annotations

import pytest
from kafka.errors import IncompatibleBrokerVersion, KafkaTimeoutError, SaslAuthenticationFailedError

from airflow_stream_provider.kafka.answers import NO_ANSWER, Problem, error_sentence, named, no_answer


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (3, "There is no topic orders."),
        (5, "Topic orders has no leader."),
        (29, "Kafka denies the connection's user access to the topic orders: TopicAuthorizationFailedError."),
        (6, "Kafka does not answer for the topic orders: NotLeaderForPartitionError."),
    ],
)
def test_an_error_code_is_a_sentence(code: int, sentence: str) -> None:
    assert error_sentence(code, "topic orders") == sentence


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            IncompatibleBrokerVersion("ListOffsets"),
            "Broker 2 is too old: Kafka 3.0 or later is needed, and 3.1 for a control log.",
        ),
        (KafkaTimeoutError("no response."), "Broker 2 does not answer: KafkaTimeoutError: no response."),
    ],
)
def test_a_broker_without_answer_is_named(error: Exception, reason: str) -> None:
    assert no_answer(2, error) == Problem(NO_ANSWER, reason)


def test_a_partition_has_a_name_for_sentences() -> None:
    assert named("orders", 3) == "partition 3 of the topic orders"


def test_credentials_that_a_broker_refuses_are_no_silent_broker() -> None:
    """They were replaced, perhaps: the reader opens a new client with those of now."""
    with pytest.raises(SaslAuthenticationFailedError):
        no_answer(2, SaslAuthenticationFailedError("Invalid credentials."))
