"""Checkpoints on a real HDFS, read over its WebHDFS, and what happens while it is frozen."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.checkpoint.location import files_of
from airflow_stream_provider.checkpoint.logs import numeric_names, read_offsets
from airflow_stream_provider.lifecycle.errors import CheckpointError
from chaos.patience import answered
from devstack import checkpoint_trees as trees
from devstack.commits import CommitWatcher, written_at
from devstack.places import Storage, open_storage


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    with open_storage("hdfs", tmp_path_factory.mktemp("storage")) as running:
        folder = running.folder
        assert folder is not None
        # On a busy machine a cold NameNode may need longer for its first answers than anybody waits.
        answered(lambda: numeric_names(folder / "checkpoints"))
        yield running


def put(storage: Storage, tree: Path, folder: str) -> None:
    """Write a local tree to HDFS, as the user who runs it."""
    client: Any = storage.folder.files._client  # type: ignore[union-attr]  # of HDFS
    for path in sorted(each for each in tree.rglob("*") if each.is_file()):
        client.write(f"/streams/{folder}/{path.relative_to(tree)}", path.read_bytes(), overwrite=True)


def test_batches_are_read_with_the_times_of_the_name_node(storage: Storage, tmp_path: Path) -> None:
    assert storage.folder is not None
    there = storage.folder / "checkpoints" / "orders" / "enrich"
    assert numeric_names(there / "offsets") == []
    began = time.time()
    trees.plan(tmp_path, 0, trees.kafka(orders={0: 7}))
    trees.commit(tmp_path, 0)
    put(storage, tmp_path, "checkpoints/orders/enrich")
    assert numeric_names(there / "offsets") == [0]
    assert list(read_offsets(there / "offsets" / "0").sources.values()) == ['{"orders":{"0":7}}']
    at = written_at(there / "commits" / "0")
    assert at is not None
    assert began - 0.01 <= at <= time.time()
    watcher = CommitWatcher({"enrich": there})
    watcher.look()
    assert watcher.commits["enrich"] == {0: at}
    assert written_at(there / "commits" / "1") is None
    with pytest.raises(FileNotFoundError):
        read_offsets(there / "offsets" / "1")


def test_one_that_is_frozen_is_given_up_and_asked_again(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert storage.folder is not None
    assert storage.server is not None
    trees.commit(tmp_path, 0)
    put(storage, tmp_path, "frozen")
    monkeypatch.setattr(files_of(storage.folder)._client, "_timeout", (5.0, 1.0))  # type: ignore[attr-defined]  # of HDFS
    there = storage.folder / "frozen" / "commits"
    storage.server.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(CheckpointError, match="cannot be read"):
            numeric_names(there)
        with pytest.raises(OSError, match="timed out"):
            files_of(there).read(there / "0")
    finally:
        storage.server.send_signal(signal.SIGCONT)
    monkeypatch.undo()
    assert answered(lambda: numeric_names(there)) == [0]
