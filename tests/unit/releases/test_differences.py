from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_stream_provider.hooks.compare import Declaration, differences
from airflow_stream_provider.lifecycle.policy import Policy
from airflow_stream_provider.lifecycle.release import Release

RELEASE = Release("1", "a" * 64, "a.py", ("--x", "1"), ("b.py",), {"spark.cores.max": "2"}, {"TZ": "UTC"})
OTHER = "b" * 64
ONE = Declaration(RELEASE, {"a.py": "1", "b.py": "2"}, Policy(), "spark_default")


def found(old: Declaration, new: Declaration) -> dict[str, tuple[Any, Any]]:
    return {each.field: (each.running, each.yaml) for each in differences(old, new)}


@pytest.mark.parametrize(
    ("changes", "field", "running", "yaml"),
    [
        ({"version": "2"}, "version", "1", "2"),
        ({"application": "c.py"}, "application", "a.py", "c.py"),
        ({"arguments": ()}, "arguments", ["--x", "1"], None),
        ({"py_files": ("b.py", "c.zip")}, "py_files", ["b.py"], ["b.py", "c.zip"]),
        ({"conf": {"spark.cores.max": "4"}}, "conf.spark.cores.max", "2", "4"),
        ({"conf": {}}, "conf.spark.cores.max", "2", None),
        (
            {"conf": {"spark.cores.max": "2", "spark.kubernetes.container.image": "spark:4.1"}},
            "conf.spark.kubernetes.container.image",
            None,
            "spark:4.1",
        ),
        ({"environment": {"TZ": "CET"}}, "environment.TZ", "UTC", "CET"),
    ],
)
def test_each_part_of_a_release_is_a_field_and_so_is_its_hash(
    changes: dict[str, Any], field: str, running: Any, yaml: Any
) -> None:
    new = replace(ONE, release=replace(RELEASE, hash=OTHER, **changes))
    assert found(ONE, new) == {"release": ("a" * 64, OTHER), field: (running, yaml)}


def test_files_are_compared_by_hash_and_only_where_both_are_known() -> None:
    new = replace(ONE, release=replace(RELEASE, hash=OTHER), files={"a.py": "1", "b.py": "3", "c.py": "4"})
    whole = {"release": ("a" * 64, OTHER)}
    assert found(ONE, new) == {**whole, "files.b.py": ("2", "3"), "files.c.py": (None, "4")}
    assert found(replace(ONE, files=None), new) == whole


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (replace(ONE, policy=Policy(lease_seconds=45)), {"upgrade.lease_seconds": (30.0, 45)}),
        (replace(ONE, policy=Policy(offsets_group="g")), {"offsets_group": (None, "g")}),
        (replace(ONE, policy=Policy(changed_checkpoints=("/a",))), {}),
        (replace(ONE, policy=Policy(lease_seconds=30)), {}),
        (replace(ONE, cluster="other"), {"cluster": ("spark_default", "other")}),
        (replace(ONE, cluster=""), {}),
        (replace(ONE, release=replace(RELEASE, storage="s3a://bucket/p")), {"storage": (None, "s3a://bucket/p")}),
        (replace(ONE, release=replace(RELEASE, format=7)), {}),
    ],
)
def test_what_is_no_part_of_the_release_differs_without_its_hash(
    new: Declaration, expected: dict[str, tuple[Any, Any]]
) -> None:
    assert found(ONE, new) == expected


def test_the_part_of_a_storage_that_is_a_logs_own_is_no_difference() -> None:
    stored = replace(ONE, release=replace(RELEASE, storage=f"s3a://bucket/p/log.{'0' * 32}"))
    assert found(stored, replace(ONE, release=replace(RELEASE, storage="s3a://bucket/p"))) == {}
    assert list(found(stored, ONE)) == ["storage"]
