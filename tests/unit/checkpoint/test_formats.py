"""In which formats a checkpoint is written, and what an earlier release may not be able to read of it.

What Spark itself writes: tests/integration/runtime/test_way_back.py.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from airflow_stream_provider.checkpoint.whole import Formats, formats, one_way
from airflow_stream_provider.lifecycle.errors import CheckpointError
from devstack import checkpoint_trees as trees

CHECKSUMS = "spark.sql.streaming.stateStore.rowChecksum.enabled"
OFFSETS = trees.kafka(orders={0: 1})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = trees.new(tmp_path / "checkpoint")
    trees.plan(found, 3, OFFSETS)
    trees.commit(found, 3)
    trees.operator(found, 0, "stateStoreSave", 1)
    return found


def test_versions_are_those_of_the_newest_files(root: Path) -> None:
    assert formats(root) == Formats(
        3, {"offsets/": 1, "commits/": 1, "state/0/_metadata": 1, "state/0/0/_metadata/schema": 2}
    )
    trees.plan_v2(root, 4, orders=OFFSETS)
    trees.commit(root, 4, version=2)
    # As Java's writeUTF writes it, and as transformWithState keeps its descriptions.
    trees.put(root / "state" / "0" / "0" / "_metadata" / "schema", struct.pack(">H", 2) + b"v3\0\0")
    trees.put(root / "state" / "0" / "_metadata" / "v2" / "4", "v2\n{}")
    found = formats(root)
    assert (found.batch, dict(found.versions)) == (
        4,
        {"offsets/": 2, "commits/": 2, "state/0/_metadata": 2, "state/0/0/_metadata/schema": 3},
    )


def test_before_a_batch_nothing_is_written(tmp_path: Path) -> None:
    assert formats(trees.new(tmp_path / "new")) == Formats(None)
    assert formats(tmp_path / "none") == Formats(None)


def test_a_format_that_is_not_known_is_refused(root: Path) -> None:
    trees.commit(root, 4, version=9)
    with pytest.raises(CheckpointError, match="only formats up to v3"):
        formats(root)


def test_only_what_is_newer_is_no_way_back() -> None:
    old = Formats(3, {"offsets/": 1, "commits/": 2})
    assert one_way(old, Formats(5, {"offsets/": 2, "commits/": 2})) == ["offsets/ in format v2 instead of v1"]
    assert one_way(old, Formats(5, {"offsets/": 1, "commits/": 1})) == [], "every Spark reads older formats"
    assert one_way(old, Formats(5, {"offsets/": 1, "state/0/_metadata": 2})) == [], "it was not there before"


def test_settings_that_an_older_spark_does_not_know_count_unless_it_does_the_same_without_them() -> None:
    old = Formats(3, {"offsets/": 1})
    assert one_way(old, Formats(4, {"offsets/": 1}, {CHECKSUMS: "false"})) == []
    assert one_way(old, Formats(4, {"offsets/": 1}, {CHECKSUMS: "true"})) == [
        f"its files with {CHECKSUMS}=true instead of false"
    ]
    assert one_way(Formats(None), Formats(0, {"offsets/": 1}, {CHECKSUMS: "true"})) == [], "nobody has written before"


def test_settings_are_read_from_the_newest_batch(root: Path) -> None:
    trees.plan(root, 4, OFFSETS, conf={**trees.CONF, CHECKSUMS: "true"})
    assert formats(root).settings == {CHECKSUMS: "true"}
