"""The two logs of a checkpoint, read by the names and the contents of their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint import boundary
from airflow_stream_provider.checkpoint.logs import check_commit, kafka_offsets, numeric_names, read_offsets
from airflow_stream_provider.lifecycle.errors import CheckpointError
from devstack import checkpoint_trees as trees


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return trees.new(tmp_path / "checkpoint")


def test_names_of_a_log_are_sorted_as_numbers(root: Path) -> None:
    for name in ("10", "9", "100", ".9.crc", "9.tmp", "x", "-1", "٣"):
        trees.put(root / "offsets" / name, "", checked=False)
    assert numeric_names(root / "offsets") == [9, 10, 100]
    assert numeric_names(root / "commits") == []


def test_format_1_numbers_the_sources(root: Path) -> None:
    entry = read_offsets(trees.plan(root, 0, trees.kafka(orders={0: 3}), "-", "19"))
    assert (entry.version, entry.conf) == (1, trees.CONF)
    assert entry.sources == {"0": '{"orders":{"0":3}}', "1": None, "2": "19"}


def test_format_2_names_the_sources_and_values_may_have_colons(root: Path) -> None:
    entry = read_offsets(trees.plan_v2(root, 0, orders=trees.kafka(orders={0: 3}), idle="-"))
    assert entry.version == 2
    assert entry.sources == {"orders": '{"orders":{"0":3}}', "idle": None}


def test_a_line_without_a_name_in_format_2_is_damage(root: Path) -> None:
    with pytest.raises(CheckpointError, match="the line of a source has no name"):
        read_offsets(trees.put(root / "offsets" / "0", "v2\n{}\nnothing"))


def test_a_purged_file_is_not_damage(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_offsets(root / "offsets" / "0")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_known_formats_of_a_commit(root: Path, version: int) -> None:
    check_commit(trees.commit(root, 0, version=version))


def test_a_newer_format_of_a_commit_is_refused(root: Path) -> None:
    with pytest.raises(CheckpointError, match="format v4, but only formats up to v3"):
        check_commit(trees.commit(root, 0, version=4))


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ('{"orders":{"0":3,"1":4}}', {"orders": {0: 3, 1: 4}}),
        ("{}", {}),
        (None, None),
        ("19", None),
        ("not json", None),
        ('{"logOffset":0}', None),
        ('{"shard":{"0":"abc"}}', None),
        ('{"shard":{"x":1}}', None),
        ('{"a":{"0":true}}', None),
    ],
)
def test_only_the_json_of_kafka_has_offsets(text: str | None, offsets: object) -> None:
    assert kafka_offsets(text) == offsets


def test_a_file_in_the_place_of_a_folder_is_an_error(root: Path) -> None:
    trees.put(root / "offsets", "not a folder")
    with pytest.raises(CheckpointError, match="cannot be read"):
        boundary(root)


def test_a_checkpoint_is_at_a_boundary_if_all_planned_batches_are_committed(root: Path) -> None:
    assert boundary(root).completed
    trees.plan(root, 0, "1")
    assert (boundary(root).offsets, boundary(root).commit, boundary(root).completed) == (0, None, False)
    trees.commit(root, 0)
    assert boundary(root).completed
    trees.plan(root, 1, "2")
    assert not boundary(root).completed


@pytest.mark.parametrize("content", ["hunter2", "v1\nhunter2", 'v1\n["hunter2"]', "v1" + "1" * 5000])
def test_nothing_of_a_file_that_is_no_log_is_quoted(root: Path, content: str) -> None:
    with pytest.raises(CheckpointError, match="is damaged") as error:
        read_offsets(trees.put(root / "offsets" / "0", content))
    assert "hunter2" not in str(error.value) + str(error.value.fields)
