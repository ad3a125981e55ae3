"""Waiting for a commit of another machine."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint import visible
from airflow_stream_provider.checkpoint.visible import await_commit, list_anew
from airflow_stream_provider.lifecycle.errors import CheckpointError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
        (tmp_path / log / "6").touch()
    return tmp_path


def commit(root: Path, batch: int) -> None:
    for log in ("offsets", "commits"):
        (root / log / str(batch)).touch()


def test_what_is_there_is_not_waited_for_and_nothing_is_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visible, "_change", None)
    await_commit(root, 6, 0.0)
    commit(root, 8)
    await_commit(root, 7, 0.0)


def test_a_commit_that_appears_once_the_folders_have_changed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An NFS client lists a folder anew when it has changed it itself."""
    changed: list[str] = []
    change = visible._change

    def noted(folder: Path) -> None:
        change(folder)
        changed.append(folder.name)
        if changed == ["offsets", "commits"]:
            commit(root, 7)

    monkeypatch.setattr(visible, "_change", noted)
    await_commit(root, 7, 3600.0)
    assert changed == ["offsets", "commits"]
    assert sorted(os.listdir(root / "commits")) == ["6", "7"]


def test_the_logs_are_listed_anew_by_a_change_that_leaves_nothing(root: Path, tmp_path: Path) -> None:
    for log in ("offsets", "commits"):
        os.utime(root / log, (0.0, 0.0))
    list_anew(root)
    assert all((root / log).stat().st_mtime for log in ("offsets", "commits"))
    assert os.listdir(root / "commits") == ["6"]
    list_anew(tmp_path / "that has not begun")


def test_a_commit_that_comes_late(root: Path) -> None:
    timer = threading.Timer(0.5, commit, (root, 7))
    timer.start()
    await_commit(root.as_uri(), 7, 3600.0)
    timer.join()


def test_a_commit_that_is_not_required_is_waited_for_all_the_same(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    await_commit(root, 7, 0.5, required=False)
    assert "ends at batch 6 here; before the stop, batch 7 was committed" in caplog.text
    timer = threading.Timer(0.5, commit, (root, 7))
    timer.start()
    await_commit(root, 7, 3600.0, required=False)
    timer.join()
    assert "7" in os.listdir(root / "commits")


@pytest.mark.parametrize("batch", [7, 0])
def test_a_commit_that_does_not_appear_is_an_error(root: Path, batch: int) -> None:
    where = root if batch else root / "new"
    with pytest.raises(CheckpointError, match=f"its former holder committed batch {batch}") as caught:
        await_commit(where, batch, 0.5)
    assert caught.value.fields["batch"] == batch
    assert os.listdir(root / "commits") == ["6"]
