"""A policy through the `declared` record, also of a version that knows fewer or more fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.policy import Policy

OF_ALL = Policy(
    rehearse_batches=0,
    rehearse_seconds=1.5,
    state_limit_bytes=7,
    foreach_batch_safe=True,
    boundary_seconds=2.5,
    lease_seconds=3.5,
    pause_seconds=50.0,
    take_back_seconds=4.5,
    changed_checkpoints=("/a", "/b"),
    offsets_group="group",
    no_way_back=True,
    adopts=True,
    loss_seconds=6.5,
    ledger="orders_db",
    trial={"persist": True},
    skip=("orders-3@1234@1764000000000",),
    find=True,
)


@pytest.mark.parametrize("policy", [Policy(), OF_ALL])
def test_what_was_declared_is_read(policy: Policy) -> None:
    assert Policy.from_json(json.loads(json.dumps(policy.to_json()))) == policy


@pytest.mark.parametrize(
    ("data", "policy"),
    [
        ({}, Policy()),
        ({"lease_seconds": 5.0}, Policy(lease_seconds=5.0)),
        ({"of_next_year": 1, "rehearse_batches": 2}, Policy(rehearse_batches=2)),
        ({"changed_checkpoints": ["/a"]}, Policy(changed_checkpoints=("/a",))),
    ],
)
def test_a_record_of_another_version_is_read_as_far_as_it_is_known(data: dict[str, Any], policy: Policy) -> None:
    assert Policy.from_json(data) == policy
    hash(Policy.from_json(data))  # lists would make it unhashable


def test_every_field_differs_from_its_default_above() -> None:
    """So that a field that gets lost on its way is noticed."""
    default = Policy().to_json()
    assert [name for name, value in OF_ALL.to_json().items() if value == default[name]] == []
