"""The types of fields; each kind is broken once in test_rules.py."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_stream_provider.lifecycle.fields import sound_fields
from airflow_stream_provider.lifecycle.policy import Policy
from tests.support import story
from tests.support.story import record

RELEASE = {"version": "1", "hash": "0" * 64}


@pytest.mark.parametrize("records", [story.HANDED_OVER, story.INTERRUPTED, story.STOPPED])
def test_what_drivers_and_tasks_write_is_sound(records: list[Any]) -> None:
    assert all(sound_fields(each) for each in records)
    assert sound_fields(record("declared", deployment="d", release=RELEASE, policy=Policy().to_json()))


def test_what_is_missing_or_unknown_is_not_looked_at() -> None:
    assert sound_fields(record("acquired", epoch=None, later=object))
    assert sound_fields(record("a kind of a newer version", deployment=7))
    assert sound_fields(record("declared", release={**RELEASE, "later": 7}, policy={"later": 7}))


@pytest.mark.parametrize("value", [True, "1", float("nan"), float("inf"), [1.0]])
def test_a_time_is_a_finite_number(value: Any) -> None:
    assert not sound_fields(record("requested", request="r", expires=value))


@pytest.mark.parametrize("name", list(Policy().to_json()))
def test_every_limit_of_a_policy_has_its_type(name: str) -> None:
    assert not sound_fields(record("declared", release=RELEASE, policy={name: {}}))
