"""How a trial sizes its batches; real trials are in tests/integration/runtime/test_trial.py."""

from __future__ import annotations

from pathlib import Path

from airflow_stream_provider.runtime.clone_trial import usual_records
from devstack import checkpoint_trees as trees


def test_a_batch_is_as_large_as_the_last_ones_that_had_records(tmp_path: Path) -> None:
    root = trees.new(tmp_path / "live")
    for batch, end in enumerate((0, 100, 200, 200, 210, 310)):
        trees.plan(root, batch, trees.kafka(orders={0: end, 1: end}))
        trees.commit(root, batch)
    assert usual_records(str(root)) == 200


def test_without_batches_that_had_records_one_is_assumed(tmp_path: Path) -> None:
    root = trees.new(tmp_path / "live")
    trees.plan(root, 0, trees.kafka(orders={0: 5}))
    trees.commit(root, 0)
    assert usual_records(str(root)) == 1
