"""Ids that are tags of ours: when they were made, and until when an application of one may come."""

from __future__ import annotations

from airflow_stream_provider.clusters.yarn_api import (
    COME_SECONDS,
    SUBMIT_SECONDS,
    is_submission,
    made_at,
    may_come,
    new_submission,
)
from airflow_stream_provider.clusters.yarn_request import _TAG

NOW = 1_764_000_000.25


def test_an_id_says_when_it_was_made_and_is_a_tag_of_yarn() -> None:
    first, second = new_submission(NOW), new_submission(NOW)
    assert first != second
    assert made_at(first) == made_at(second) == NOW
    assert is_submission(first)
    assert _TAG.fullmatch(first), "YARN stores tags in lower case"
    assert not any(map(is_submission, ("", "application_1764000000250_0001", first + "0", first.upper())))


def test_it_comes_within_a_bound_that_is_longer_than_the_one_for_who_sends_it() -> None:
    id = new_submission(NOW)
    assert SUBMIT_SECONDS + 60 <= COME_SECONDS, "clocks differ by a minute at most, as everywhere"
    assert may_come(id, NOW + COME_SECONDS - 1)
    assert not may_come(id, NOW + COME_SECONDS)
