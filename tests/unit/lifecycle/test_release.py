"""A release through the `declared` record, also of a version that knows fewer or more fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_stream_provider.lifecycle.errors import SpecError
from airflow_stream_provider.lifecycle.release import Release

HASH = "abc0" * 16
FULL = Release("2", HASH, "app.py", ("--from", "x y"), ("lib.zip", "b.py"), {"spark.cores.max": "2"})


@pytest.mark.parametrize("release", [Release("1"), FULL, Release("3", storage="s3a://bucket", format=2)])
def test_what_was_declared_is_read(release: Release) -> None:
    assert Release.from_json(json.loads(json.dumps(release.to_json()))) == release


@pytest.mark.parametrize(
    ("data", "release"),
    [
        ({"version": "1", "of_next_year": {}}, Release("1")),
        ({"version": 2}, Release("2")),
        ({"version": "1", "format": "2"}, Release("1")),
        ({"version": "1", "format": True}, Release("1")),
        ({"version": "1", "format": 0}, Release("1")),
        ({"version": "1", "arguments": ["a"], "py_files": ["b"]}, Release("1", arguments=("a",), py_files=("b",))),
    ],
)
def test_a_record_of_another_version_is_read_as_far_as_it_is_known(data: dict[str, Any], release: Release) -> None:
    assert Release.from_json(data) == release


def test_a_release_without_a_version_is_none() -> None:
    with pytest.raises(KeyError, match="version"):
        Release.from_json({"hash": "0123456789abcdef" * 4})


def test_its_folder_is_named_by_its_contents() -> None:
    assert FULL.folder(Path("/control/orders")) == Path(f"/control/orders/releases/{HASH}")


@pytest.mark.parametrize(
    "fields",
    [
        {"hash": "../../.."},
        {"hash": "0" * 16},
        {"hash": "0" * 64 + "\n"},
        {"hash": "0" * 63},
        {"hash": "0123456789ABCDEF" * 4},
        {"application": "../app.py"},
        {"application": "/app.py"},
        {"application": ".."},
        {"application": "a\0.py"},
        {"py_files": ("lib.zip", "a/b.py")},
    ],
)
def test_what_becomes_part_of_a_path_is_checked(fields: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        Release("1", **fields)
    with pytest.raises(SpecError):
        Release.from_json({"version": "1", **fields})


def test_its_hash_does_not_depend_on_where_it_lies_or_what_its_runtime_knows() -> None:
    assert Release("1", storage="s3a://bucket", format=2).settings() == Release("1").settings()
