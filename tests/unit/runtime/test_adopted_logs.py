"""When the logs of a job without a stream stand still: on real folders and a clock of the test's."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import pytest

from airflow_stream_provider.lifecycle.errors import CheckpointError
from airflow_stream_provider.runtime.adopted_logs import FRESH_SECONDS, AdoptedLogs
from devstack import checkpoint_trees as trees


class Watched:
    """A checkpoint at batch 0, watched by a clock that the test moves."""

    def __init__(self, folder: Path) -> None:
        self.now = 100.0
        self.root = trees.new(folder / "cp")
        trees.plan(self.root, 0, "1")
        trees.commit(self.root, 0)
        self.location = str(self.root)
        self.logs = AdoptedLogs(lambda: self.now)
        self.logs.watch(self.location)

    def look_after(self, seconds: float) -> str:
        self.now += seconds
        self.logs.look()
        return self.logs.moving


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_logs_stand_still_once_they_were_seen_to_for_long_enough(watched: Watched) -> None:
    assert "were written 0 s ago; 5 s are waited" in watched.logs.moving
    assert watched.look_after(4.9)
    assert watched.look_after(0.2) == ""
    assert f"has committed batch 0 of {watched.location}; its logs stand still for 5 s." in watched.logs.says


def test_a_write_begins_the_wait_anew(watched: Watched) -> None:
    watched.look_after(4.0)
    trees.plan(watched.root, 1, "1")
    assert "were written 0 s ago" in watched.look_after(4.0)
    assert "batch 1 is under way" in watched.logs.says
    assert watched.look_after(4.0)
    assert watched.look_after(1.1) == ""


def test_a_job_of_long_batches_is_waited_for_longer(watched: Watched, tmp_path: Path) -> None:
    slow = trees.new(tmp_path / "slow")
    for batch, at in enumerate((1000.0, 1010.0)):
        trees.plan(slow, batch, "1")
        trees.commit(slow, batch)
        os.utime(slow / "commits" / str(batch), (at, at))
    watched.logs.watch(str(slow))
    assert "30 s are waited" in watched.look_after(6.0)
    watched.logs.let_go(watched.location)
    assert watched.look_after(20.0)
    assert watched.look_after(4.5) == ""


def test_what_could_not_be_looked_at_was_not_seen_to_stand_still(watched: Watched) -> None:
    watched.look_after(6.0)
    watched.now += FRESH_SECONDS + 1
    assert "could not be looked at for 6 s" in watched.logs.moving


def test_logs_that_cannot_be_read_do_not_end_the_watch(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(location: str) -> None:
        raise CheckpointError("The disk is away.")

    with monkeypatch.context() as broken:
        broken.setattr("airflow_stream_provider.checkpoint.boundary", away)
        assert watched.look_after(6.0)
    assert watched.look_after(0.1) == ""


def test_a_write_between_the_last_look_and_the_start_is_refused(watched: Watched) -> None:
    watched.look_after(6.0)
    assert watched.logs.refuse_if_moved(watched.location, 0.0)
    trees.plan(watched.root, 1, "1")
    with pytest.raises(CheckpointError, match="does not belong to a stream"):
        watched.logs.refuse_if_moved(watched.location, 0.0)
    watched.logs.let_go(watched.location)
    assert not watched.logs.refuse_if_moved(watched.location, 0.0)
    assert (watched.logs.moving, watched.logs.says) == ("", "")


def test_one_that_was_written_after_the_answer_is_looked_at_once_more(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look in between has seen the write, so what it found has not moved since."""
    asked: list[float] = []

    def being_written(root: object, seconds: float) -> bool:
        asked.append(seconds)
        return seconds > 0

    owner = import_module("airflow_stream_provider.checkpoint.owner")
    monkeypatch.setattr(owner, "is_being_written", being_written)
    assert watched.look_after(6.0) == ""  # it answers
    assert watched.logs.refuse_if_moved(watched.location, 4.0)
    trees.plan(watched.root, 1, "1")
    assert watched.look_after(1.0)
    with pytest.raises(CheckpointError, match="does not belong to a stream"):
        watched.logs.refuse_if_moved(watched.location, 4.0)
    assert asked == [0.0, 4.0]


def test_a_checkpoint_without_a_batch_is_not_that_of_the_job(watched: Watched, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="the job that is to be adopted does not use it"):
        watched.logs.watch(str(tmp_path / "typo"))
