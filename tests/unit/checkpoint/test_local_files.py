"""What local files do that no test of checkpoints sees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint import local_files
from airflow_stream_provider.checkpoint.local_files import LocalFiles
from airflow_stream_provider.lifecycle.errors import CheckpointError

FILES = LocalFiles()


def test_folders_are_walked_without_those_that_are_left_out(tmp_path: Path) -> None:
    for name in ("a/1", "a/b/2", "a/skip/3", "c/4"):
        FILES.write(tmp_path / name, b"x")
    (tmp_path / "empty").mkdir()
    found = {str(folder): names for folder, names in FILES.walk(tmp_path, skip=("skip",))}
    assert found == {f"{tmp_path}/a": ["1"], f"{tmp_path}/a/b": ["2"], f"{tmp_path}/c": ["4"]}
    assert list(FILES.walk(tmp_path / "nowhere")) == []


def test_a_link_to_a_folder_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "1").symlink_to(tmp_path)
    with pytest.raises(CheckpointError, match="symbolic link"):
        list(FILES.walk(tmp_path / "state"))


def test_there_are_no_facts_of_what_is_not_there(tmp_path: Path) -> None:
    FILES.write(tmp_path / "folder" / "file", b"four")
    folder, file, gone = FILES.facts([tmp_path / "folder", tmp_path / "folder" / "file", tmp_path / "gone"])
    assert folder is not None
    assert file is not None
    assert (folder.is_folder, file.is_folder, file.size, gone) == (True, False, 4, None)


def test_what_is_not_there_is_removed_in_silence(tmp_path: Path) -> None:
    FILES.remove(tmp_path / "gone")
    FILES.write(tmp_path / "folder" / "deep" / "file", b"")
    FILES.remove(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


def test_where_a_folder_cannot_be_made_is_said(tmp_path: Path) -> None:
    FILES.write(tmp_path / "file", b"")
    with pytest.raises(NotADirectoryError) as caught:
        FILES.check_writable(tmp_path / "file" / "checkpoint")
    assert caught.value.filename == str(tmp_path / "file")


def test_a_file_is_read_if_it_is_a_small_one_and_no_link_or_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever writes a checkpoint need not be allowed to read what this user may."""
    monkeypatch.setattr(local_files, "SMALL", 4)
    (tmp_path / "by-a-link").symlink_to(tmp_path)  # users may keep the folder elsewhere
    file, link, pipe = (tmp_path / "by-a-link" / name for name in ("file", "link", "pipe"))
    FILES.write(file, b"four")
    assert FILES.read(file) == b"four"
    with FILES.open(file) as opened:
        assert opened.read() == b"four"
    link.symlink_to(file)
    os.mkfifo(pipe)
    for each in (link, pipe, tmp_path):
        for ask in (FILES.read, FILES.open):
            with pytest.raises(CheckpointError, match="is not a regular file"):
                ask(each)
    FILES.write(file, b"fives")
    with pytest.raises(CheckpointError, match="is larger than 4 bytes"):
        FILES.read(file)
    for ask in (FILES.read, FILES.open):
        with pytest.raises(FileNotFoundError):
            ask(tmp_path / "gone")
