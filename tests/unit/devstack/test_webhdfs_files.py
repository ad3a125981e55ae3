"""What is read over a pretended WebHDFS; of a real one, see tests/integration/devstack/test_webhdfs_files.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint import rehearsal_folders
from airflow_stream_provider.checkpoint.files import FileFacts
from airflow_stream_provider.checkpoint.location import files_of
from airflow_stream_provider.checkpoint.logs import kafka_offsets, numeric_names, read_offsets
from airflow_stream_provider.lifecycle.errors import CheckpointError
from devstack import checkpoint_trees as trees
from devstack.commits import CommitWatcher, written_at
from tests.support.pretended_webhdfs import PretendedWebHdfs, hdfs
from tests.support.story import NEW

__all__ = ["hdfs"]


@pytest.fixture
def query(hdfs: PretendedWebHdfs) -> Path:
    return hdfs.folder / "checkpoints" / "enrich"


def test_a_checkpoint_is_read_by_the_code_that_reads_local_ones(hdfs: PretendedWebHdfs, query: Path) -> None:
    there = hdfs.place() / "checkpoints" / "enrich"
    assert numeric_names(there / "offsets") == []
    for number in (9, 10):
        trees.plan(query, number, trees.kafka(orders={0: number}))
    (query / "offsets" / ".11.1a2b.tmp").write_text("")
    assert numeric_names(there / "offsets") == [9, 10]
    [text] = read_offsets(there / "offsets" / "10").sources.values()
    assert kafka_offsets(text) == {"orders": {0: 10}}
    with pytest.raises(FileNotFoundError):
        read_offsets(there / "offsets" / "8")


def test_the_time_of_a_file_is_that_of_its_server(hdfs: PretendedWebHdfs, query: Path) -> None:
    trees.commit(query, 0, at=1234.5)
    there = hdfs.place() / "checkpoints" / "enrich"
    assert written_at(there / "commits" / "0") == 1234.5
    assert written_at(there / "commits" / "1") is None
    os.utime(query, (7.0, 7.0))
    assert files_of(there).facts([there]) == [FileFacts(query.stat().st_size, 7.0, is_folder=True)]


def test_commits_are_watched_and_clones_found(hdfs: PretendedWebHdfs, query: Path) -> None:
    there = hdfs.place() / "checkpoints" / "enrich"
    watcher = CommitWatcher({"enrich": there})
    trees.commit(query, 0, at=10.0)
    watcher.look()
    (query / "commits" / "0").unlink()
    trees.commit(query, 1, at=11.0)
    watcher.look()
    assert watcher.commits["enrich"] == {0: 10.0, 1: 11.0}
    assert rehearsal_folders(there) == {}
    (query.parent / f"enrich.rehearsal-{NEW}").mkdir()
    found = rehearsal_folders(there)
    assert {name: str(place) for name, place in found.items()} == {
        NEW: f"hdfs://namenode:8020/checkpoints/enrich.rehearsal-{NEW}"
    }


def test_one_that_does_not_answer_is_given_up_and_asked_again(hdfs: PretendedWebHdfs, query: Path) -> None:
    trees.commit(query, 0, at=10.0)
    there = hdfs.place() / "checkpoints" / "enrich" / "commits"
    hdfs.frozen.set()
    for read in (lambda: files_of(there).names(there), lambda: written_at(there / "0")):
        with pytest.raises(OSError, match="timed out"):
            read()
    with pytest.raises(OSError, match="timed out"):
        files_of(there).read(there / "0")
    with pytest.raises(CheckpointError, match="cannot be read"):
        numeric_names(there)
    hdfs.frozen.clear()
    assert numeric_names(there) == [0]


def test_what_it_refuses_is_said(hdfs: PretendedWebHdfs) -> None:
    hdfs.denies = True
    with pytest.raises(OSError, match="HDFS says AccessControlException") as found:
        files_of(hdfs.place()).names(hdfs.place())
    assert not isinstance(found.value, FileNotFoundError)
