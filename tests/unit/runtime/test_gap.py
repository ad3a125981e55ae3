from __future__ import annotations

from pathlib import Path

import pytest

from airflow_stream_provider.runtime import query_starts
from airflow_stream_provider.runtime.query_starts import Gaps
from devstack import checkpoint_trees as trees
from devstack.drivers import wait_for


@pytest.fixture
def place(tmp_path: Path) -> str:
    root = trees.new(tmp_path / "cp")
    for batch, at in enumerate((1000.0, 1010.0, 1012.5, 1020.0)):
        trees.plan(root, batch, trees.kafka(orders={0: batch}))
        trees.commit(root, batch, at=at)
    return str(root)


def test_the_gap_is_between_the_commits_around_the_start(place: str) -> None:
    gaps = Gaps()
    gaps.starts(place, 1)
    assert gaps.seconds(place, None) is None
    assert gaps.seconds(place, 1) is None, "that batch is the other driver's"
    wait_for("the gap", lambda: gaps.seconds(place, 3) is not None, 60.0)
    assert gaps.seconds(place, 3) == 2.5
    gaps.starts(place, 2)
    assert gaps.seconds(place, 2) is None, "it is of this start"
    wait_for("the gap", lambda: gaps.seconds(place, 3) == 7.5, 60.0)


@pytest.mark.parametrize("last", [None, 7])
def test_without_a_commit_on_both_sides_the_gap_is_not_known(place: str, last: int | None) -> None:
    gaps = Gaps()
    gaps.starts(place, last)
    assert gaps.seconds(place, 9) is None


def test_a_checkpoint_that_cannot_be_reached_has_no_gap(caplog: pytest.LogCaptureFixture) -> None:
    gaps = Gaps()
    gaps.starts("s3a://bucket/cp", 1)
    gaps.seconds("s3a://bucket/cp", 2)
    wait_for("the warning", lambda: "is not known" in caplog.text, 60.0)
    assert gaps.seconds("s3a://bucket/cp", 2) is None


def test_whatever_goes_wrong_the_progress_of_the_queries_is_known(
    place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(location: str) -> None:
        raise RuntimeError("can't start new thread")

    gaps = Gaps()
    gaps.starts(place, 1)
    with monkeypatch.context() as no_thread:
        no_thread.setattr(query_starts, "start", lambda *_: fails(""))
        assert gaps.seconds(place, 3) is None
    monkeypatch.setattr(query_starts, "locate", fails)
    gaps.seconds(place, 3)
    wait_for("the warning", lambda: "is not known" in caplog.text, 60.0)
    assert gaps.seconds(place, 3) is None
