"""Which files hold the state at a version. test_clone.py has the formats of RocksDB."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint.whole import state_files
from airflow_stream_provider.lifecycle.errors import CheckpointError
from devstack import checkpoint_trees as trees


def store(folder: Path, *names: str) -> Path:
    for name in names:
        trees.put(folder / name, "state")
    return folder


def names(state: Path, version: int) -> list[str]:
    return sorted(str(path.relative_to(state)) for path in state_files(state, version))


def test_the_newest_base_and_the_changes_after_it(tmp_path: Path) -> None:
    store(tmp_path / "0" / "0", "1.delta", "2.delta", "2.snapshot", "3.delta", "4.delta", "5.snapshot", "5.delta")
    assert names(tmp_path, 4) == ["0/0/2.snapshot", "0/0/3.delta", "0/0/4.delta"]
    assert names(tmp_path, 5) == ["0/0/5.snapshot"]
    assert names(tmp_path, 1) == ["0/0/1.delta"]


def test_every_store_of_every_operator_and_partition_counts(tmp_path: Path) -> None:
    for folder in ("0/0", "0/1", "1/0/left", "1/0/right"):
        store(tmp_path / folder, "1.delta")
    store(tmp_path / "0" / "_metadata", "metadata")
    assert names(tmp_path, 1) == ["0/0/1.delta", "0/1/1.delta", "1/0/left/1.delta", "1/0/right/1.delta"]


def test_a_missing_change_is_named(tmp_path: Path) -> None:
    store(tmp_path / "0" / "0", "1.delta", "3.delta")
    with pytest.raises(FileNotFoundError) as caught:
        state_files(tmp_path, 3)
    assert caught.value.filename == str(tmp_path / "0" / "0" / "2.*")


def test_a_snapshot_without_its_list_of_tables_is_damaged(tmp_path: Path) -> None:
    store(tmp_path / "0" / "0", "1.zip")
    with pytest.raises(CheckpointError, match="not a RocksDB snapshot"):
        state_files(tmp_path, 1)


@pytest.mark.parametrize("name", ["../../../secret", "/etc/passwd", "..", ""])
def test_a_snapshot_that_lists_files_elsewhere_is_damaged(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "0" / "0"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "1.zip", "w") as file:
        file.writestr("metadata", "v1\n" + json.dumps({"sstFiles": [{"dfsSstFileName": name}]}))
    with pytest.raises(CheckpointError, match="not beside its other tables"):
        state_files(tmp_path, 1)


def test_no_state_needs_no_files(tmp_path: Path) -> None:
    assert state_files(tmp_path / "nowhere", 3) == []
