"""Whether a checkpoint is the one that was seen, and waiting for a commit of another machine."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint import visible
from airflow_stream_provider.checkpoint.local_files import LocalFiles
from airflow_stream_provider.checkpoint.visible import Seen, await_seen, is_another, list_anew
from airflow_stream_provider.lifecycle.errors import CheckpointBroken


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
    monkeypatch.setattr(visible, "list_anew", None)
    assert await_seen(root, Seen(batch=6), 0.0) == Seen(batch=6)
    commit(root, 8)
    assert await_seen(root, Seen(batch=7), 0.0) == Seen(batch=8)


def test_a_commit_that_appears_once_the_folders_have_changed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An NFS client lists a folder anew when it has changed it itself."""
    changed: list[str] = []
    change = LocalFiles.list_anew

    def noted(files: LocalFiles, folder: Path) -> None:
        change(files, folder)
        changed.append(folder.name)
        if changed == ["offsets", "commits"]:
            commit(root, 7)

    monkeypatch.setattr(LocalFiles, "list_anew", noted)
    await_seen(root, Seen(batch=7), 3600.0)
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
    await_seen(root.as_uri(), Seen(batch=7), 3600.0)
    timer.join()


@pytest.mark.parametrize(
    ("expected", "found", "another"),
    [
        (Seen(), Seen(), False),
        (Seen(), Seen("a", 7), False),
        (Seen("a", 7), Seen("a", 7), False),
        (Seen("a", 7), Seen("a", 8), False),
        (Seen("", 7), Seen("a", 7), False),
        (Seen("a", 7), Seen("a", 6), True),
        (Seen("a", 7), Seen("a"), True),
        (Seen("a", 7), Seen(), True),
        (Seen("", 0), Seen(), True),
        (Seen("a", 7), Seen("b", 7), True),
        (Seen("a", 7), Seen("b", 8), True),
        (Seen("a", 7), Seen("", 8), True),
        # Nothing was ever committed: it may begin, and is not another's.
        (Seen("a"), Seen(), False),
        (Seen("a"), Seen("b"), True),
    ],
)
def test_what_begins_anew_or_goes_back_is_another_checkpoint(expected: Seen, found: Seen, another: bool) -> None:
    assert is_another(expected, found) is another


@pytest.mark.parametrize("place", ["root", "new"])
def test_a_commit_that_does_not_appear_is_an_error(root: Path, place: str) -> None:
    where, found = (root, 6) if place == "root" else (root / "new", None)
    with pytest.raises(CheckpointBroken, match=r"batch 7 committed was seen before.*`changed_checkpoints`") as caught:
        await_seen(where, Seen(batch=7), 0.5)
    assert (caught.value.fields["batch"], caught.value.fields["found"]) == (7, found)
    assert os.listdir(root / "commits") == ["6"]


def test_another_query_is_told_at_once(root: Path) -> None:
    (root / "metadata").write_text('{"id":"another"}')
    with pytest.raises(
        CheckpointBroken, match="of the query id another here, and batch 6 committed, of the query id a"
    ):
        await_seen(root, Seen("a", 6), 3600.0)


def test_what_is_seen_later_counts_and_no_batch_is_forgotten() -> None:
    assert Seen("a", 7).and_then(Seen("b", None)) == Seen("b", 7)
    assert Seen("a", 7).and_then(Seen("", 9)) == Seen("a", 9)
    assert Seen("a", 9).and_then(Seen("b", 7)) == Seen("b", 9)
