from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_stream_provider.hooks.failing import failing_without_retry
from airflow_stream_provider.lifecycle.errors import SpecError, StreamError


def test_what_a_person_must_change_first_is_not_retried() -> None:
    with pytest.raises(AirflowFailException, match=r"No broker\. Name one\."), failing_without_retry():
        raise SpecError("No broker.", next_step="Name one.")


def test_everything_else_is_retried() -> None:
    with pytest.raises(StreamError, match="Kafka does not answer"), failing_without_retry():
        raise StreamError("Kafka does not answer.")
