"""A planned batch that ends before it begins: which ranges become empty, and what stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint.logs import LogEnds, boundary, kafka_offsets, read_offsets
from airflow_stream_provider.checkpoint.rewind import stepped_back
from devstack import checkpoint_trees as trees


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Batch 0 is committed, and ends at offsets 40 and 45 of orders, and at 3 of users."""
    found = trees.new(tmp_path / "checkpoint")
    trees.plan(found, 0, trees.kafka(orders={0: 40, 1: 45}, users={0: 3}))
    trees.commit(found, 0, at=100.0)
    return found


def planned(root: Path) -> object:
    return [kafka_offsets(text) for text in read_offsets(root / "offsets" / "1").sources.values()]


def test_only_what_ends_before_it_begins_becomes_empty(root: Path) -> None:
    trees.plan(root, 1, trees.kafka(orders={0: 38, 1: 49}))
    found = stepped_back(root)
    assert found is not None
    assert (found.batch, found.begins, found.ended) == (
        1,
        {"orders": {0: 40}, "users": {0: 3}},
        ("orders-0 at 38", "users-0 is missing"),
    )
    head = (root / "offsets" / "1").read_text().split("\n")[:2]
    found.apply()
    assert planned(root) == [{"orders": {0: 40, 1: 49}, "users": {0: 3}}]
    assert (root / "offsets" / "1").read_text().split("\n")[:2] == head
    assert boundary(root) == LogEnds(1, 0)
    assert stepped_back(root) is None


def test_a_batch_as_it_should_be_and_one_that_is_committed_are_left_alone(root: Path) -> None:
    assert stepped_back(root) is None
    trees.plan(root, 1, trees.kafka(orders={0: 40, 1: 45, 2: 1}, users={0: 4}))
    assert stepped_back(root) is None
    trees.plan(root, 1, trees.kafka(orders={0: 1, 1: 1}, users={0: 1}))
    trees.commit(root, 1, at=101.0)
    assert stepped_back(root) is None


def test_other_sources_stay_as_they_are(tmp_path: Path) -> None:
    root = trees.new(tmp_path / "checkpoint")
    trees.plan(root, 0, '{"logOffset":7}', trees.kafka(orders={0: 40}), "-")
    trees.commit(root, 0, at=100.0)
    trees.plan(root, 1, '{"logOffset":5}', trees.kafka(orders={0: 4}), "-")
    found = stepped_back(root)
    assert found is not None
    found.apply()
    assert (root / "offsets" / "1").read_text().split("\n")[2:] == ['{"logOffset":5}', '{"orders":{"0":40}}', "-"]
