"""The gap between two holders by the times of real commit files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.hooks.about_drivers import gaps
from airflow_stream_provider.lifecycle.heartbeat import Heartbeat, QueryProgress
from airflow_stream_provider.lifecycle.record import Record
from airflow_stream_provider.planning.snapshot import Snapshot
from devstack.checkpoint_trees import commit, kafka, new, plan
from tests.support.snapshots import snapshot
from tests.support.story import (
    NEW,
    PREPARED,
    acquired,
    ready,
    record,
    released,
    requested,
)


def checkpoint(folder: Path, *times: float) -> str:
    """Make a checkpoint whose batches were committed at these times."""
    root = new(folder)
    for batch, at in enumerate(times):
        plan(root, batch, kafka(orders={0: batch}))
        commit(root, batch, at=at)
    return str(folder)


def taken_over(at: float, *queries: dict[str, Any]) -> tuple[Snapshot, Record]:
    """A hand-over to a driver with these queries."""
    up = record("standby", deployment=NEW.rpartition(".")[0], incarnation=NEW, queries=list(queries), rehearsal={})
    asked = [requested("up", NEW), ready("up", NEW), released("orders-1-aaaa.00000001", "up", NEW)]
    found = snapshot(*PREPARED[:-1], up, *asked, replace(acquired(NEW, "up", 2), at=at))
    return found, found.acquisitions()[-1]


def test_a_gap_is_from_the_last_commit_before_to_the_first_one_after(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "a", 1000.0, 1010.0, 1012.5, 1020.0)
    found = gaps(*taken_over(1011.0, {"name": "a", "checkpoint": place}))
    assert found == {"a": 2.5}


def test_a_commit_at_the_very_moment_is_of_the_old_holder(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "a", 1011.0, 1013.0)
    assert gaps(*taken_over(1011.0, {"name": "a", "checkpoint": place})) == {"a": 2.0}


@pytest.mark.parametrize("times", [(), (1000.0,), (1020.0,), (1000.0, 1005.0)], ids=str)
def test_without_a_commit_on_both_sides_the_gap_is_not_known(tmp_path: Path, times: tuple[float, ...]) -> None:
    place = checkpoint(tmp_path / "a", *times)
    assert gaps(*taken_over(1011.0, {"name": "a", "checkpoint": place})) == {}


def test_a_query_whose_checkpoint_cannot_be_read_here_hides_no_other(tmp_path: Path) -> None:
    place = checkpoint(tmp_path / "b", 1010.0, 1012.0)
    queries = [
        {"name": "nowhere", "checkpoint": f"{tmp_path}/none"},
        {"name": "elsewhere", "checkpoint": "s3a://bucket/out"},
        {"name": "unsaid"},
        {"name": "b", "checkpoint": place},
    ]
    assert gaps(*taken_over(1011.0, *queries)) == {"b": 2.0}


@pytest.mark.parametrize(("started_at", "known"), [(1011.5, True), (1000.0, False), (None, False)])
def test_of_a_checkpoint_that_only_drivers_reach_the_new_holder_says_it(started_at: float | None, known: bool) -> None:
    found, record = taken_over(
        1011.0, {"name": "a", "checkpoint": "s3a://bucket/a"}, {"name": "b", "checkpoint": "s3a:b"}
    )
    beat = Heartbeat(started_at=started_at, queries=(QueryProgress("a", gap_seconds=1.5), QueryProgress("b")))
    assert gaps(replace(found, heartbeats={NEW: beat}), record) == ({"a": 1.5} if known else {})
